"""Logs stay small, and the line that matters is found in the noise."""

import re
from pathlib import Path

from dlbench.launch.logs import LogBounds, MissingHost, ProcessExit, read_launcher_log, telling_line

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
# Of PyTorch 2.13: it lists what it has ended first.
TORCHRUN_EXIT = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
python FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-27_15:05:12
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 23595)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 23595
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-27_15:05:12
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 23596) 
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""  # noqa: W291
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
HOROVODRUN_EXIT = """\
[1]<stderr>:Process 3 exit with status code 7.
Process 1 exit with status code 137.
Terminating remaining workers after failure of Process 1.
Process 0 exit with status code 143.
"""
LOST_DAEMON = """\
PRTE has lost communication with a remote daemon.

  HNP daemon   : [prterun-node1-23@0,0] on node node1
  Remote daemon: [prterun-node1-23@0,1] on node node-2.example

This is usually due to
"""
ADVICE = """\
------------------------------------------------------------
A daemon failed to report back after being spawned. This could
be due to several factors.

  Local host:    node1
  Remote host:   10.0.0.2
  Daemon exit status: {status}

check that any firewall (e.g., iptables) has been disabled and
try again.
------------------------------------------------------------
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

ASSERTION = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "a.py", line 5, in <module>
[rank1]:     assert steps % world_size == 0
[rank1]:            ^^^^^^^^^^^^^^^^^^^^^^^
[rank1]: AssertionError
"""

RECURSION = """\
Traceback (most recent call last):
  File "a.py", line 5, in f
    f(x)
  [Previous line repeated 996 more times]
  File "a.py", line 6, in f
RecursionError
"""

GRAPH_ERROR = """\
Traceback (most recent call last):
  File "a.py", line 5, in <module>
    f(x)
tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:

Detected at node MatrixInverse defined at (most recent call last):
<stack traces unavailable>
Input is not invertible.
\t [[{{node MatrixInverse}}]] [Op:__inference_f_8]
[vm:123] something MPI says afterwards
"""


