from dataclasses import replace

import numpy as np
import pytest

from dlbench.analysis.metrics import rates
from dlbench.analysis.metrics.rates import FIELD, PHASE
from dlbench.analysis.metrics.warm_up import without_warm_up
from dlbench.records.result import BatchChange, Result, Segment
from dlbench.telemetry.journal import Journal
from dlbench.telemetry.messages import STEP_FIELDS

# Steps of each piece; between them one is sampled.
PIECES = (6, 7, 15, 17, 49)


def worker(step_times: list[float]) -> tuple[np.ndarray, Result]:
    """Return the rows and the result of a worker whose steps in pieces take so long; others take 1 s."""
    phases, segments, moment, given = ["first"], [], 1.0, iter(step_times)
    rows = [(0.0, 1.0)]
    for steps in PIECES:
        times = {"opened_at_s": moment}
        for _ in range(steps):
            rows.append((moment, next(given)))
            moment += rows[-1][1]
        segments.append(Segment(**times, closing_at_s=moment, closed_at_s=moment, steps=steps, samples=4 * steps))
        rows.append((moment, 1.0))
        moment += 1.0
        phases += ["timed"] * steps + ["sampled"]
    table = np.zeros((len(rows), len(STEP_FIELDS)))
    table[:, [FIELD["started_at_s"], FIELD["step_time_s"]]] = rows
    table[:, FIELD["num_steps"]], table[:, FIELD["step"]] = 1, np.arange(len(rows)) + 1
    table[:, FIELD["phase"]] = [PHASE[phase] for phase in phases]
    return table, Result(steps=len(rows), segments=tuple(segments))


def journal(*workers: tuple[np.ndarray, Result]) -> Journal:
    return Journal(
        steps={rank: rows for rank, (rows, _) in enumerate(workers)},
        results={rank: result for rank, (_, result) in enumerate(workers)},
    )


def step_times(slow_steps: int) -> list[float]:
    return [3.0] * slow_steps + [1.0, 1.01] * 47


def phase_steps(found: Journal, rank: int, phase: str) -> list[int]:
    return rates.in_phase(found.steps[rank], phase)[:, FIELD["step"]].astype(int).tolist()


def test_the_warm_up_takes_whole_pieces_and_what_was_sampled_among_them():
    found, detected = without_warm_up(journal(worker(step_times(10))))
    assert detected is True
    # 10 steps reach into the second piece, which ends with step 15.
    assert phase_steps(found, 0, "warm-up") == list(range(2, 16))
    assert phase_steps(found, 0, "sampled") == [16, 32, 50, 100]
    assert phase_steps(found, 0, "timed")[0] == 17
    assert [piece.steps for piece in found.results[0].segments] == [15, 17, 49]
    assert rates.window(found.results.values())["timed_window_s"] == pytest.approx(sum(step_times(10)[13:94]))


def test_steps_of_a_batch_that_changed_are_no_warm_up():
    change = BatchChange.model_construct(step=12, batch_size=8)
    found, detected = without_warm_up(replace(journal(worker(step_times(10))), batch_changes=[change]))
    assert detected is None
    assert phase_steps(found, 0, "warm-up") == []
    assert [piece.steps for piece in found.results[0].segments] == list(PIECES)


def test_the_worker_that_warms_up_last_decides_for_all():
    found, _ = without_warm_up(journal(worker(step_times(0)), worker(step_times(20))))
    for rank in (0, 1):
        assert phase_steps(found, rank, "timed")[0] == 33
        assert [piece.steps for piece in found.results[rank].segments] == [17, 49]


def test_without_a_transient_nothing_but_the_first_step_is_left_out():
    given = journal(worker(step_times(0)))
    found, _ = without_warm_up(given)
    assert np.array_equal(found.steps[0], given.steps[0])
    assert found.results == given.results


def test_a_run_that_failed_is_cut_too_where_its_rows_say():
    rows, _ = worker(step_times(10))
    found, detected = without_warm_up(Journal(steps={0: rows[:70]}))
    assert detected is True
    assert phase_steps(found, 0, "warm-up") == list(range(2, 13))
    assert without_warm_up(Journal()) == (Journal(), None)


@pytest.mark.parametrize(
    ("row", "field", "change"),
    # Moved before its piece; longer than the barrier that closes it; sampled, and counted.
    [(20, "started_at_s", -10.0), (30, "step_time_s", 0.5), (49, "phase", PHASE["timed"] - PHASE["sampled"])],
)
def test_no_rate_comes_from_steps_that_are_not_inside_their_piece(row, field, change):
    rows, result = worker(step_times(0))
    honest, _ = without_warm_up(journal((rows, result)))
    assert rates.window(honest.results.values())
    odd = rows.copy()
    odd[row, FIELD[field]] += change
    found, _ = without_warm_up(journal((odd, result)))
    assert found.results[0].segments == ()
    assert not rates.window(found.results.values())


