"""Status and reason of an attempt, from what is known at its end."""

from typing import Any

import pytest

from dlbench.launch.outcome_rules import Evidence, decide, has_killed_elsewhere
from dlbench.launch.watch import Termination
from dlbench.records.outcome import Status
from dlbench.telemetry.attempt_session import WorkerView
from tests.unit.launch.fakes import error, view, views, well_ended


def ended(*seen: WorkerView, exit_code: int | None = 1, **changes: Any) -> tuple[Status, str]:
    return decide(Evidence(views=views(*seen), exit_code=exit_code, **changes))


def lost(rank: int, at: float = 1.0, **changes: Any) -> WorkerView:
    return view(rank, is_connected=False, closed_at=at, **changes)


def test_completed_needs_every_result_every_leave_and_a_good_exit() -> None:
    assert ended(well_ended(0), well_ended(1), exit_code=0) == (Status.COMPLETED, "")
    no_leave = view(1, is_connected=False, closed_at=3.0, result={})
    no_result = view(1, is_connected=False, closed_at=3.0, has_left=True)
    for other in (no_leave, no_result, WorkerView(1)):
        assert ended(well_ended(0), other, exit_code=0)[0] is Status.FAILED


def test_a_bad_exit_after_the_result() -> None:
    assert ended(well_ended(0), well_ended(1), exit_code=139, rank_exit=(1, "signal", 11), lines={1: "boom"}) == (
        Status.FAILED,
        "worker 1 handed in its result and then ended wrongly (killed by SIGSEGV): boom",
    )
    assert ended(well_ended(0), exit_code=3) == (Status.FAILED, "the launcher ended (exit code 3)")


def test_a_library_that_ends_the_process_for_lack_of_memory() -> None:
    said = "OpenBLAS error: Memory allocation still failed after 10 retries, giving up."
    assert ended(lost(0), exit_code=1, lines={0: said}) == (Status.OUT_OF_MEMORY, f"worker 0: {said}")
    reported = lost(0, errors=(error(0, "ValueError: x"),))
    assert ended(reported, exit_code=1, lines={0: said}) == (Status.FAILED, "worker 0: ValueError: x")
    assert ended(lost(0), exit_code=1, lines={0: "ValueError: x"})[0] is Status.FAILED


def test_a_crash_under_a_memory_limit_says_so() -> None:
    crashed: dict[str, Any] = {"exit_code": 139, "rank_exit": (0, "signal", 11)}
    status, reason = ended(lost(0), memory_limit_bytes=2**30, **crashed)
    assert status is Status.FAILED
    assert "killed by SIGSEGV" in reason
    assert "1024 MiB (memory_limit_bytes)" in reason
    assert "memory_limit" not in ended(lost(0), **crashed)[1]
    assert "memory_limit" not in ended(lost(0), memory_limit_bytes=2**30, exit_code=3)[1]


def test_a_worker_whose_host_is_lost_says_so() -> None:
    status, reason = ended(lost(0, at=2.0), lost(1, phase="update", step=7), exit_code=1, lost_host="node2")
    assert status is Status.FAILED
    assert reason == (
        "worker 1 ended without handing in its result (the host node2 is down, or cannot be reached), in phase update "
        "at step 7"
    )


def test_weights_that_do_not_agree() -> None:
    status, reason = ended(well_ended(0), well_ended(1, agreement="no", max_difference=0.25), exit_code=0)
    assert (status, reason) == (
        Status.DIVERGED,
        "worker 1: the workers' weights do not agree (largest difference 0.25)",
    )


