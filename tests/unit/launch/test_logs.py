"""Logs stay small, and the line that matters is found in the noise."""

from pathlib import Path

import pytest

from dlbench.launch.logs import LogBounds, lost_host, rank_exit, telling_line, unreachable, unstarted_host

MPIRUN_EXIT = """\
--------------------------------------------------------------------------
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-vm-7220@1,12]
   Exit code:    3
--------------------------------------------------------------------------
"""
MPIRUN_SIGNAL = """\
--------------------------------------------------------------------------
prterun noticed that process rank 1 with PID 7219 on node vm exited on
signal 9 (Killed).
--------------------------------------------------------------------------
"""
MPIRUN_WITHOUT_FINALIZE = """\
--------------------------------------------------------------------------
prterun has exited due to process rank 2 with PID 1956 on node my-host exiting
improperly. There are three reasons this could occur:

1. this process did not call "init" before exiting, but others in the
job did.
--------------------------------------------------------------------------
"""
MPI_ABORT = """\
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
  Proc: [[40195,1],1]
  Errorcode: 7
--------------------------------------------------------------------------
"""
MPICH_SIGNAL = """

===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 7805 RUNNING AT my-host
=   EXIT CODE: {code}
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: {said}
This typically refers to a problem with your application.
Please see the FAQ page for debugging suggestions
"""
INTEL_MPI_SIGNAL = """
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   RANK 1 PID 7805 RUNNING AT my-host
=   KILLED BY SIGNAL: 9 (Killed)
===================================================================================
"""
MPICH_ABORT = """\
Abort(7) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 7) - process 1
"""
MPICH_PEER_LOST = """\
Abort(410101519) on node 0 (rank 0 in comm 0): Fatal error in internal_Barrier: Unknown error class, error stack:
"""
TRACEBACK = """\
epoch 1
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    one()
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 4, in <module>
    two()
ValueError: the last word
[vm:123] something MPI says afterwards
"""


def log(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "worker-0.log"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        (MPIRUN_EXIT, ""),
        (MPIRUN_SIGNAL, ""),
        ("dlbench: process rank 1 ended on signal 9\n", ""),
        ("dlbench: DLBENCH_ASSIGNMENT is not set\n", "dlbench: DLBENCH_ASSIGNMENT is not set"),
        ("mine\n\n" + MPIRUN_EXIT, "mine"),
        (INTEL_MPI_SIGNAL, ""),
        ("[mpiexec@vm] main (mpiexec.c:1): it says\n[proxy:0@vm] and so\n", ""),
        ("mine\n" + MPICH_SIGNAL.format(code=9, said="Killed (signal 9)"),
         "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)"),
        (TRACEBACK, "ValueError: the last word"),
        ("Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  File x\n",
         "Fatal Python error: Segmentation fault"),
        ("/p/python: No module named dlbench.worker\n", "/p/python: No module named dlbench.worker"),
        ("mpirun: error while loading shared libraries: libx.so\n",
         "mpirun: error while loading shared libraries: libx.so"),
    ],
)  # fmt: skip
def test_the_telling_line(tmp_path: Path, text: str, line: str) -> None:
    assert telling_line(log(tmp_path, text)) == line


def test_no_log_tells_nothing(tmp_path: Path) -> None:
    assert telling_line(tmp_path / "none.log") == ""
    assert rank_exit(tmp_path / "none.log") is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (MPIRUN_EXIT, (12, "exit code", 3)),
        (MPIRUN_SIGNAL, (1, "signal", 9)),
        (MPI_ABORT, (1, "exit code", 7)),
        ("dlbench: process rank 3 ended with exit code 4\n", (3, "exit code", 4)),
        ("dlbench: process rank 3 ended on signal 11\n", (3, "signal", 11)),
        (MPI_ABORT + MPIRUN_EXIT, (1, "exit code", 7)),
        (MPIRUN_WITHOUT_FINALIZE, (2, "exit code", 0)),
        ("all is well\n", None),
    ],
)
def test_what_a_launcher_says_of_a_process(tmp_path: Path, text: str, found: object) -> None:
    assert rank_exit(log(tmp_path, text)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (MPICH_SIGNAL.format(code=9, said="Killed (signal 9)"), (None, "signal", 9)),
        (MPICH_SIGNAL.format(code=11, said="Segmentation fault (signal 11)"), (1, "signal", 11)),
        (MPICH_SIGNAL.format(code=9, said="Segmentation fault (signal 11)"), (None, "signal", 11)),
        (MPICH_SIGNAL.format(code=3, said=""), (1, "exit code", 3)),
        (MPICH_SIGNAL.format(code=9, said="Killed (signal 9)").replace("7805", "1"), None),
        (INTEL_MPI_SIGNAL, (1, "signal", 9)),
        (INTEL_MPI_SIGNAL.replace("7805", "7804").replace("RANK 1", "RANK 0") + INTEL_MPI_SIGNAL, None),
        (MPICH_ABORT, (1, "exit code", 7)),
        (MPICH_PEER_LOST, None),
    ],
)
def test_what_hydra_says_of_a_process_it_knows_by_its_number(tmp_path: Path, text: str, found: object) -> None:
    assert rank_exit(log(tmp_path, text), {0: 3, 7804: 0, 7805: 1}) == found


