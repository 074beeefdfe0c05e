import numpy as np
import pytest

from dlbench.records.warm_up import batch_medians, pieces_left_out, truncation

NUM_STEPS = 1000


def series(*, transient: float = 0.0, over: float = 40.0, slope: float = 0.0, noise: float = 0.05) -> np.ndarray:
    """Return step times around 1 s: an exponential transient, a linear change over the whole, white noise."""
    steps = np.arange(NUM_STEPS)
    random = np.random.default_rng(7).normal(size=NUM_STEPS)
    return 1.0 + transient * np.exp(-steps / over) + slope * steps / NUM_STEPS + noise * random


def found(step_times: np.ndarray) -> tuple[int, bool | None]:
    return truncation(batch_medians(step_times))


@pytest.mark.parametrize(
    ("step_times", "earliest", "latest"),
    [
        # Where the transient is as small as the standard error of what is left: 40 ln(1 / 0.01) is 184.
        pytest.param(series(transient=1.0), 100, 200, id="transient"),
        pytest.param(series(transient=1.0, over=10.0), 20, 60, id="short-transient"),
        pytest.param(series(), 0, 30, id="noise"),
        pytest.param(np.full(NUM_STEPS, 0.1), 0, 0, id="constant"),
    ],
)
def test_the_truncation_is_near_the_end_of_the_transient(step_times, earliest, latest):
    steps, detected = found(step_times)
    assert detected
    assert earliest <= steps <= latest


@pytest.mark.parametrize("slope", [0.5, -0.5])
def test_step_times_that_never_settle_are_cut_at_the_half_and_said_to(slope):
    assert found(series(slope=slope, noise=0.01)) == (NUM_STEPS // 2, False)


def test_a_stalled_step_is_no_warm_up():
    step_times = series()
    step_times[400] = 500.0
    assert found(step_times)[0] == found(series())[0]


def test_only_the_first_half_is_searched():
    """A change that comes later is for `rate_drift` to show."""
    for change, steps in ((400, 400), (600, 0)):
        step_times = series()
        step_times[:change] += 1.0
        assert found(step_times) == (steps, True)


def test_by_hand():
    # Batches 9, 1, 3, 2, 2: the rest's sum of squares / its count^2 is 41.2 / 25, 2 / 16, 0.667 / 9.
    batches = np.array([9.0, 1.0, 3.0, 2.0, 2.0])
    assert truncation(batches).steps == 10
    assert truncation(np.array([9.0, 1.0, 3.0, 1.0, 3.0])).steps == 5  # 4 / 16 against 2.667 / 9


def test_too_few_steps_do_not_say_whether_they_settled():
    for num_steps, detected in ((0, None), (4, None), (49, None), (50, True)):
        assert found(np.ones(num_steps)) == (0, detected), num_steps


def test_batches_are_medians_of_five_and_what_fills_none_is_left_out():
    assert batch_medians(np.array([5.0, 1, 99, 3, 4, 7, 7, 8, 8, 8, 1, 1])).tolist() == [4, 8]


def test_the_warm_up_takes_whole_pieces():
    for warmup_steps, pieces in ((0, 0), (1, 1), (6, 1), (7, 2), (20, 2), (21, 3), (99, 4)):
        assert pieces_left_out([6, 14, 10], warmup_steps) == pieces
    assert pieces_left_out([], 5) == 1
