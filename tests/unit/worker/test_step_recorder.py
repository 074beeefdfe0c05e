import numpy as np
import pytest

from dlbench.records.columns import FIELD
from dlbench.strategies._step import NAN, StepTimestamps
from dlbench.worker import step_recorder as recorder_module
from dlbench.worker.step_recorder import StepRecorder, Window, is_cut
from dlbench.worker.train.agreement import Diverged
from tests.fakes import KeptReporter


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    moment = [100.0]
    monkeypatch.setattr(recorder_module, "perf_counter", lambda: moment[0])
    return moment


def test_pieces_open_and_close_at_barriers_and_hold_what_was_counted_between(now: list[float]) -> None:
    barriers: list[float] = []

    def barrier() -> None:
        barriers.append(now[0])
        now[0] += 0.25

    mine = Window(barrier, lambda: now[0] / 10)
    for steps in (3, 2, 0):
        mine.open()
        for _ in range(steps):
            now[0] += 1
            mine.count(4, 1.0)
        mine.close_at_barrier(100.0)
        now[0] += 50
    mine.close_at_barrier(100.0)
    assert len(barriers) == 6
    pieces = [
        (piece.opened_at_s, piece.closing_at_s, piece.closed_at_s, piece.steps, piece.samples)
        for piece in mine.segments
    ]
    assert pieces == [(0.25, 3.25, 3.5, 3, 12), (53.75, 55.75, 56, 2, 8)]
    assert [piece.observer_cpu_s for piece in mine.segments] == pytest.approx([0.325, 0.225])
    assert list(mine.step_times) == [1.0] * 5


def test_cuts_come_at_ever_longer_distances_then_every_so_many_steps() -> None:
    def cuts(sample_every: int, steps: int) -> list[int]:
        return [step for step in range(1, steps + 1) if is_cut(step, sample_every)]

    assert cuts(50, 210) == [8, 16, 32, 50, 100, 150, 200]
    assert cuts(10, 35) == [8, 10, 20, 30]
    assert cuts(1000, 2100) == [8, 16, 32, 64, 128, 256, 512, 1000, 2000]


def test_a_call_of_several_steps_is_cut_as_a_whole_and_most_calls_are_not() -> None:
    def cuts(sample_every: int, num_steps: int, calls: int) -> list[int]:
        ends = range(1 + num_steps, 2 + num_steps * calls, num_steps)
        return [step for step in ends if is_cut(step, sample_every, num_steps)]

    assert cuts(50, 10, 16) == [11, 21, 41, 51, 101, 151]
    assert cuts(2, 10, 16) == [11, 21, 41, 81, 121, 161]  # at every fourth, and the early ones


def test_a_row_stands_for_the_steps_of_a_call(now: list[float]) -> None:
    reporter, window = KeptReporter(), Window(lambda: None, lambda: 0.0)
    recorder = StepRecorder(reporter, interval_s=1e9)
    window.open()
    window.count(40, 2.0, 5)
    recorder.add(6, 1, "timed", 40, StepTimestamps(0.0, 0.0, NAN, NAN, NAN, 2.0), 0.5, 5)
    recorder.flush()
    assert reporter.rows[0, [FIELD["step"], FIELD["num_steps"], FIELD["step_time_s"]]].tolist() == [6, 5, 2]
    assert list(window.step_times) == [0.4] * 5
    window.mark_end()
    window.close(0.0)
    assert (window.segments[0].steps, window.segments[0].samples) == (5, 40)
    with pytest.raises(Diverged, match="the loss is nan in steps 7 to 11"):
        recorder.add(11, 1, "timed", 40, StepTimestamps(0.0, 0.0, NAN, NAN, NAN, 2.0), NAN, 5)


def test_rows_leave_in_whole_blocks_and_none_is_lost() -> None:
    reporter = KeptReporter()
    recorder = StepRecorder(reporter, interval_s=1e9, capacity=4)
    for step in range(1, 11):
        recorder.add(step, 1, "timed", 8, StepTimestamps(0.0, 0.0, NAN, NAN, NAN, 0.0), 0.5)
    assert [len(block) for block in reporter.blocks] == [4, 4]
    recorder.flush()
    assert reporter.column("step").tolist() == list(range(1, 11))


def test_a_row_holds_what_lies_between_the_marks() -> None:
    parts = ("started_at_s", "step_time_s", "data_wait_s", "compute_time_s", "peer_wait_s", "communication_time_s",
             "update_time_s")  # fmt: skip
    rows = {
        StepTimestamps(11.0, 12.0, 14.0, 18.0, 34.0, 66.0): (1, 55, 1, 2, 4, 16, 32),
        StepTimestamps(11.0, 12.0, 14.0, NAN, 34.0, 66.0): (1, 55, 1, 2, NAN, 20, 32),
        StepTimestamps(11.0, 12.0, NAN, NAN, NAN, 66.0): (1, 55, 1, 54, NAN, NAN, NAN),
        StepTimestamps(11.0, 12.0, 14.0, NAN, 34.0, 66.0, 3.0, 5.0): (1, 55, 1, 2, NAN, 12, 32),
        StepTimestamps(11.0, 12.0, 14.0, NAN, 34.0, 66.0, pull_s=0.5): (1, 55, 1, 1.5, NAN, 20.5, 32),
        StepTimestamps(11.0, 12.0, 14.0, 18.0, 34.0, 66.0, pull_s=0.5): (1, 55, 1, 1.5, 4, 16.5, 32),
    }
    for timestamps, expected in rows.items():
        reporter = KeptReporter()
        recorder = StepRecorder(reporter, interval_s=1e9)
        recorder.zero = 10.0
        recorder.add(7, 2, "sampled", 8, timestamps, None)
        recorder.flush()
        np.testing.assert_array_equal(reporter.rows[0, [FIELD[name] for name in parts]], expected, str(timestamps))
        named = ("step", "num_steps", "epoch", "phase", "num_samples", "loss")
        np.testing.assert_array_equal(reporter.rows[0, [FIELD[name] for name in named]], (7, 1, 2, 3, 8, NAN))


def test_a_loss_that_is_not_finite_ends_the_run_and_its_row_is_kept() -> None:
    timestamps = StepTimestamps(0.0, 0.0, NAN, NAN, NAN, 0.0)
    for loss in (NAN, float("inf")):
        reporter = KeptReporter()
        recorder = StepRecorder(reporter, interval_s=1e9)
        with pytest.raises(Diverged, match=r"in step 7 \(epoch 2\)"):
            recorder.add(7, 2, "timed", 8, timestamps, loss)
        recorder.add(8, 0, "extended", 8, timestamps, loss)
        recorder.flush()
        assert reporter.column("step").tolist() == [7, 8], "steps of an extended window count in the rate alone"
        assert np.isnan(reporter.column("loss")).all(), "no number of a row is infinite"
