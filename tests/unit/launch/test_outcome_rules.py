"""Status and reason of an attempt, from what is known at its end."""

from dataclasses import replace
from typing import Any

from dlbench.launch.logs import LauncherLog, MissingHost, ProcessExit
from dlbench.launch.outcome_rules import Evidence, decide, has_killed_elsewhere
from dlbench.launch.watch import Termination
from dlbench.records.outcome import Status
from dlbench.telemetry.attempt_session import WorkerView
from tests.unit.launch.fakes import error, view, views, well_ended

EARLY = "exited before sending its result"
AT_5 = "in phase compute at step 5"


def ended(
    *seen: WorkerView, exit_code: int | None = 1, first: tuple[int | None, int] | None = None, **changes: Any
) -> tuple[Status, str]:
    """Return what is decided; `first` and the fields of `LauncherLog` are what the launcher's log says."""
    log = {
        name: changes.pop(name) for name in ("missing_host", "unreachable", "over_a_peer", "line") if name in changes
    }
    found = LauncherLog(first_exit=first and ProcessExit(*first), **log)
    return decide(Evidence(views=views(*seen), exit_code=exit_code, launcher_log=found, **changes))


def failed(*seen: WorkerView, **changes: Any) -> str:
    status, reason = ended(*seen, **changes)
    assert status is Status.FAILED, (status, reason)
    return reason


def lost(rank: int, at: float = 1.0, **changes: Any) -> WorkerView:
    return view(rank, is_connected=False, closed_at=at, **changes)


def hurt(rank: int, text: str, at: float = 1.0, **changes: Any) -> WorkerView:
    return lost(rank, errors=(error(rank, text, at, **changes),))


def test_completed_needs_every_result_every_leave_and_a_good_exit() -> None:
    assert ended(well_ended(0), well_ended(1), exit_code=0) == (Status.COMPLETED, "")
    stopped = Termination(Status.INTERRUPTED, "interrupted")
    assert ended(well_ended(0), exit_code=0, termination=stopped)[0] is Status.COMPLETED
    no_leave = view(1, is_connected=False, closed_at=3.0, result={})
    no_result = view(1, is_connected=False, closed_at=3.0, has_left=True)
    for other in (no_leave, no_result, WorkerView(1)):
        failed(well_ended(0), other, exit_code=0)
    assert failed(well_ended(0), no_leave, exit_code=0).endswith("does the script call `os._exit`?")
    assert failed(well_ended(0), exit_code=3) == "the launcher ended (exit code 3)"
    assert failed(well_ended(0), well_ended(1), exit_code=139, first=(1, -11), lines={1: "boom"}) == (
        "worker 1 sent its result, then failed (killed by SIGSEGV): boom"
    )
    assert failed(well_ended(0), well_ended(1), exit_code=3) == "the launcher ended (exit code 3)"
    assert failed(well_ended(0), exit_code=-11, is_direct=True, lines={0: "boom"}) == (
        "worker 0 sent its result, then failed (killed by SIGSEGV): boom"
    )
    assert failed(well_ended(0), exit_code=-11) == "the launcher ended (killed by SIGSEGV)"
    assert failed(well_ended(0), exit_code=0, remaining=(12, 13)) == "processes that SIGKILL does not end: 12, 13"


def test_lack_of_memory() -> None:
    said = "OpenBLAS error: Memory allocation still failed after 10 retries, giving up."
    assert ended(lost(0), lines={0: said}) == (Status.OUT_OF_MEMORY, f"worker 0: {said}")
    assert failed(hurt(0, "ValueError: x"), lines={0: said}) == "worker 0: ValueError: x"
    failed(lost(0), lines={0: "ValueError: x"})
    second = hurt(1, "MemoryError: 8 GiB", out_of_memory=True)
    assert ended(hurt(0, "ValueError", at=0.5), second) == (Status.OUT_OF_MEMORY, "worker 1: MemoryError: 8 GiB")