def log(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "worker-0.log"
    path.write_text(text)
    return path


def test_the_telling_line(tmp_path: Path) -> None:
    fatal = "Fatal Python error: Segmentation fault"
    alone = "dlbench: no connection to dlbench for 30 s (vm port 7: ConnectionRefusedError); ending"
    rows = {
        "": "",
        MPIRUN_EXIT: "",
        MPIRUN_SIGNAL: "",
        INTEL_MPI_SIGNAL: "",
        ADVICE: "",
        "dlbench: process rank 1 ended on signal 9\n": "",
        "[mpiexec@vm] main (mpiexec.c:1): it says\n[proxy:0@vm] and so\n": "",
        "dlbench: DLBENCH_ASSIGNMENT is not set\n": "dlbench: DLBENCH_ASSIGNMENT is not set",
        "mine\n\n" + MPIRUN_EXIT: "mine",
        f"Host key verification failed.\n{ADVICE}": "Host key verification failed.",
        "mine\n" + MPICH_SIGNAL.format(code=9, said="Killed (signal 9)"):
            "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)",
        TRACEBACK: "ValueError: the last word",
        re.sub("^", "[rank1]: ", TRACEBACK, flags=re.MULTILINE) + "bye\n": "ValueError: the last word",
        ASSERTION: "AssertionError: assert steps % world_size == 0",
        ASSERTION.replace("AssertionError", "Epoch"): "Epoch",  # of another thread
        RECURSION: "RecursionError: f(x)",
        GRAPH_ERROR: "InvalidArgumentError: Input is not invertible.",
        fatal + "\n\nCurrent thread 0x1 (most recent call first):\n  File x\n": fatal,
        alone + '\nCurrent thread 0x1 (most recent call first):\n  File "<frozen runpy>", line 198 in x\n': alone,
        'Thread 0x1 (most recent call first):\n  File "<frozen runpy>", line 198 in _run_module_as_main\n': "",
        # Lack of memory is the cause of a fatal error.
        "terminate called\n  what():  std::bad_alloc\nFatal Python error: Aborted\n": "  what():  std::bad_alloc",
        "terminate called\n  what():  sizes\nFatal Python error: Aborted\n": "Fatal Python error: Aborted: sizes",
        "retrying: Cannot allocate memory\nTraceback (most recent call last):\n  x\nValueError: y\n": "ValueError: y",
        "/p/python: No module named dlbench.worker\n": "/p/python: No module named dlbench.worker",
        "mpirun: error while loading shared libraries: x\n": "mpirun: error while loading shared libraries: x",
    }  # fmt: skip
    assert {text: telling_line(log(tmp_path, text)) for text in rows} == rows
    assert telling_line(tmp_path / "none.log") == ""


def test_the_process_that_failed_first(tmp_path: Path) -> None:
    rows: dict[str, tuple[int | None, int] | None] = {
        MPIRUN_EXIT: (12, 3),
        MPIRUN_SIGNAL: (1, -9),
        MPIRUN_SIGNAL.replace("signal 9", "signal 137"): (1, -9),
        MPI_ABORT: (1, 7),
        MPI_ABORT + MPIRUN_EXIT: (1, 7),
        MPIRUN_WITHOUT_FINALIZE: (2, 0),
        "dlbench: process rank 3 ended with exit code 4\n": (3, 4),
        "dlbench: process rank 3 ended on signal 11\n": (3, -11),
        HOROVODRUN_EXIT: (1, 137),
        TORCHRUN_EXIT.format(code="-11"): (1, -11),
        TORCHRUN_EXIT.format(code="3"): (1, 3),
        "all is well\n": None,
        # Hydra names a process by its number.
        MPICH_SIGNAL.format(code=9, said="Killed (signal 9)"): (None, -9),
        MPICH_SIGNAL.format(code=11, said="Segmentation fault (signal 11)"): (1, -11),
        MPICH_SIGNAL.format(code=9, said="Segmentation fault (signal 11)"): (None, -11),
        MPICH_SIGNAL.format(code=3, said=""): (1, 3),
        MPICH_SIGNAL.format(code=9, said="Killed (signal 9)").replace("7805", "1"): None,
        INTEL_MPI_SIGNAL: (1, -9),
        INTEL_MPI_SIGNAL.replace("7805", "7804").replace("RANK 1", "RANK 0") + INTEL_MPI_SIGNAL: None,
        MPICH_ABORT: (1, 7),
        MPICH_PEER_LOST: None,
    }
    for text, expected in rows.items():
        found = read_launcher_log(log(tmp_path, text), {0: 3, 7804: 0, 7805: 1}).first_exit
        assert found == (expected and ProcessExit(*expected)), text


def test_a_host_that_a_launcher_misses(tmp_path: Path) -> None:
    """What OpenSSH 9.2 prints depends on whether it was reading or sending when the host died."""
    said = "[mpiexec@node1] control_cb (mpiexec/pmiserv_cb.c:280): assert (!closed) failed\n"
    rows: dict[str, MissingHost | None] = {
        LOST_DAEMON: MissingHost("node-2.example"),
        ADVICE.format(status=255): MissingHost("10.0.0.2"),
        ADVICE.format(status=127): MissingHost("10.0.0.2", 127),
        "Connection to 10.77.1.2 closed by remote host.\r\n": MissingHost("10.77.1.2"),
        "dlbench: the Ray node of 10.77.1.2 is gone\n": MissingHost("10.77.1.2"),
        "Timeout, server 10.77.1.2 not responding.\r\n": MissingHost("10.77.1.2"),
        "Connection reset by 10.77.1.2 port 22\r\n": MissingHost("10.77.1.2"),
        "Connection closed by fe80::2%eth0 port 22\r\n": MissingHost("fe80::2%eth0"),
        "Read from remote host 10.77.1.2: Connection reset by peer\r\n": MissingHost("10.77.1.2"),
        "client_loop: send disconnect: Broken pipe\r\n": MissingHost(""),
        "client_loop: send disconnect: Connection reset\r\n": MissingHost(""),
        MPIRUN_SIGNAL: None,
        "": None,
    }
    assert {text: read_launcher_log(log(tmp_path, text + said)).missing_host for text in rows} == rows
    absent = read_launcher_log(tmp_path / "absent")
    assert (absent.missing_host, absent.first_exit) == (None, None)


def test_hosts_without_a_route_between_them(tmp_path: Path) -> None:
    text = """\
At least one pair of MPI processes are unable to reach each other for
MPI communications.  This means that no Open MPI device has indicated

  Process 1 ([[41282,1],2]) is on host: node3
  Process 2 ([[41282,1],0]) is on host: node1
  BTLs attempted: self
"""
    assert read_launcher_log(log(tmp_path, text)).unreachable == "node3 and node1"
    assert read_launcher_log(log(tmp_path, ADVICE)).unreachable == ""


def test_processes_that_open_mpi_has_ended_over_a_peer(tmp_path: Path) -> None:
    text = """\
[node1:00000] *** An error occurred in Socket closed
[node1:00000] *** reported by process [3580035073,0]
[node1:00000] *** on a NULL communicator
 [node2:00000] *** An error occurred in Socket closed
[node2:00000] *** reported by process [3580035073,12]
[node2:00000] *** An error occurred in MPI_Send
[node2:00000] *** reported by process [3580035073,3]
"""
    assert read_launcher_log(log(tmp_path, text)).over_a_peer == {0, 12}


def test_a_log_keeps_its_head_and_its_newest_lines(tmp_path: Path) -> None:
    path = log(tmp_path, "HEAD" + "m" * 1000 + "TAIL")
    bounds = LogBounds(tmp_path, limit=100, head=4, tail=4)
    others = {"journal.jsonl": "z" * 5000, "small.log": "x" * 100}
    for name, text in others.items():
        (tmp_path / name).write_text(text)
    with path.open("a") as writer:
        bounds.enforce()
        writer.write("more")
    assert path.read_text() == "HEAD\n[dlbench: about 1,000 bytes of this log were dropped here]\nTAILmore"
    assert {name: (tmp_path / name).read_text() for name in others} == others
    # Cut again and again it stays small.
    for _ in range(50):
        with path.open("a") as writer:
            writer.write("y" * 90)
        bounds.enforce()
        assert path.stat().st_size <= 100
    assert path.read_text().count("dropped here") == 1
