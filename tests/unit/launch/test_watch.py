"""When a running attempt is ended, and whom the reason names."""

from typing import Any

import pytest

from dlbench.launch.watch import (
    DEATH_PATIENCE_S,
    ERROR_PATIENCE_S,
    STOPPED_PATIENCE_S,
    ProcessStates,
    Termination,
    Watch,
)
from dlbench.records.outcome import Status
from dlbench.scenario.run_spec import Limits
from dlbench.telemetry.attempt_session import WorkerView
from tests.unit.launch.fakes import error, view, views, well_ended


def check(now: float, *seen: WorkerView, sight: ProcessStates | None = None, **limits: Any) -> Termination | None:
    limits = {"startup_timeout_s": 50.0, "stall_timeout_s": 20.0, **limits}
    return Watch(Limits(**limits), started_at=0.0).check(now, views(*seen), sight or ProcessStates())


def reason(termination: Termination | None, status: Status) -> str:
    assert termination is not None
    assert termination.status is status
    return termination.reason


def test_all_is_well() -> None:
    assert check(19.9, view(0), view(1)) is None


def test_nothing_has_begun() -> None:
    assert check(49.9, WorkerView(0), WorkerView(1)) is None


def test_time_out() -> None:
    assert check(99.9, view(0, progressed_at=99.0), timeout_s=100) is None
    said = reason(check(100.0, view(0, progressed_at=99.0), timeout_s=100), Status.TIMEOUT)
    assert said == "it took longer than timeout_s (100 s); worker 0 (in phase compute at step 5)"


def test_start_up_names_who_has_not_called() -> None:
    waits = view(0, has_trained=False, phase="rendezvous", step=None)
    said = reason(check(50.0, waits, WorkerView(1)), Status.TIMEOUT)
    assert said == (
        "start-up took longer than startup_timeout_s (50 s): worker 1 has not connected, "
        "while worker 0 (in phase rendezvous)"
    )


def test_start_up_ends_with_the_last_worker() -> None:
    trains, builds = (
        view(0, phase="all_reduce", progressed_at=49.0),
        view(1, has_trained=False, phase="build", step=None),
    )
    assert check(45.0, trains, builds, stall_timeout_s=1) is None, "a stall is not looked for in start-up"
    assert "worker 1 (in phase build), while worker 0" in reason(check(50.0, trains, builds), Status.TIMEOUT)


@pytest.mark.parametrize("phase", ["compute", "data", "update", "evaluate", "finish"])
@pytest.mark.parametrize("waiting", ["all_reduce", "barrier", "agree"])
def test_a_stall_names_who_is_outside_the_collective(phase: str, waiting: str) -> None:
    said = reason(check(20.0, view(0, phase=waiting), view(1, phase=phase), view(2, phase=waiting)), Status.STALLED)
    assert said.startswith(f"no progress for stall_timeout_s (20 s): worker 1 (in phase {phase} at step 5)")
    assert "while worker 0" in said


def test_a_stall_inside_a_collective_names_who_is_behind() -> None:
    ahead, behind = view(0, phase="all_reduce", step=6), view(1, phase="all_reduce", step=5)
    said = reason(check(20.0, ahead, behind), Status.STALLED)
    assert said.startswith("no progress for stall_timeout_s (20 s): worker 1 (in phase all_reduce at step 5)")


def test_one_worker_that_moves_is_progress_of_all() -> None:
    assert check(30.0, view(0), view(1, progressed_at=15.0)) is None


def test_a_worker_without_signs_of_life_is_said_to_be() -> None:
    said = reason(check(20.0, view(0, phase="all_reduce", beat_at=19.9), view(1, beat_at=3.0)), Status.STALLED)
    assert "(no sign of life from worker 1)" in said


def test_a_silent_worker_is_blamed_whatever_it_last_said() -> None:
    """Its interpreter's lock is held, so what it last said of itself is from a moment before."""
    said = reason(
        check(20.0, view(0, phase="data", beat_at=19.9), view(1, phase="all_reduce", beat_at=0.1)), Status.STALLED
    )
    assert said.startswith(
        "no progress for stall_timeout_s (20 s): worker 1 (in phase all_reduce at step 5) "
        "(no sign of life from worker 1)"
    )


def test_rare_heartbeats_are_no_silence() -> None:
    seen = (view(0, phase="all_reduce", beat_at=19.9), view(1, beat_at=3.0))
    said = reason(check(20.0, *seen, flush_interval_s=5.0), Status.STALLED)
    assert said.startswith("no progress for stall_timeout_s (20 s): worker 1 (in phase compute at step 5), while")