@pytest.mark.parametrize("name", ["train_loss", "validation_loss"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite(name: str, value: float) -> None:
    assert ended(well_ended(0, **{name: value}), exit_code=0)[0] is Status.DIVERGED
    assert ended(well_ended(0, **{name: 1.0}), exit_code=0)[0] is Status.COMPLETED


def test_a_worker_says_that_it_diverged() -> None:
    hurt = lost(1, errors=(error(1, "loss is inf at step 3", status="diverged"),))
    assert ended(lost(0), hurt) == (Status.DIVERGED, "worker 1: loss is inf at step 3")


def test_the_first_error_is_the_reason() -> None:
    first = lost(1, errors=(error(1, "ValueError: first", at=1.0),))
    second = lost(0, errors=(error(0, "KeyError: second", at=2.0),))
    assert ended(second, first) == (Status.FAILED, "worker 1: ValueError: first")


@pytest.mark.parametrize(
    "text",
    [
        "HorovodInternalError: Horovod has been shut down. This was caused by an exception on one of the ranks",
        "mpi4py.MPI.Exception: MPI_ERR_PROC_FAILED: process failed",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "BrokenPipeError: [Errno 32] Broken pipe",
    ],
)
def test_a_follower_is_never_blamed_where_there_is_a_cause(text: str) -> None:
    follower = lost(0, errors=(error(0, text, at=1.0),))
    cause = lost(1, errors=(error(1, "ValueError: the cause", at=2.0),))
    assert ended(follower, cause) == (Status.FAILED, "worker 1: ValueError: the cause")
    assert ended(follower, lost(1)) == (Status.FAILED, f"worker 0: {text}")


def test_a_follower_is_not_blamed_for_a_peer_that_was_killed() -> None:
    follower = lost(0, errors=(error(0, "ConnectionResetError: Connection reset by peer"),))
    assert ended(follower, lost(1, at=2.0), exit_code=137, rank_exit=(1, "signal", 9)) == (
        Status.FAILED,
        "worker 1 ended without handing in its result (killed by SIGKILL), in phase compute at step 5",
    )


def test_an_error_without_a_line_is_told_by_its_traceback() -> None:
    hurt = lost(0, errors=(error(0, "", traceback="Traceback ...\n  File x\nKeyError: 'a'\n"),))
    assert ended(hurt)[1] == "worker 0: KeyError: 'a'"


def test_memory_that_a_worker_says_is_short() -> None:
    hurt = lost(1, errors=(error(1, "MemoryError: 8 GiB", out_of_memory=True),))
    assert ended(lost(0, errors=(error(0, "ValueError", at=0.5),)), hurt)[0] is Status.OUT_OF_MEMORY


@pytest.mark.parametrize("how", [{"exit_code": -9}, {"exit_code": 137}, {"rank_exit": (1, "signal", 9)}])
def test_a_kill_by_the_kernel(how: dict[str, Any]) -> None:
    seen = (lost(1, pid=7),)
    assert ended(*seen, was_oom=True, launcher_pid=7, **how) == (
        Status.OUT_OF_MEMORY,
        "the kernel killed worker 1 for lack of memory (SIGKILL)",
    )
    assert ended(*seen, was_oom=False, launcher_pid=7, **how)[0] is Status.FAILED


@pytest.mark.parametrize(
    ("found", "expected"),
    [({"b": 3}, True), ({"b": 2}, False), ({"a": 9, "c": 9}, False), ({}, False), ({"a": 9, "b": 3}, True)],
)
def test_a_kill_by_the_kernel_of_another_host(found: dict[str, int], expected: bool) -> None:
    seen = views(view(0), view(1, oom_kills=2))
    assert has_killed_elsewhere(Evidence(views=seen, exit_code=1, hosts={0: "a", 1: "b"}), found) is expected


def test_our_own_kill_is_not_the_kernel_s() -> None:
    termination = Termination(Status.STALLED, "stuck", at=1.0)
    assert ended(lost(0), exit_code=-9, was_oom=True, termination=termination) == (Status.STALLED, "stuck")


@pytest.mark.parametrize("status", [Status.TIMEOUT, Status.STALLED, Status.INTERRUPTED])
def test_what_we_ended_is_told_as_we_decided(status: Status) -> None:
    after = lost(1, errors=(error(1, "SystemExit: 143", at=9.0),))
    assert ended(after, exit_code=-15, termination=Termination(status, "why", 8.0), ended_at=8.1) == (status, "why")


def test_an_error_before_a_time_out_is_the_cause_of_it() -> None:
    hurt = view(1, errors=(error(1, "ValueError: x", at=5.0),))
    termination = Termination(Status.TIMEOUT, "late", at=8.0)
    assert ended(view(0), hurt, termination=termination, ended_at=8.0) == (Status.FAILED, "worker 1: ValueError: x")


def test_a_worker_that_never_called_is_told_by_its_log() -> None:
    termination = Termination(Status.TIMEOUT, "start-up: worker 1 has not connected", at=8.0)
    said = ended(view(0), WorkerView(1), termination=termination, lines={0: "fine", 1: "OSError: no such file"})[1]
    assert said == "start-up: worker 1 has not connected; its log says: OSError: no such file"


def test_an_interruption_of_what_is_finished_is_completed() -> None:
    termination = Termination(Status.INTERRUPTED, "interrupted", at=8.0)
    assert ended(well_ended(0), exit_code=0, termination=termination)[0] is Status.COMPLETED


def test_an_early_exit() -> None:
    assert ended(well_ended(0), lost(1), exit_code=0, lines={1: "epoch 3"}) == (
        Status.FAILED,
        "worker 1 ended without handing in its result (exit code 0), in phase compute at step 5",
    )


def test_an_early_exit_before_the_first_word() -> None:
    assert ended(WorkerView(0), exit_code=0) == (
        Status.FAILED,
        "worker 0 ended without handing in its result (exit code 0), before it connected",
    )


def test_the_first_to_go_is_blamed_and_its_log_quoted() -> None:
    assert ended(lost(0, at=2.0), lost(1, at=1.0), exit_code=134, lines={0: "zero", 1: "Fatal Python error"})[1] == (
        "worker 1 ended without handing in its result (killed by SIGABRT), in phase compute at step 5: "
        "Fatal Python error"
    )


def test_the_launcher_s_own_failure() -> None:
    said = ended(WorkerView(0), WorkerView(1), exit_code=1, launcher_line="There are not enough slots")[1]
    assert said == (
        "worker 0 ended without handing in its result (exit code 1), before it connected: There are not enough slots"
    )


def test_a_killed_launcher() -> None:
    seen = (lost(0, at=5.0), lost(1, at=5.0))
    assert ended(*seen, exit_code=-9, launcher_pid=7) == (
        Status.FAILED,
        "the launcher ended (killed by SIGKILL) before its workers",
    )


@pytest.mark.parametrize("text", ["Exception: error code: 14", "Connection reset by peer"])
def test_who_tells_of_a_lost_peer_follows_a_killed_launcher(text: str) -> None:
    seen = (lost(0, errors=(error(0, text),)), lost(1, at=5.0))
    assert ended(*seen, exit_code=-9, launcher_pid=7)[1] == "the launcher ended (killed by SIGKILL) before its workers"
    # Where dlbench has ended the launcher itself, its signal says nothing.
    ours = Termination(Status.FAILED, "", at=20.0)
    assert ended(lost(0, errors=(error(0, text),)), exit_code=-9, launcher_pid=7, termination=ours) == (
        Status.FAILED,
        f"worker 0: {text}",
    )
    cause = lost(1, errors=(error(1, "ValueError: the cause", at=2.0),))
    assert ended(seen[0], cause, exit_code=-9, launcher_pid=7)[1] == "worker 1: ValueError: the cause"


def test_a_worker_on_another_host_may_have_the_launcher_s_number() -> None:
    seen = (lost(0, at=5.0, pid=30, host="a"), lost(1, at=4.0, pid=7, host="b"))
    assert ended(*seen, exit_code=-9, launcher_pid=7)[1] == "the launcher ended (killed by SIGKILL) before its workers"


def test_a_journal_that_cannot_be_kept_is_told_before_all_else() -> None:
    hurt = lost(0, errors=(error(0, "x"),))
    assert ended(hurt, failure="the journal cannot be written") == (Status.FAILED, "the journal cannot be written")


def test_what_cannot_be_ended_is_told() -> None:
    assert ended(well_ended(0), exit_code=0, remaining=(12, 13)) == (
        Status.FAILED,
        "processes that SIGKILL does not end: 12, 13",
    )


SHUT_DOWN = (
    "Traceback (most recent call last):\nUnknownError: Graph\n\nHorovod has been shut down. This was\n [[{{node x}}]]"
)


def follower(rank: int, at: float) -> WorkerView:
    """Return a worker of Horovod whose peer is gone: what TensorFlow says begins with nothing of it."""
    return lost(rank, at + 0.1, errors=(error(rank, "UnknownError: Graph execution error:", at, traceback=SHUT_DOWN),))


@pytest.mark.parametrize("told", [(1, "exit code", 137), (0, "exit code", 1), None])
def test_of_horovods_workers_the_one_that_fell_silent_is_blamed(told: tuple[int, str, int] | None) -> None:
    """horovodrun names as the first whichever of its processes it looked at first."""
    how = {None: "exit code 1", 0: "its launcher does not say how", 1: "killed by SIGKILL"}[told and told[0]]
    reason = f"worker 1 ended without handing in its result ({how}), in phase compute at step 5"
    assert ended(follower(0, 2.0), lost(1, 1.0), rank_exit=told) == (Status.FAILED, reason)


def test_a_worker_of_horovods_that_reports_its_error_is_blamed_whoever_ended_first() -> None:
    cause = lost(1, 3.0, errors=(error(1, "RuntimeError: the cause", 2.5),))
    seen = ended(follower(0, 2.0), cause, rank_exit=(0, "exit code", 1))
    assert seen == (Status.FAILED, "worker 1: RuntimeError: the cause")


def test_where_all_of_horovods_workers_follow_the_first_is_quoted() -> None:
    seen = ended(follower(0, 2.0), follower(1, 1.0), rank_exit=(0, "exit code", 1))
    assert seen == (Status.FAILED, "worker 1: UnknownError: Graph execution error:")


def test_a_crash_elsewhere_is_named_before_the_process_that_open_mpi_ended_over_it() -> None:
    lines = {0: "the last words of 0", 1: "Fatal Python error: Aborted"}
    status, reason = ended(lost(0), lost(1), exit_code=14, rank_exit=(0, "exit code", 14), lines=lines)
    assert (status, reason.startswith("worker 1 "), reason.endswith(lines[1])) == (Status.FAILED, True, True)
    assert ended(lost(0), lost(1), exit_code=14, lines=lines)[1].startswith("worker 1 ")
    # What a process says of itself is believed: the other may have crashed over it.
    for kind, number in (("exit code", 3), ("signal", 9)):
        assert ended(lost(0), lost(1), rank_exit=(0, kind, number), lines=lines)[1].startswith("worker 0 ")


def test_a_crash_is_named_before_the_process_that_hydra_ended_over_it() -> None:
    lines = {1: "Fatal Python error: Segmentation fault"}
    seen, unnamed = (lost(0, at=1.0), lost(1, at=1.1)), (None, "signal", 11)
    assert ended(*seen, exit_code=11, rank_exit=unnamed, lines=lines)[1] == (
        "worker 1 ended without handing in its result (killed by SIGSEGV), in phase compute at step 5: "
        "Fatal Python error: Segmentation fault"
    )
    assert ended(*seen, exit_code=11, rank_exit=unnamed)[1].startswith("worker 0 ")
    assert ended(*seen, exit_code=1, lines=lines)[1].startswith("worker 0 ")


def test_where_hydra_does_not_say_whom_a_signal_ended_it_is_the_first_to_go() -> None:
    seen, unnamed = (lost(0, at=2.0), lost(1, at=1.0)), (None, "signal", 9)
    assert ended(*seen, exit_code=9, rank_exit=unnamed) == (
        Status.FAILED,
        "worker 1 ended without handing in its result (killed by SIGKILL), in phase compute at step 5",
    )
    assert ended(*seen, exit_code=9, rank_exit=unnamed, was_oom=True) == (
        Status.OUT_OF_MEMORY,
        "the kernel killed worker 1 for lack of memory (SIGKILL)",
    )


def test_the_worker_on_the_lost_host_is_blamed_whoever_was_heard_to_end_first() -> None:
    # What is cut off closes no connection; the others are ended over it.
    seen = (lost(0, at=1.0, host="node1"), lost(1, at=2.0, host="node2"), view(2, host="node3"))
    how = "(the host node3 is down, or cannot be reached), in phase compute at step 5"
    for told in ({"exit_code": 0}, {"exit_code": 14}, {"exit_code": 14, "rank_exit": (0, "exit code", 14)}):
        assert ended(*seen, lost_host="node3", **told)[1] == f"worker 2 ended without handing in its result {how}"
    named = ended(*seen, exit_code=255, lost_host="10.0.0.3", hosts={0: "a", 1: "b", 2: "10.0.0.3"})
    assert named[1].startswith("worker 2 ended without handing in its result (the host 10.0.0.3 is down")
    # ssh does not always name the host it has lost: it is that of the worker whose connection ended first.
    unnamed = ended(*seen, exit_code=255, lost_host="", hosts={0: "10.0.0.1", 1: "b", 2: "c"})[1]
    assert unnamed.startswith("worker 0 ended without handing in its result (the host 10.0.0.1 is down")
    # A process that is known to have ended otherwise did so before.
    assert ended(*seen, lost_host="node3", rank_exit=(1, "signal", 9))[1].startswith("worker 1 ")


def test_the_worker_of_a_host_that_was_never_begun_on_is_blamed() -> None:
    seen, hosts = (WorkerView(0), WorkerView(1)), {0: "a", 1: "b"}
    status, reason = ended(*seen, exit_code=213, unstarted_host=("b", 213), hosts=hosts)
    how = "its launcher could not begin on the host b, exit code 213"
    assert status is Status.FAILED
    assert reason == f"worker 1 ended without handing in its result ({how}), before it connected"


def test_a_worker_whose_end_its_peers_heard_first_is_blamed_but_not_for_their_exit_code() -> None:
    seen = (lost(0, at=2.0), lost(1, at=1.0))
    reason = "worker 1 ended without handing in its result (its launcher does not say how), in phase compute at step 5"
    assert ended(*seen, exit_code=14) == (Status.FAILED, reason)
    assert ended(*seen, exit_code=14, rank_exit=(0, "exit code", 14)) == (Status.FAILED, reason)


def test_hosts_without_a_way_between_them_are_named() -> None:
    hurt = lost(1, errors=(error(1, "Exception: MPI_ERR_INTERN: internal error"),))
    assert ended(lost(0), hurt, unreachable="node2 and node1") == (
        Status.FAILED,
        "worker 1: Exception: MPI_ERR_INTERN: internal error: MPI finds no way between node2 and node1",
    )