def test_a_kill_by_the_kernel() -> None:
    killed = (Status.OUT_OF_MEMORY, "the kernel killed worker 1 for lack of memory (SIGKILL)")
    for how in ({"exit_code": -9}, {"exit_code": 137}, {"first": (1, -9)}):
        for alone in (lost(1), WorkerView(1)):
            assert ended(alone, was_oom=True, is_direct=True, **how) == killed, how
            failed(alone, was_oom=False, is_direct=True, **how)
    # Also after it has sent its result; of several it is not known which.
    assert ended(well_ended(1), exit_code=-9, was_oom=True, is_direct=True) == killed
    several = ended(well_ended(0), well_ended(1), exit_code=137, was_oom=True)
    assert several == (Status.OUT_OF_MEMORY, "the kernel killed a worker for lack of memory (SIGKILL)")
    # Where Hydra does not say whom a signal ended, it is the first to go.
    seen = (lost(0, at=2.0), lost(1, at=1.0))
    assert ended(*seen, exit_code=9, first=(None, -9), was_oom=True) == killed
    assert failed(*seen, exit_code=9, first=(None, -9)) == f"worker 1 {EARLY} (killed by SIGKILL), {AT_5}"
    launcher = (Status.OUT_OF_MEMORY, "the kernel killed the launcher for lack of memory (SIGKILL)")
    for workers in ((lost(0),), (lost(0), WorkerView(1)), (WorkerView(0),)):
        assert ended(*workers, exit_code=-9, was_oom=True) == launcher, workers
    ours = Termination(Status.STALLED, "stuck")
    assert ended(lost(0), exit_code=-9, was_oom=True, termination=ours) == (Status.STALLED, "stuck")


def test_a_kill_by_the_kernel_of_another_host() -> None:
    seen = views(view(0), view(1, oom_kills=2))
    for found, is_so in (({"b": 3}, True), ({"b": 2}, False), ({"a": 9, "c": 9}, False), ({}, False)):
        assert has_killed_elsewhere(seen, {0: "a", 1: "b"}, found) is is_so, found


def test_a_crash_under_a_memory_limit_says_so() -> None:
    reason = failed(lost(0), memory_limit_bytes=2**30, exit_code=139, first=(0, -11))
    assert "killed by SIGSEGV" in reason
    assert "memory_limit_bytes is 1024 MiB" in reason
    assert "memory_limit" not in failed(lost(0), exit_code=139, first=(0, -11))
    assert "memory_limit" not in failed(lost(0), memory_limit_bytes=2**30, exit_code=3)


def test_a_run_that_diverged() -> None:
    apart = well_ended(1, agreement="no", max_difference=0.25)
    reason = "worker 1: the workers' weights do not agree (largest difference 0.25)"
    assert ended(well_ended(0), apart, exit_code=0) == (Status.DIVERGED, reason)
    said = hurt(1, "loss is inf at step 3", status="diverged")
    assert ended(lost(0), said) == (Status.DIVERGED, "worker 1: loss is inf at step 3")


def test_the_first_error_is_the_reason() -> None:
    first, second = hurt(1, "ValueError: first", at=1.0), hurt(0, "KeyError: second", at=2.0)
    assert failed(second, first) == "worker 1: ValueError: first"
    assert failed(hurt(0, "", traceback="Traceback ...\n  File x\nKeyError: 'a'\n")) == "worker 0: KeyError: 'a'"
    assert failed(hurt(0, "x"), failure="the journal cannot be written") == "the journal cannot be written"
    assert failed(lost(0), hurt(1, "MPI_ERR_INTERN: internal error"), unreachable="node2 and node1") == (
        "worker 1: MPI_ERR_INTERN: internal error: MPI finds no route between node2 and node1"
    )


def test_a_follower_is_never_blamed_where_there_is_a_cause() -> None:
    for text in (
        "RuntimeError: 2 MPI ranks were expected to connect, but 1 did (process 7 on a).",
        "HorovodInternalError: Horovod has been shut down. This was caused by an exception on one of the ranks",
        "mpi4py.MPI.Exception: MPI_ERR_PROC_FAILED: process failed",
        "Exception: error code: 14",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "BrokenPipeError: [Errno 32] Broken pipe",
    ):
        follower, cause = hurt(0, text), hurt(1, "ValueError: the cause", at=2.0)
        assert failed(follower, cause) == "worker 1: ValueError: the cause", text
        assert failed(follower, lost(1)) == f"worker 0: {text}"
        # A peer, or the launcher, that was killed says nothing.
        killed = failed(follower, lost(1, at=2.0), exit_code=137, first=(1, -9))
        assert killed == f"worker 1 {EARLY} (killed by SIGKILL), {AT_5}", text
        reason = "the launcher ended (killed by SIGKILL) before its workers"
        assert failed(follower, lost(1, at=5.0), exit_code=-9) == reason, text
        assert failed(follower, cause, exit_code=-9) == "worker 1: ValueError: the cause", text
        # Where dlbench has ended the launcher itself, its signal says nothing.
        assert failed(follower, exit_code=-9, termination=Termination(Status.FAILED, "")) == f"worker 0: {text}"