def test_in_start_up_who_is_in_an_earlier_phase_is_behind() -> None:
    waits = view(0, has_trained=False, phase="broadcast", step=0)
    meets = view(1, has_trained=False, phase="rendezvous", step=0)
    said = reason(check(50.0, waits, meets), Status.TIMEOUT)
    assert said.endswith("worker 1 (in phase rendezvous at step 0), while worker 0 (in phase broadcast at step 0)")


@pytest.mark.parametrize("has_trained", [True, False])
def test_a_worker_stopped_just_before_a_time_out_is_said_to_be(has_trained: bool) -> None:
    seen = (view(0, phase="all_reduce"), view(1, has_trained=has_trained))
    said = reason(check(50.0, *seen, sight=ProcessStates(stopped=frozenset({1}))), Status.STALLED)
    assert said.startswith("worker 1 (in phase compute at step 5) is stopped: ")


def test_a_stopped_worker_is_named_before_a_short_stall_time_out() -> None:
    said = reason(follow(view(1), ProcessStates(stopped=frozenset({1})), 1.2, stall_timeout_s=2.0), Status.STALLED)
    assert "worker 1 (in phase compute at step 5) is stopped" in said


def test_a_stall_after_the_end_names_who_has_not_ended() -> None:
    seen = (well_ended(0), well_ended(1))
    said = reason(check(20.0, *seen, sight=ProcessStates(gone=frozenset({0}))), Status.STALLED)
    assert said.endswith("worker 1 (which has handed in its result and not ended)")
    said = reason(check(20.0, *seen, sight=ProcessStates(gone=frozenset({0, 1}))), Status.STALLED)
    assert said.endswith("every worker has ended, the launcher has not")


def follow(seen: WorkerView, sight: ProcessStates, seconds: float, **limits: Any) -> Termination | None:
    """Check every tenth of a second, from 1.0 on."""
    watch = Watch(Limits(**limits), started_at=0.0)
    for turn in range(int(seconds * 10) + 1):
        if termination := watch.check(1.0 + turn / 10, views(view(0, progressed_at=1.0), seen), sight):
            return termination
    return None


def test_a_stopped_worker_is_named_soon() -> None:
    sight = ProcessStates(stopped=frozenset({1}))
    assert follow(view(1), sight, STOPPED_PATIENCE_S - 0.2) is None
    said = reason(follow(view(1), sight, STOPPED_PATIENCE_S + 0.2), Status.STALLED)
    assert said == ("worker 1 (in phase compute at step 5) is stopped: process 101 was sent a signal such as SIGSTOP")


def test_a_worker_stopped_for_a_moment_goes_on() -> None:
    watch = Watch(Limits(), started_at=0.0)
    for now, stopped in ((1.0, True), (3.5, True), (3.6, False), (4.5, True), (6.0, True)):
        sight = ProcessStates(stopped=frozenset({1} if stopped else ()))
        assert watch.check(now, views(view(0), view(1)), sight) is None


def test_a_worker_that_is_gone_is_named_soon() -> None:
    lost, sight = view(1, is_connected=False, closed_at=1.0), ProcessStates(gone=frozenset({1}))
    assert follow(lost, sight, DEATH_PATIENCE_S - 0.2) is None
    said = reason(follow(lost, sight, DEATH_PATIENCE_S + 0.2), Status.FAILED)
    assert said == "worker 1 ended without handing in its result (exit code 0), in phase compute at step 5"


def test_a_worker_out_of_sight_may_call_again() -> None:
    lost = view(1, is_connected=False, closed_at=1.0)
    assert follow(lost, ProcessStates(), 9.8, orphan_timeout_s=10) is None
    said = reason(follow(lost, ProcessStates(), 10.2, orphan_timeout_s=10), Status.FAILED)
    assert said == "the connection to worker 1 (in phase compute at step 5) is lost"


def test_a_worker_that_has_left_may_be_gone() -> None:
    assert follow(well_ended(1), ProcessStates(gone=frozenset({1})), 10) is None


def test_after_an_error_the_end_is_not_waited_for_long() -> None:
    hurt = view(1, errors=(error(1, "ValueError: x", at=5.0),))
    assert check(5.0 + ERROR_PATIENCE_S - 0.1, view(0), hurt) is None
    assert reason(check(5.0 + ERROR_PATIENCE_S, view(0), hurt), Status.FAILED) == ""