def test_a_log_keeps_its_head_and_its_newest_lines(tmp_path: Path) -> None:
    path = log(tmp_path, "HEAD" + "m" * 1000 + "TAIL")
    bounds = LogBounds(tmp_path, limit=100, head=4, tail=4)
    with path.open("a") as writer:
        bounds.enforce()
        writer.write("more")
    assert path.read_text() == "HEAD\n[dlbench: about 1,000 bytes of this log were dropped here]\nTAILmore"


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    path = log(tmp_path, "x" * 100)
    LogBounds(tmp_path, limit=100, head=4, tail=4).enforce()
    assert path.read_text() == "x" * 100


def test_a_log_cut_again_and_again_stays_small(tmp_path: Path) -> None:
    path, bounds = log(tmp_path, ""), LogBounds(tmp_path, limit=1000, head=10, tail=10)
    for _ in range(50):
        with path.open("a") as writer:
            writer.write("y" * 900)
        bounds.enforce()
        assert path.stat().st_size <= 1000
    assert path.read_text().count("dropped here") == 1


def test_other_files_are_not_touched(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text("z" * 5000)
    LogBounds(tmp_path, limit=100, head=4, tail=4).enforce()
    assert journal.stat().st_size == 5000


def test_lack_of_memory_is_the_cause_of_a_fatal_error(tmp_path: Path) -> None:
    log = tmp_path / "worker-0.log"
    log.write_text("terminate called after throwing\n  what():  std::bad_alloc\nFatal Python error: Aborted\n")
    assert "std::bad_alloc" in telling_line(log)
    log.write_text("retrying: Cannot allocate memory\nTraceback (most recent call last):\n  x\nValueError: y\n")
    assert telling_line(log) == "ValueError: y"


def test_the_first_process_that_horovodrun_names(tmp_path: Path) -> None:
    log = tmp_path / "launcher.log"
    log.write_text(
        "[1]<stderr>:Process 3 exit with status code 7.\nProcess 1 exit with status code 137.\n"
        "Terminating remaining workers after failure of Process 1.\nProcess 0 exit with status code 143.\n"
    )
    assert rank_exit(log) == (1, "exit code", 137)


def test_a_host_that_open_mpi_has_lost_is_named(tmp_path):
    log = tmp_path / "launcher.log"
    log.write_text(
        "PRTE has lost communication with a remote daemon.\n\n"
        "  HNP daemon   : [prterun-node1-23@0,0] on node node1\n"
        "  Remote daemon: [prterun-node1-23@0,1] on node node-2.example\n\nThis is usually due to\n"
    )
    assert lost_host(log) == "node-2.example"
    began = (
        "A daemon failed to report back after being spawned. This could\nbe due to several factors:\n\n"
        "  Local host:    node1\n  Remote host:   node3\n  Daemon exit status: {status}\n\n"
    )
    log.write_text(began.format(status=255))
    assert lost_host(log) == "node3"
    log.write_text(began.format(status=127))
    assert lost_host(log) is None, "there is no daemon on a host that answers"
    log.write_text("prterun noticed that process rank 1 with PID 7 on node node2 exited on signal 9 (Killed).\n")
    assert lost_host(log) is None
    assert lost_host(tmp_path / "absent") is None


def test_a_host_that_ssh_has_lost_is_named_where_ssh_names_it(tmp_path: Path) -> None:
    """What OpenSSH 9.2 prints depends on whether it was reading or sending when the host died."""
    said = "[mpiexec@node1] control_cb (mpiexec/pmiserv_cb.c:280): assert (!closed) failed"
    lines = {
        "Connection to 10.77.1.2 closed by remote host.": "10.77.1.2",
        "Timeout, server 10.77.1.2 not responding.": "10.77.1.2",
        "Connection reset by 10.77.1.2 port 22": "10.77.1.2",
        "Connection closed by fe80::2%eth0 port 22": "fe80::2%eth0",
        "Read from remote host 10.77.1.2: Connection reset by peer": "10.77.1.2",
        "client_loop: send disconnect: Broken pipe": "",
        "client_loop: send disconnect: Connection reset": "",
    }
    assert {line: lost_host(log(tmp_path, f"{line}\r\n{said}\n")) for line in lines} == lines
    assert lost_host(log(tmp_path, said)) is None


ADVICE = """\
------------------------------------------------------------
A daemon failed to report back after being spawned. This could
be due to several factors.

  Remote host:   10.0.0.2
  Daemon exit status: 255

check that any firewall (e.g., iptables) has been disabled and
try again.
------------------------------------------------------------
"""


def test_what_ssh_says_of_a_host_is_told_not_general_advice(tmp_path: Path) -> None:
    path = log(tmp_path, f"Host key verification failed.\n{ADVICE}")
    assert telling_line(path) == "Host key verification failed."
    assert lost_host(path) == "10.0.0.2"
    assert unstarted_host(path) == ("10.0.0.2", 255)
    assert unstarted_host(log(tmp_path, "")) is None
    assert telling_line(log(tmp_path, ADVICE)) == ""


def test_hosts_without_a_way_between_them(tmp_path: Path) -> None:
    text = """\
At least one pair of MPI processes are unable to reach each other for
MPI communications.  This means that no Open MPI device has indicated

  Process 1 ([[41282,1],2]) is on host: node3
  Process 2 ([[41282,1],0]) is on host: node1
  BTLs attempted: self
"""
    assert unreachable(log(tmp_path, text)) == "node3 and node1"
    assert unreachable(log(tmp_path, ADVICE)) == ""
