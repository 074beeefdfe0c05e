"""When a running attempt is ended, and whom the reason names."""

from typing import Any

from dlbench.launch.watch import (
    DEATH_PATIENCE_S,
    ERROR_PATIENCE_S,
    STOPPED_PATIENCE_S,
    Termination,
    Watch,
    WorkerStates,
)
from dlbench.records.outcome import Status
from dlbench.scenario.run_spec import Limits
from dlbench.telemetry.attempt_session import WorkerView
from tests.unit.launch.fakes import error, view, views, well_ended


def check(now: float, *seen: WorkerView, sight: WorkerStates | None = None, **limits: Any) -> Termination | None:
    limits = {"startup_timeout_s": 50.0, "stall_timeout_s": 20.0, **limits}
    return Watch(Limits(**limits), started_at=0.0).check(now, views(*seen), sight or WorkerStates())


def reason(termination: Termination | None, status: Status) -> str:
    assert termination is not None
    assert termination.status is status
    return termination.reason


def test_who_may_go_on() -> None:
    rows: tuple[tuple[float, tuple[WorkerView, ...], dict[str, Any]], ...] = (
        (19.9, (view(0), view(1)), {}),
        (49.9, (WorkerView(0), WorkerView(1)), {}),
        (99.9, (view(0, progressed_at=99.0),), {"timeout_s": 100}),
        # One worker that moves is progress of all; a stall is not looked for in start-up.
        (30.0, (view(0), view(1, progressed_at=15.0)), {}),
        # Of a script without the hook nobody knows how far it is.
        (1000.0, (view(0, phase="script", step=None), view(1, phase="script", step=None)), {}),
        (45.0, (view(0), view(1, has_trained=False, phase="build", step=None)), {"stall_timeout_s": 1}),
    )
    for now, seen, limits in rows:
        assert check(now, *seen, **limits) is None, (now, seen)


def test_time_out() -> None:
    said = reason(check(100.0, view(0, progressed_at=99.0), timeout_s=100), Status.TIMEOUT)
    assert said == "it took longer than timeout_s (100 s); worker 0 (in phase compute at step 5)"
    gone = WorkerStates(gone=frozenset({1}))
    assert reason(check(100.0, view(0), view(1, has_left=True), sight=gone, timeout_s=100), Status.TIMEOUT) == said
    ended = reason(check(100.0, view(1, has_left=True), sight=gone, timeout_s=100), Status.TIMEOUT)
    assert ended.endswith("every worker has ended, the launcher has not")
    lost = reason(check(100.0, view(0), view(1), sight=gone, timeout_s=100), Status.TIMEOUT)
    assert "worker 1 (in phase compute" in lost


def test_start_up_names_who_is_behind() -> None:
    def starts(rank: int, phase: str) -> WorkerView:
        return view(rank, has_trained=False, phase=phase, step=None)

    for seen, said in (
        ((starts(0, "rendezvous"), WorkerView(1)), "worker 1 has not connected, while worker 0 (in phase rendezvous)"),
        ((view(0, progressed_at=49.0), starts(1, "build")), "worker 1 (in phase build), while worker 0 (in phase"),
        (
            (starts(0, "broadcast"), starts(1, "rendezvous")),
            "worker 1 (in phase rendezvous), while worker 0 (in phase broadcast)",
        ),
    ):
        found = reason(check(50.0, *seen), Status.TIMEOUT)
        assert found.startswith(f"start-up took longer than startup_timeout_s (50 s): {said}"), seen


def test_of_a_script_a_process_may_make_no_step() -> None:
    def of_script(now: float, *seen: WorkerView) -> Termination | None:
        limits = Limits(startup_timeout_s=50.0, stall_timeout_s=20.0)
        return Watch(limits, started_at=0.0, has_script=True).check(now, views(*seen), WorkerStates())

    idle = view(0, has_trained=False, phase="build", step=None)
    assert of_script(500.0, idle, view(1, progressed_at=490.0)) is None
    assert of_script(49.0, idle, view(1)) is None  # it may still build its model
    assert "no progress for stall_timeout_s" in reason(of_script(50.0, idle, view(1)), Status.STALLED)
    for alone in (idle, WorkerView(0)):
        reason(of_script(50.0, alone), Status.TIMEOUT)
    reason(of_script(50.0, WorkerView(0), view(1, progressed_at=49.0)), Status.TIMEOUT)


def test_a_stall_names_whom_the_others_wait_for() -> None:
    def beats(rank: int, phase: str, step: int = 5) -> WorkerView:
        return view(rank, phase=phase, step=step, beat_at=19.9)

    def silent(rank: int, phase: str) -> WorkerView:
        return view(rank, phase=phase, beat_at=3.0)

    rows: list[tuple[tuple[WorkerView, ...], str]] = [
        # Who is outside the collective.
        *(
            ((beats(0, waits), beats(1, phase), beats(2, waits)), f"(in phase {phase} at step 5)")
            for phase in ("compute", "data", "update", "evaluate", "finish")
            for waits in ("all_reduce", "barrier", "agree")
        ),
        # Inside it, who is behind.
        ((beats(0, "all_reduce", 6), beats(1, "all_reduce")), "(in phase all_reduce at step 5)"),
        # What a worker whose interpreter's lock is held last reported is from a moment before.
        *(
            ((beats(0, other), silent(1, phase)), f"(in phase {phase} at step 5) (no heartbeat from worker 1)")
            for other, phase in (("all_reduce", "compute"), ("data", "all_reduce"))
        ),
    ]
    for seen, said in rows:
        found = reason(check(20.0, *seen), Status.STALLED)
        assert found.startswith(f"no progress for stall_timeout_s (20 s): worker 1 {said}, while worker 0"), seen
    rare = reason(check(20.0, beats(0, "all_reduce"), silent(1, "compute"), flush_interval_s=5.0), Status.STALLED)
    assert "no heartbeat" not in rare


