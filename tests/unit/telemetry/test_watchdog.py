import contextlib
import os
import time
from types import SimpleNamespace

import pytest

from dlbench.scenario.run_spec import Limits
from dlbench.telemetry import watchdog as watchdog_module
from dlbench.telemetry.watchdog import DUMP_FRACTION, MARGIN_S, KillTimer, Watchdog

LIMITS = Limits(orphan_timeout_s=10, stall_timeout_s=100, startup_timeout_s=50)


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

    monkeypatch.setattr(watchdog_module, "monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def dumps(monkeypatch):
    asked = []
    monkeypatch.setattr(watchdog_module.faulthandler, "dump_traceback_later", lambda delay, file: asked.append(delay))
    monkeypatch.setattr(watchdog_module.faulthandler, "cancel_dump_traceback_later", lambda: asked.append(None))
    return asked


@pytest.fixture
def watchdog(monkeypatch, clock, dumps):
    delays = []
    timer = SimpleNamespace(delays=delays, arm=delays.append, close=lambda: None)
    monkeypatch.setattr(watchdog_module, "KillTimer", lambda: timer)
    made = Watchdog(LIMITS)
    made.timer = timer
    yield made
    with contextlib.suppress(OSError):  # it was stopped
        os.close(made._log)


def test_the_dump_is_put_off_only_by_progress(watchdog, dumps):
    for mark in [("compute", 1), ("compute", 1), ("all_reduce", 1), ("all_reduce", 2), ("all_reduce", 2)]:
        watchdog.progress(mark)
    assert dumps == [DUMP_FRACTION * 100] * 3


def test_a_worker_without_memory_for_a_thread_goes_on(watchdog, monkeypatch):
    def no_thread(*_, **__):
        raise RuntimeError("unable to start watchdog thread")

    monkeypatch.setattr(watchdog_module.faulthandler, "dump_traceback_later", no_thread)
    watchdog.progress(("compute", 3))


def test_contact_arms_the_timer_for_long_and_a_broken_connection_once_for_less(watchdog, clock):
    watchdog.contact(True, "")
    assert watchdog.timer.delays == [110], "longer than any check of the launching side"
    for _ in range(3):
        clock.now += 1
        watchdog.contact(False, "gone")
    assert watchdog.timer.delays == [110, 10 + MARGIN_S]


def test_a_worker_ends_itself_after_the_timeout_and_not_before(watchdog, clock, monkeypatch):
    ended = []
    monkeypatch.setattr(watchdog, "_end", ended.append)
    for has_contact in (False, True):  # also one that never had any
        if has_contact:
            watchdog.contact(True, "")
        clock.now += 10
        watchdog.contact(False, "refused")
        assert ended == []
        clock.now += 0.1
        watchdog.contact(False, "refused")
        assert ended.pop() == "refused"


def test_the_real_timer_can_be_armed_disarmed_and_given_back():
    timer = KillTimer()
    timer.arm(0.05)
    timer.arm(0)
    timer.arm(30)
    timer.close()
    time.sleep(0.1)
    with pytest.raises(OSError, match="timer_settime"):
        timer.arm(1)


def test_stopping_leaves_nothing_armed(watchdog, dumps):
    watchdog.stop()
    assert (watchdog.timer.delays, dumps) == ([0], [None])
    with pytest.raises(OSError):
        os.fstat(watchdog._log)