def test_no_rate_where_workers_saw_different_pieces():
    rows, result = worker(step_times(0))
    joined = result.model_copy(update={"segments": result.segments[:-1]})
    found, _ = without_warm_up(journal((rows, result), (rows, joined)))
    assert not rates.window(found.results.values())


def not_waiting(num_steps: int, step_s: float, slow_steps: int, *, is_first: bool) -> tuple[np.ndarray, Result]:
    """Return the rows of a worker that waits for nobody, and 10 pieces that all have in common from 2 s to 102 s."""
    times = np.full(num_steps, step_s)
    times[:slow_steps] *= 2
    started = np.cumsum(times) - times
    table = np.zeros((num_steps, len(STEP_FIELDS)))
    table[:, FIELD["started_at_s"]], table[:, FIELD["step_time_s"]], table[:, FIELD["num_steps"]] = started, times, 1
    table[:, FIELD["step"]] = np.arange(num_steps) + 1
    table[:, FIELD["phase"]] = [PHASE["first"]] + [PHASE["timed"]] * (num_steps - 1)
    counts = {"steps": int(10 / step_s), "samples": 100 if is_first else 0}
    pieces = (Segment(opened_at_s=2.0 + 10 * i, closed_at_s=12.0 + 10 * i, common=True, **counts) for i in range(10))
    return table, Result(steps=num_steps, segments=tuple(pieces))


def test_workers_that_do_not_wait_lose_the_pieces_before_all_are_warm():
    # The first worker's 10 slow steps of 2 s end at 20 s, those of the other at 40 s.
    first, second = not_waiting(110, 1.0, 10, is_first=True), not_waiting(55, 2.0, 10, is_first=False)
    found, _ = without_warm_up(journal(first, second))
    opened = [[piece.opened_at_s for piece in result.segments] for result in found.results.values()]
    assert opened == [[42.0, 52.0, 62.0, 72.0, 82.0, 92.0]] * 2
    for rank in (0, 1):
        rows = found.steps[rank]
        ended = rows[:, FIELD["started_at_s"]] + rows[:, FIELD["step_time_s"]]
        warm, after = (rows[:, FIELD["phase"]] == PHASE[name] for name in ("warm-up", "remainder"))
        assert ended[warm].max() <= 42.0
        assert ended[after].min() > 102.0
        assert not (warm | after)[(ended > 42.0) & (ended <= 102.0)].any()
    window = rates.window(found.results.values())
    assert (window["timed_window_s"], window["timed_samples"]) == (60.0, 600)
    # They make different numbers of steps: the mean counts.
    assert window["timed_steps"] == (60 + 30) // 2


def test_a_step_that_ends_within_rounding_of_a_cut_is_counted_where_its_row_is():
    rows, result = not_waiting(110, 1.0, 10, is_first=True)
    ended = rows[:, FIELD["started_at_s"]] + rows[:, FIELD["step_time_s"]]
    rows[ended == 42.0, FIELD["step_time_s"]] += 4e-7  # after the cut at 42 s: its piece has one more
    pieces = tuple(
        piece.model_copy(update={"steps": piece.steps + (piece.opened_at_s == 42.0)}) for piece in result.segments
    )
    own = (rows, result.model_copy(update={"segments": pieces}))
    found, _ = without_warm_up(journal(own, not_waiting(55, 2.0, 10, is_first=False)))
    counted = sum(piece.steps for piece in found.results[0].segments)
    assert counted == len(rates.in_window(found.steps[0])) == 60
    rates.between_steps(found.results.values(), found.steps.values())


def test_calls_of_several_steps_are_cut_where_single_steps_would_be():
    """Each fifth step's row stands for the four before it, too: pieces are of 10, 25 and 55 steps."""
    several = np.zeros((21, len(STEP_FIELDS)))
    several[:, FIELD["num_steps"]] = [1, *[5] * 20]
    several[:, FIELD["step"]] = np.cumsum(several[:, FIELD["num_steps"]])
    several[:, FIELD["step_time_s"]] = [1.0, 25.0, 25.0, *[5.0, 5.05] * 9]
    ended = np.cumsum(several[:, FIELD["step_time_s"]])
    several[:, FIELD["started_at_s"]] = ended - several[:, FIELD["step_time_s"]]
    phases = ["first", *["timed"] * 2, "sampled", *["timed"] * 5, "sampled", *["timed"] * 11]
    several[:, FIELD["phase"]] = [PHASE[phase] for phase in phases]
    segments = tuple(
        Segment(opened_at_s=ended[first - 1], closed_at_s=ended[last], steps=5 * (last - first + 1), samples=9)
        for first, last in ((1, 2), (4, 8), (10, 20))
    )
    found, detected = without_warm_up(journal((several, Result(steps=101, segments=segments))))
    assert detected is True
    assert [piece.steps for piece in found.results[0].segments] == [25, 55]
    assert phase_steps(found, 0, "warm-up") == [6, 11]
    shifted = several.copy()
    shifted[5, FIELD["started_at_s"]] -= 50
    assert without_warm_up(journal((shifted, Result(steps=101, segments=segments))))[0].results[0].segments == ()