def test_a_killed_launcher_is_not_blamed_on_a_worker() -> None:
    """Not at any moment: before any worker connected, before each did, in training."""
    for early, seen in (
        (" before a worker connected", (WorkerView(0), WorkerView(1))),
        (" before a worker connected", (WorkerView(0),)),
        (" before its workers", (lost(0, at=5.0), WorkerView(1))),
        (" before its workers", (lost(0, at=5.0), lost(1, at=5.0))),
        (" before its workers", (well_ended(0), lost(1, at=5.0))),
        ("", (well_ended(0), well_ended(1))),
    ):
        for code, name in ((-9, "SIGKILL"), (-15, "SIGTERM"), (-11, "SIGSEGV")):
            assert failed(*seen, exit_code=code) == f"the launcher ended (killed by {name}){early}", seen
    reason = failed(WorkerView(0), exit_code=-9, is_direct=True)
    assert reason == f"worker 0 {EARLY} (killed by SIGKILL), before it connected"


def test_the_reason_of_what_we_ended_is_ours() -> None:
    after = hurt(1, "SystemExit: 143", at=9.0)
    for status in (Status.TIMEOUT, Status.STALLED, Status.INTERRUPTED):
        ours: dict[str, Any] = {"termination": Termination(status, "why"), "ended_at": 8.1}
        assert ended(after, exit_code=-15, first=(1, 143), **ours) == (status, "why")
    late = Termination(Status.TIMEOUT, "late")
    before = view(1, errors=(error(1, "ValueError: x", at=5.0),))
    assert failed(view(0), before, termination=late, ended_at=8.0) == "worker 1: ValueError: x"
    said = ended(view(0), WorkerView(1), termination=late, lines={0: "fine", 1: "OSError: no such file"})
    assert said == (Status.TIMEOUT, "late; its log says: OSError: no such file")
    said = ended(well_ended(0, epochs_to_target=1), view(1), termination=late)
    assert said == (
        Status.TIMEOUT,
        "late; worker 0 has reached the target: `run.epoch` needs the same scores on every worker",
    )
    said = ended(well_ended(0, epochs_to_target=None), view(1), termination=late)
    assert said == (Status.TIMEOUT, "late")


HOOK = "; does the script call `dlbench.worker.begin`?"


def test_an_early_end_says_where_and_how() -> None:
    assert (
        failed(well_ended(0), lost(1), exit_code=0, lines={1: "epoch 3"}) == f"worker 1 {EARLY} (exit code 0), {AT_5}"
    )
    assert failed(WorkerView(0), exit_code=0) == f"worker 0 {EARLY} (exit code 0), before it connected{HOOK}"
    seen, lines = (lost(0, at=2.0), lost(1, at=1.0)), {0: "zero", 1: "Fatal Python error"}
    assert failed(*seen, exit_code=134, lines=lines) == (
        f"worker 1 {EARLY} (killed by SIGABRT), {AT_5}: Fatal Python error"
    )
    assert failed(WorkerView(0), WorkerView(1), line="There are not enough slots") == (
        "the launcher ended (exit code 1) before a worker connected: There are not enough slots"
    )


SHUT_DOWN = (
    "Traceback (most recent call last):\nUnknownError: Graph\n\nHorovod has been shut down. This was\n [[{{node x}}]]"
)


def follower_of_horovod(rank: int, at: float) -> WorkerView:
    """Return a worker of Horovod whose peer is gone: what TensorFlow says begins with nothing of it."""
    return lost(rank, at + 0.1, errors=(error(rank, "UnknownError: Graph execution error:", at, traceback=SHUT_DOWN),))


def test_of_horovods_workers_the_one_that_failed_by_itself_is_blamed() -> None:
    """Horovodrun names as the first whichever of its processes it looked at first."""
    follower = follower_of_horovod(0, 2.0)
    for first, how in (
        ((1, 137), "killed by SIGKILL"), ((0, 1), "its launcher does not report how"), (None, "exit code 1"),
    ):  # fmt: skip
        assert failed(follower, lost(1, 1.0), first=first) == f"worker 1 {EARLY} ({how}), {AT_5}"
    cause = lost(1, 3.0, errors=(error(1, "RuntimeError: the cause", 2.5),))
    assert failed(follower, cause, first=(0, 1)) == "worker 1: RuntimeError: the cause"
    both = failed(follower, follower_of_horovod(1, 1.0), first=(0, 1))
    assert both == "worker 1: UnknownError: Graph execution error:"


