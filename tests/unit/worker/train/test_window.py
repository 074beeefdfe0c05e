from time import sleep

import numpy as np
import pytest

from dlbench.worker.train import window as window_module
from dlbench.worker.train.window import StepRecorder, Window, has_settled, is_check_step


class Meeting:
    """Workers that agree with this one, unless told otherwise; counts its barriers."""

    def __init__(self) -> None:
        self.barriers, self.others_unsettled = 0, False

    def barrier(self) -> None:
        self.barriers += 1

    def any(self, flag: bool) -> bool:
        return flag or self.others_unsettled


def window(meeting: Meeting, latest: int = 100) -> Window:
    return Window(meeting, latest_step=latest, observer_cpu_s=lambda: 0.0)


def test_checks_come_at_ever_longer_distances() -> None:
    assert [step for step in range(1, 400) if is_check_step(step)] == [32, 48, 64, 96, 128, 192, 256, 384]


def test_falling_step_times_have_not_settled_and_level_ones_have() -> None:
    assert not has_settled([1.0 / step for step in range(1, 20)])
    assert has_settled([9.0] + [1.0, 1.01] * 10)
    assert not has_settled([1.0, 1.0])


def test_the_window_opens_only_when_every_worker_has_settled() -> None:
    meeting = Meeting()
    meeting.others_unsettled = True
    mine = window(meeting)
    for _ in range(32):
        mine.count(1.0, 4)
    assert not mine.is_warm
    meeting.others_unsettled = False
    for _ in range(16):
        mine.count(1.0, 4)
    assert mine.is_warm
    assert mine.detected
    assert mine.warmup_steps == 48


@pytest.mark.parametrize("fall", [0.003, 0.005, 0.009])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_the_window_stays_closed_while_steps_become_faster_however_slowly(fall: float, noise: float) -> None:
    random = np.random.default_rng(0)
    mine = window(Meeting(), latest=512)
    last_change = 200
    for step in range(1, 600):
        mine.count(2.0 - fall * min(step, last_change) + noise * random.random(), 4)
        if mine.is_warm:
            break
    assert mine.warmup_steps >= last_change


def test_the_window_opens_at_the_latest_step_and_says_it_was_not_detected() -> None:
    mine = window(Meeting(), latest=10)
    for step in range(10):
        mine.count(1.0 / (step + 1), 4)
    assert mine.is_warm
    assert mine.detected is False


def test_pieces_open_and_close_at_barriers_and_hold_what_was_counted_between() -> None:
    meeting = Meeting()
    mine = window(meeting, latest=1)
    mine.count(1.0, 4)
    for steps in (3, 2):
        mine.open(0.0)
        for _ in range(steps):
            sleep(0.001)
            mine.count(0.001, 4)
        mine.close(0.0)
    mine.open(0.0)
    mine.close(0.0)
    assert meeting.barriers == 6
    assert [(piece.steps, piece.samples) for piece in mine.segments] == [(3, 12), (2, 8)]
    assert all(piece.closed_at_s - piece.opened_at_s >= piece.steps * 0.001 for piece in mine.segments)
    assert mine.timed_steps == 5
    assert not mine.is_sufficient


def test_enough_means_fifty_steps_and_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(window_module, "perf_counter", lambda: now[0])
    mine = window(Meeting(), latest=1)
    mine.count(1.0, 1)
    mine.open(0.0)
    for _ in range(49):
        mine.count(1.0, 1)
    now[0] = 100.0
    mine.close(0.0)
    assert not mine.is_sufficient
    mine.open(0.0)
    mine.count(1.0, 1)
    mine.close(0.0)
    assert mine.is_sufficient


def test_rows_leave_in_whole_blocks_and_none_is_lost() -> None:
    blocks: list[np.ndarray] = []
    recorder = StepRecorder(lambda rows: blocks.append(rows.copy()), interval_s=1e9, capacity=4)
    for step in range(10):
        recorder.add((step,) * 13, 0.0)
    assert [len(block) for block in blocks] == [4, 4]
    recorder.flush()
    assert np.concatenate(blocks)[:, 0].tolist() == list(range(10))
