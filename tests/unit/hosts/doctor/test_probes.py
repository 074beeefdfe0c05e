"""What a host finds out about itself: nothing hangs, and what would leak into runs is known."""

import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlbench.hosts.doctor import probes
from dlbench.hosts.doctor.facts import _clock_server
from dlbench.records.mpi import version_text


def test_a_probe_that_hangs_or_fails_keeps_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "PROBING_S", 0.5)
    end = threading.Event()

    def fails() -> None:
        raise PermissionError(13, "Permission denied")

    def times_out() -> None:
        raise TimeoutError("timed out")

    begun = time.monotonic()
    try:
        found = probes.in_time({"hangs": end.wait, "fails": fails, "times out": times_out, "works": lambda: 1})
    finally:
        end.set()
    assert time.monotonic() - begun < 60
    assert found == {
        "hangs": {"error": "no answer within 0.5 s"},
        "fails": {"error": "Permission denied"},
        "times out": {"error": "timed out"},
        "works": 1,
    }


def test_slow_programs_are_not_reported_as_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(probes, "_PROGRAM_S", 0.1)
    slow = [sys.executable, "-c", "import time; time.sleep(30)"]
    assert probes.answer_of(slow) == {"error": "not loaded within 0.1 s"}
    monkeypatch.setattr(probes, "_PROGRAM_S", 60)
    dies = [sys.executable, "-c", "import sys; print('first', file=sys.stderr); sys.exit('libmpi.so: not found')"]
    assert probes.answer_of(dies) == {"problem": "libmpi.so: not found"}
    monkeypatch.setattr(probes, "_PROGRAM_S", 0.1)
    mpirun = tmp_path / "mpirun"
    mpirun.write_text("#!/bin/sh\nexec sleep 2\n")
    mpirun.chmod(0o755)
    monkeypatch.setattr(probes, "mpirun_path", lambda: mpirun)
    assert probes.in_time({"mpi": probes._mpi}) == {"mpi": {"error": f"`{mpirun} --version` does not answer"}}
    assert version_text(str(mpirun), 0.1) == ""


def test_what_leaks_into_runs() -> None:
    environment = {
        "OMP_NUM_THREADS": "4",
        "PATH": "/bin",
        "PRTE_MCA_plm_ssh_agent": "ssh",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "HOROVOD_CYCLE_TIME": "5",
        "SLURM_JOB_ID": "7",
    }
    assert probes.leaked(environment) == {"HOROVOD_CYCLE_TIME": "5", "OMP_NUM_THREADS": "4"}


def test_clocks_are_compared_with_the_machine_that_asks() -> None:
    with _clock_server("127.0.0.1") as port:
        found = probes._compare_clocks("127.0.0.1", port)
    assert found["round_trip_s"] > 0
    assert abs(found["offset_s"]) <= found["round_trip_s"] / 2 + 1e-3  # of two clocks that are one
    refused = probes.in_time({"home": lambda: probes._compare_clocks("127.0.0.1", port)})
    assert refused == {"home": {"error": "Connection refused"}}


def test_a_clock_is_compared_halfway_between_question_and_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lines:
        def write(self, _: bytes) -> None: ...

        def readline(self) -> bytes:
            return b"1000.0\n"

    moments = iter([50.0, 50.4])
    clocks = SimpleNamespace(time=lambda: 1002.0, perf_counter=lambda: next(moments))
    monkeypatch.setattr(probes, "time", clocks)
    assert probes._question(Lines()) == (pytest.approx(0.4), pytest.approx(2.2))
