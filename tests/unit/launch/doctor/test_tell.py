"""What a host tells: it never hangs, and knows what leaks into runs."""

import sys
import threading
import time
from types import SimpleNamespace

import pytest

from dlbench.launch.doctor import tell
from dlbench.launch.doctor.home import Home
from dlbench.launch.doctor.tell import leaked


def test_a_probe_that_hangs_or_fails_keeps_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tell, "TELLING_S", 2.0)
    end = threading.Event()

    def fails() -> None:
        raise PermissionError(13, "Permission denied")

    def times_out() -> None:
        raise TimeoutError("timed out")

    begun = time.monotonic()
    try:
        told = tell._at_once({"hangs": end.wait, "fails": fails, "times out": times_out, "works": lambda: 1})
    finally:
        end.set()
    assert time.monotonic() - begun < 60
    assert told == {
        "hangs": {"error": "no answer within 2 s"},
        "fails": {"error": "Permission denied"},
        "times out": {"error": "timed out"},
        "works": 1,
    }


def test_programs_that_are_slow_are_not_said_to_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tell, "_PROGRAM_S", 0.1)
    slow = [sys.executable, "-c", "import time; time.sleep(30)"]
    assert tell._json_of(slow) == {"error": "MPI's library is not loaded within 0.1 s"}
    told = tell._at_once({"mpi": lambda: tell._first_line(slow)})
    assert told["mpi"]["error"].endswith("gives no answer within 0.1 s")
    assert tell._first_line(["/absent/mpirun"]) == ""


def test_what_leaks_into_runs() -> None:
    environment = {
        "OMP_NUM_THREADS": "4",
        "PATH": "/bin",
        "PRTE_MCA_plm_ssh_agent": "ssh",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "HOROVOD_CYCLE_TIME": "5",
        "SLURM_JOB_ID": "7",
    }
    assert leaked(environment) == {"HOROVOD_CYCLE_TIME": "5", "OMP_NUM_THREADS": "4"}


def test_home_tells_the_time() -> None:
    with Home("127.0.0.1") as opened:
        told = tell._call_home("127.0.0.1", opened.port)
    assert told["round_trip_s"] > 0
    assert abs(told["offset_s"]) <= told["round_trip_s"] / 2 + 1e-3  # of two clocks that are one


def test_a_clock_is_compared_halfway_between_question_and_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lines:
        def write(self, _: bytes) -> None: ...

        def readline(self) -> bytes:
            return b"1000.0\n"

    moments = iter([50.0, 50.4])
    clocks = SimpleNamespace(time=lambda: 1002.0, perf_counter=lambda: next(moments))
    monkeypatch.setattr(tell, "time", clocks)
    assert tell._question(Lines()) == (pytest.approx(0.4), pytest.approx(2.2))


def test_nobody_at_home() -> None:
    with Home("127.0.0.1") as opened:
        port = opened.port
    told = tell._at_once({"home": lambda: tell._call_home("127.0.0.1", port)})
    assert told == {"home": {"error": "Connection refused"}}
