import numpy as np
import pytest

from dlbench.strategies import Communicator
from dlbench.worker.train.agreement import Agreement, compare, worst
from tests.fakes import in_threads


def verdicts(*weights: np.ndarray) -> list[Agreement]:
    return in_threads(len(weights), lambda communicator: compare(weights[communicator.rank], communicator))


def test_equal_weights_agree_exactly() -> None:
    for dtype in (np.float32, np.float64):
        weights = np.linspace(-1, 1, 17, dtype=dtype)
        found = verdicts(weights, weights.copy(), weights.copy())
        assert {(each.verdict, each.max_difference) for each in found} == {("exact", 0.0)}


def test_a_difference_is_judged_by_what_the_order_of_sums_explains() -> None:
    for dtype, noise, verdict in (
        (np.float32, 5e-6, "close"), (np.float32, 5e-5, "no"), (np.float64, 1e-13, "close"), (np.float64, 1e-10, "no"),
    ):  # fmt: skip
        weights = np.linspace(-1, 1, 17, dtype=dtype)
        other = weights.copy()
        other[3] += dtype(noise)
        found = verdicts(weights, other)
        assert {each.verdict for each in found} == {verdict}, noise
        assert found[0].max_difference == pytest.approx(noise, rel=0.3)
        assert found[0].weights_hash != found[1].weights_hash
    with np.errstate(invalid="ignore"):
        assert verdicts(np.ones(3), np.array([1.0, np.nan, 1.0]))[0].verdict == "no"


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(("off", "verdict"), [(0.0, "exact"), (1e-13, "close"), (1e-3, "no")])
def test_a_replica_that_is_not_the_first_of_its_process_is_compared_too(
    processes: int, off: float, verdict: str
) -> None:
    weights = np.linspace(-1, 1, 17)
    other = weights.copy()
    other[3] += off

    def look(communicator: Communicator) -> Agreement:
        is_last = communicator.rank == processes - 1
        return compare(weights, communicator, [weights.copy(), other if is_last else weights.copy()])

    found = in_threads(processes, look)
    assert {each.verdict for each in found} == {verdict}
    assert found[0].max_difference == pytest.approx(off, rel=0.3)


def test_the_worst_of_all_comparisons_counts() -> None:
    assert worst(["exact", "no", "close"]) == "no"
    assert worst(["exact", "close"]) == "close"
