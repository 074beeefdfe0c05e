import numpy as np

from dlbench.worker.train.warm_up import WarmUp, has_settled, is_check_step


def test_checks_come_at_ever_longer_distances() -> None:
    assert [step for step in range(1, 400) if is_check_step(step)] == [32, 48, 64, 96, 128, 192, 256, 384]


def test_falling_step_times_have_not_settled_and_level_ones_have() -> None:
    assert not has_settled([1.0 / step for step in range(1, 20)])
    assert has_settled([9.0] + [1.0, 1.01] * 10)
    assert not has_settled([1.0, 1.0])


def test_warm_up_ends_only_when_every_worker_has_settled() -> None:
    others_unsettled = [True]
    mine = WarmUp(lambda flag: flag or others_unsettled[0], 100)
    for _ in range(32):
        mine.count(1.0)
    assert not mine.is_over
    others_unsettled[0] = False
    for _ in range(16):
        mine.count(1.0)
    assert (mine.is_over, mine.detected, mine.steps) == (True, True, 48)


def test_warm_up_goes_on_while_steps_become_faster_however_slowly() -> None:
    last_change = 200
    for fall in (0.003, 0.005, 0.009):
        for noise in (0.0, 0.05):
            random, mine = np.random.default_rng(0), WarmUp(bool, 512)
            while not mine.is_over:
                mine.count(2.0 - fall * min(mine.steps + 1, last_change) + noise * random.random())
            assert mine.steps >= last_change, (fall, noise)


def test_warm_up_ends_at_the_latest_step_and_says_it_was_not_detected() -> None:
    mine = WarmUp(bool, 10)
    for step in range(10):
        mine.count(1.0 / (step + 1))
    assert (mine.is_over, mine.detected) == (True, False)