def test_a_crash_is_named_before_the_process_that_was_ended_over_it() -> None:
    lines = {0: "the last words of 0", 1: "Fatal Python error: Aborted"}
    seen = (lost(0, at=1.0), lost(1, at=1.1))
    rows: tuple[tuple[int, dict[str, Any]], ...] = (
        # Open MPI ends a process whose connection to another breaks with code 14.
        (1, {"exit_code": 14, "first": (0, 14), "lines": lines}),
        (1, {"exit_code": 14, "lines": lines}),
        # What is known of a process is believed: the other may have crashed over it.
        (0, {"first": (0, 3), "lines": lines}),
        (0, {"first": (0, -9), "lines": lines}),
        (0, {"lines": lines}),
        # Hydra says that something crashed, and not what.
        (1, {"exit_code": 11, "first": (None, -11), "lines": lines}),
        (0, {"exit_code": 11, "first": (None, -11)}),
    )
    for rank, how in rows:
        assert failed(*seen, **how).startswith(f"worker {rank} "), how
    assert failed(*seen, **rows[5][1]) == f"worker 1 {EARLY} (killed by SIGSEGV), {AT_5}: {lines[1]}"
    # Over a network the end of a peer comes first; its exit code is not that of the worker that failed.
    for first in (None, (0, 14)):
        reason = failed(lost(0, at=2.0), lost(1, at=1.0), exit_code=14, first=first)
        assert reason == f"worker 1 {EARLY} (its launcher does not report how), {AT_5}"


def test_a_process_that_open_mpi_has_ended_over_a_peer_is_not_the_first() -> None:
    # On busy cores it may be heard to end before the peer that was killed.
    seen = (lost(0, at=1.0), lost(1, at=1.4), lost(2, at=1.2))
    unknown = f"{EARLY} (its launcher does not report how), {AT_5}"
    for over_a_peer, rank in (((), 0), ((0,), 2), ((0, 2), 1), ((0, 1, 2), 0)):
        assert failed(*seen, exit_code=14, over_a_peer=frozenset(over_a_peer)) == f"worker {rank} {unknown}"
    named = failed(*seen, exit_code=137, first=(1, -9), over_a_peer=frozenset({0}))
    assert named == f"worker 1 {EARLY} (killed by SIGKILL), {AT_5}"
    # Of those that ended at once each may have been the first.
    at_once = (lost(0, at=1.001), lost(1, at=1.0), lost(2, at=1.002), lost(3, at=1.3))
    doubt = "; or worker 0 or 2 did, which ended within 100 ms of it"
    assert failed(*at_once, exit_code=14) == f"worker 1 {unknown}{doubt}"
    assert failed(*at_once, exit_code=14, over_a_peer=frozenset({0, 2})) == f"worker 1 {unknown}"
    assert failed(*at_once, exit_code=137, first=(1, -9)) == f"worker 1 {EARLY} (killed by SIGKILL), {AT_5}"


def test_while_workers_start_open_mpi_may_name_one_that_it_has_killed_itself() -> None:
    starting = lost(1, phase="start", step=None, has_trained=False)
    killed = f"worker 1 {EARLY} (killed by SIGKILL), in phase start"
    for others, doubt in (
        ((WorkerView(0), WorkerView(2)), "; or worker 0 or 2 did, which was not connected 100 ms later either"),
        ((WorkerView(0), lost(2, at=2.0)), "; or worker 0 did, which was not connected 100 ms later either"),
        ((lost(0, at=1.05), lost(2, at=2.0)), "; or worker 0 did, which was not connected 100 ms later either"),
        ((lost(0, at=2.0), lost(2, at=2.0)), ""),
    ):
        assert failed(others[0], starting, others[1], exit_code=137, first=(1, -9)) == killed + doubt
    # What is not its own signal, and a worker that had trained, are believed.
    assert (
        failed(WorkerView(0), starting, exit_code=3, first=(1, 3)) == f"worker 1 {EARLY} (exit code 3), in phase start"
    )
    assert failed(WorkerView(0), lost(1), first=(1, -9)) == f"worker 1 {EARLY} (killed by SIGKILL), {AT_5}"


