"""Budgets: what they say, what is left of them, and how long a run will probably take."""

import math
import threading

import pytest

from dlbench.errors import UserError
from dlbench.study.budget import Budget, Durations, Spending, read_budget
from tests.unit.study.makers import runs


def test_budgets() -> None:
    for text, seconds in {"2h": 7200, "90 min": 5400, "45": 45}.items():
        assert read_budget(text) == Budget(seconds)
    for text, hours in {"8 device-hours": 8, "0.5device-h": 0.5}.items():
        assert read_budget(text) == Budget(device_hours=hours)
    for text in ("", "soon", "-1h", "0", "0 device-hours", "2 hours-device", "nan"):
        with pytest.raises(UserError, match="--budget"):
            read_budget(text)


def test_what_is_left_goes_by_the_clock_or_by_the_devices() -> None:
    now = [100.0]
    (run,) = runs(1)
    four = run.with_settings(workers=4)
    clock = Spending(Budget(seconds=60), lambda: now[0])
    devices = Spending(Budget(device_hours=1), lambda: now[0])
    now[0] += 20
    assert clock.left_s(run) == clock.left_s(four) == 40
    assert (devices.left_s(run), devices.left_s(four)) == (3600, 900)
    devices.add(four, 450)
    assert (devices.left_s(run), devices.left_s(four)) == (1800, 450)
    assert Spending(Budget()).left_s(run) == math.inf
    assert clock.has_room([(run, 15), (four, 25)])
    assert not clock.has_room([(run, 15), (four, 26)])
    assert devices.has_room([(run, 600), (four, 300)])
    assert not devices.has_room([(run, 601), (four, 300)])
    assert [budget.is_limited for budget in (Budget(), Budget(60), Budget(device_hours=1))] == [False, True, True]


def test_a_run_is_ended_by_the_user_or_where_the_budget_is_spent() -> None:
    now, stop = [0.0], threading.Event()
    (run,) = runs(1)
    until = Spending(Budget(seconds=10), lambda: now[0]).stop(run, stop)
    assert not until.is_set()
    now[0] = 10.0
    assert until.is_set()
    assert not stop.is_set()
    other = Spending(Budget(seconds=100), lambda: now[0]).stop(run, stop)
    stop.set()
    assert other.is_set()
    assert Spending(Budget()).stop(run, stop) is stop


def test_a_run_takes_as_long_as_those_of_its_arm_else_as_the_others() -> None:
    first, second, third = runs(3)
    other = first.with_settings(batch_size=64)
    durations = Durations()
    assert (durations.expected_s(first), durations.total_s([first]), durations.is_known(first)) == (None, None, False)
    durations.add(first.run_id, "completed", 2.0)
    durations.add(second.run_id, "completed", 4.0)
    durations.add(third.run_id, "failed", 100.0)
    durations.add(other.run_id, "failed", 100.0)
    assert durations.is_known(third)
    assert not durations.is_known(other)
    assert (durations.expected_s(third), durations.expected_s(other)) == (3.0, 3.0)
    durations.add(other.run_id, "completed", 9.0)
    assert durations.expected_s(other) == 9.0
    assert durations.total_s([first, third, other]) == 15.0
