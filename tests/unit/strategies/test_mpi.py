import numpy as np
import pytest

from dlbench import plugins
from dlbench.errors import UserError
from dlbench.records.mpi import Mpi
from dlbench.scenario.settings import Settings
from dlbench.strategies import mpi
from tests.unit.strategies.threads import ThreadDriver, run


class Claiming(ThreadDriver):
    """A driver whose library says that it runs a ring."""

    components = ("basic", "tuned")

    def control_variable(self, name: str) -> str | None:
        said = {"coll_tuned_use_dynamic_rules": "true", "coll_tuned_allreduce_algorithm": "ring"}
        return said.get(name, "")


def claiming(driver: ThreadDriver) -> ThreadDriver:
    driver.__class__ = Claiming
    return driver


def test_its_algorithms_are_a_choice_with_a_default() -> None:
    needs = plugins.load("strategies", "mpi").get("NEEDS")
    assert needs.algorithms == ("auto", "ring", "recursive-doubling", "rabenseifner", "own-ring")
    assert (needs.drivers, needs.collectives) == (("mpi",), ("mpi",))


@pytest.mark.parametrize("algorithm", [None, "auto", "ring", "own-ring"])
def test_all_workers_get_the_sum(algorithm: str | None) -> None:
    def work(driver: ThreadDriver) -> np.ndarray:
        strategy = mpi.create(mpi.OPTIONS(), claiming(driver), algorithm)
        return strategy.exchange(np.arange(5.0) * (driver.rank + 1))

    for result in run(3, work):
        np.testing.assert_array_equal(result, np.arange(5.0) * 6)


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        ("auto", (None, None)),
        ("ring", (2 * (2 * 6 * 2 // 3) * 8, 2 * 4)),
        ("own-ring", (2 * (2 * 6 * 2 // 3) * 8, 2 * 4)),
    ],
)
def test_bytes_and_messages_are_counted_where_they_are_known(
    algorithm: str, expected: tuple[int | None, int | None]
) -> None:
    def work(driver: ThreadDriver) -> tuple[int | None, int | None]:
        strategy = mpi.create(mpi.OPTIONS(), claiming(driver), algorithm)
        for _ in range(2):
            strategy.exchange(np.zeros(6))
        return strategy.bytes_sent, strategy.messages_sent

    assert set(run(3, work)) == {expected}


def test_everyone_starts_from_worker_0() -> None:
    def work(driver: ThreadDriver) -> np.ndarray:
        parameters = np.full(3, float(driver.rank + 1))
        mpi.create(mpi.OPTIONS(), driver, "own-ring").broadcast(parameters)
        return parameters

    for parameters in run(3, work):
        np.testing.assert_array_equal(parameters, np.ones(3))


def test_a_library_that_says_otherwise_ends_the_run() -> None:
    def work(driver: ThreadDriver) -> None:
        mpi.create(mpi.OPTIONS(), claiming(driver), "rabenseifner")

    with pytest.raises(RuntimeError, match="was to be rabenseifner, but the MPI library says"):
        run(2, work)


def test_one_worker_needs_no_proof() -> None:
    facts = run(1, lambda driver: mpi.create(mpi.OPTIONS(), driver, "ring").facts())[0]
    assert facts == {"collectives": "mpi", "mpi_version": "threads"}


def test_facts_carry_the_proof() -> None:
    facts = run(2, lambda driver: mpi.create(mpi.OPTIONS(), claiming(driver), "ring").facts())[0]
    assert "coll_tuned_allreduce_algorithm = ring" in facts["algorithm_proof"]


def test_an_unknown_algorithm_gets_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'ring'"):
        run(1, lambda driver: mpi.create(mpi.OPTIONS(), driver, "rings"))


def test_launchers_learn_what_to_tell_open_mpi() -> None:
    assert mpi.mca("own-ring") == {}
    assert mpi.mca(None) == mpi.mca("auto") == {"coll_base_verbose": "9"}
    assert mpi.mca("rabenseifner")["coll_tuned_allreduce_algorithm"] == "rabenseifner"


@pytest.mark.parametrize(
    ("algorithm", "family", "is_refused"),
    [
        ("ring", "MPICH", True),
        ("rabenseifner", "Intel MPI", True),
        ("ring", "Open MPI", False),
        ("ring", "", False),
        ("auto", "MPICH", False),
        ("own-ring", "MPICH", False),
    ],
)
def test_open_mpis_algorithms_are_refused_under_mpich(
    monkeypatch: pytest.MonkeyPatch, algorithm: str, family: str, is_refused: bool
) -> None:
    monkeypatch.setattr(mpi, "mpi_of", lambda mpirun: Mpi(family, "1"))
    said = mpi.refuse(mpi.OPTIONS(), Settings(strategy="mpi", algorithm=algorithm))
    assert bool(said) == is_refused
    assert not is_refused or f"the mpirun here is {family}'s" in said