def test_the_worker_on_the_missing_host_is_blamed_whoever_was_heard_to_end_first() -> None:
    # What is cut off closes no connection; the others are ended over it.
    seen = (lost(0, at=1.0, host="node1"), lost(1, at=2.0, host="node2"), view(2, host="node3"))
    down = f"worker {{}} {EARLY} (the host {{}} is down, or cannot be reached), {AT_5}"
    hosts = {0: "10.0.0.1", 1: "10.0.0.2", 2: "10.0.0.3"}
    for how in ({"exit_code": 0}, {"exit_code": 14}, {"exit_code": 14, "first": (0, 14)}):
        assert failed(*seen, missing_host=MissingHost("node3"), **how) == down.format(2, "node3"), how
    # Open MPI says its name, ssh its address or nothing; the reason says what the cluster calls it.
    for address, rank, named in (("10.0.0.3", 2, "10.0.0.3"), ("node3", 2, "10.0.0.3"), ("", 0, "10.0.0.1")):
        found = failed(*seen, exit_code=255, missing_host=MissingHost(address), hosts=hosts)
        assert found == down.format(rank, named), address
    # A process that is known to have ended otherwise did so before.
    assert failed(*seen, missing_host=MissingHost("node3"), first=(1, -9)).startswith("worker 1 ")
    reason = failed(WorkerView(0), WorkerView(1), missing_host=MissingHost("b", 213), hosts={0: "a", 1: "b"})
    how = "its launcher could not start on the host b, exit code 213"
    assert reason == f"worker 1 {EARLY} ({how}), before it connected"


def test_scripts_whose_weights_differ_have_diverged() -> None:
    def handed_in(*hashes: str | None, agreement: str | None = None, idle: int = 0) -> tuple[Status, str]:
        results = [
            {"weights_hash": weights, "agreement": agreement, "steps": 9 * (rank >= idle)}
            for rank, weights in enumerate(hashes)
        ]
        seen = [replace(well_ended(rank), result=result) for rank, result in enumerate(results)]
        return ended(*seen, exit_code=0)

    status, reason = handed_in("a", "a", "b")
    assert status is Status.DIVERGED
    assert reason.startswith("the workers' weights do not agree")
    assert "wrap a PyTorch model in DistributedDataParallel before the hook" in reason
    assert "trainable weights alone" in reason
    for hashes in (("a", "a"), ("a", None), (None, None), ("a",)):
        assert handed_in(*hashes)[0] is Status.COMPLETED, hashes
    assert handed_in("a", "b", "b", idle=1)[0] is Status.COMPLETED, "a parameter server has no model of the run"
    assert handed_in(None, "a", "b", idle=1)[0] is handed_in("a", "b", idle=2)[0] is Status.DIVERGED
    assert handed_in("a", "b", agreement="close")[0] is Status.COMPLETED, "dlbench's own loop has compared them"


def test_an_exit_code_beyond_128_is_a_signal_only_where_one_ends_processes() -> None:
    for code, said in ((137, "killed by SIGKILL"), (143, "killed by SIGTERM"), (-9, "killed by SIGKILL")):
        assert said in failed(lost(0), exit_code=code), code
    for code in (129 + 16, 191, 192, 213, 255):
        assert f"exit code {code}" in failed(lost(0), exit_code=code), code


def test_a_launcher_that_was_asked_to_end_is_named() -> None:
    asked = "something has asked the launcher to end"
    workers = (lost(0), lost(1, at=0.9))
    assert failed(*workers) == f"the launcher ended all its workers and does not say why (exit code 1): {asked}"
    assert failed(*workers, first=(0, -15)) == f"worker 0 {EARLY} (killed by SIGTERM), {AT_5}, or {asked}"
    for some in ((lost(0), WorkerView(1)), (WorkerView(0), WorkerView(1)), (WorkerView(0),)):
        assert asked in failed(*some), some
    for how in ({"first": (1, 1)}, {"line": "no slots"}, {"lines": {1: "ValueError: bad"}}, {"exit_code": 14}):
        assert asked not in failed(*workers, **how), how
    for code in (-15, 1):
        assert asked not in failed(lost(0), exit_code=code, is_direct=True), "there is no launcher"
    assert asked not in failed(lost(0), hurt(1, "ValueError: bad"))


def test_servers_are_called_so() -> None:
    gone = replace(lost(2), role="server", index=0)
    assert failed(well_ended(0), gone, first=(2, -9)) == f"server 0 {EARLY} (killed by SIGKILL), {AT_5}"
    said = replace(hurt(2, "MemoryError: no room"), role="server", index=0)
    assert failed(lost(0, at=2.0), said) == "server 0: MemoryError: no room"
    starting = view(1, is_connected=False, closed_at=1.0, phase="start", step=None, has_trained=False)
    unheard = replace(WorkerView(2), role="server", index=0), replace(WorkerView(3), role="server", index=1)
    assert "; or worker 0 or server 0 or 1 did, which" in failed(WorkerView(0), starting, *unheard, first=(1, -9))