def test_a_worker_is_named_with_its_host_where_there_are_several() -> None:
    seen = (view(0, phase="all_reduce", address="a"), WorkerView(1, address="b"))
    said = reason(check(50.0, *seen), Status.TIMEOUT)
    assert said.endswith("worker 1 on b has not connected, while worker 0 on a (in phase all_reduce at step 5)")


def test_a_stopped_worker_is_named_before_a_time_out() -> None:
    stopped = WorkerStates(stopped=frozenset({1}))
    for has_trained in (True, False):
        seen = (view(0, phase="all_reduce"), view(1, has_trained=has_trained))
        said = reason(check(50.0, *seen, sight=stopped), Status.STALLED)
        assert said.startswith("worker 1 (in phase compute at step 5) is stopped: ")


def test_a_stall_after_the_end_names_who_has_not_ended() -> None:
    seen = (well_ended(0), well_ended(1))
    said = reason(check(20.0, *seen, sight=WorkerStates(gone=frozenset({0}))), Status.STALLED)
    assert said.endswith("worker 1 (which has sent its result and is still running)")
    said = reason(check(20.0, *seen, sight=WorkerStates(gone=frozenset({0, 1}))), Status.STALLED)
    assert said.endswith("every worker has ended, the launcher has not")


def follow(seen: WorkerView, sight: WorkerStates, seconds: float, **limits: Any) -> Termination | None:
    """Check every tenth of a second, from 1.0 on."""
    watch = Watch(Limits(**limits), started_at=0.0)
    for turn in range(int(seconds * 10) + 1):
        if termination := watch.check(1.0 + turn / 10, views(view(0, progressed_at=1.0), seen), sight):
            return termination
    return None


def test_a_worker_that_is_stopped_gone_or_cut_off_is_named_after_a_while() -> None:
    at_5, lost = "(in phase compute at step 5)", view(1, is_connected=False, closed_at=1.0)
    stopped, gone = WorkerStates(stopped=frozenset({1})), WorkerStates(gone=frozenset({1}))
    is_stopped = f"worker 1 {at_5} is stopped: process 101 was sent a signal such as SIGSTOP"
    early = "worker 1 exited before sending its result (exit code 0), in phase compute at step 5"
    rows: tuple[tuple[WorkerView, WorkerStates, float, dict[str, float], Status, str], ...] = (
        (view(1), stopped, STOPPED_PATIENCE_S, {}, Status.STALLED, is_stopped),
        (view(1), stopped, 1.0, {"stall_timeout_s": 2.0}, Status.STALLED, is_stopped),
        (lost, gone, DEATH_PATIENCE_S, {}, Status.FAILED, early),
        # It may connect again.
        (
            lost,
            WorkerStates(),
            10,
            {"orphan_timeout_s": 10},
            Status.FAILED,
            f"the connection to worker 1 {at_5} is lost",
        ),
    )
    for seen, sight, patience_s, limits, status, said in rows:
        assert follow(seen, sight, patience_s - 0.2, **limits) is None, said
        assert reason(follow(seen, sight, patience_s + 0.2, **limits), status) == said
    assert follow(well_ended(1), gone, 10) is None, "it has left"
    watch = Watch(Limits(), started_at=0.0)
    for now, sight in ((1.0, stopped), (3.5, stopped), (3.6, WorkerStates()), (4.5, stopped), (6.0, stopped)):
        assert watch.check(now, views(view(0), view(1)), sight) is None, "it was stopped for a moment"


def test_a_worker_that_never_called_is_named_where_the_connection_to_another_is_lost() -> None:
    """Open MPI's launcher may hang over a process that is killed before it has done anything."""
    watch = Watch(Limits(orphan_timeout_s=5), started_at=0.0)
    starting = view(1, is_connected=False, closed_at=1.0, has_trained=False, phase="rendezvous", step=0)
    found = [watch.check(now, views(WorkerView(0), starting), WorkerStates()) for now in (1.0, 6.1)]
    said = reason(found[1], Status.FAILED)
    assert (
        said == "the connection to worker 1 (in phase rendezvous at step 0) is lost, while worker 0 has not connected"
    )


def test_after_an_error_the_end_is_not_waited_for_long() -> None:
    hurt = view(1, errors=(error(1, "ValueError: x", at=5.0),))
    assert check(5.0 + ERROR_PATIENCE_S - 0.1, view(0), hurt) is None
    assert reason(check(5.0 + ERROR_PATIENCE_S, view(0), hurt), Status.FAILED) == ""
