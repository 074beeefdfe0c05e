"""A study of short runs over the hosts of a cluster: started in the first host, looked at from the machine."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dlbench.records.assignment import ATTEMPT_VARIABLE
from tests.cluster.cluster import Cluster
from tests.cluster.host import Host
from tests.cluster.identity import Identity, end_all
from tests.cluster.testing import cluster
from tests.functional import paced
from tests.functional.faults.study import Study
from tests.functional.small_disk import small_disk
from tests.functional.studies import AttemptFolder

DLBENCH = ("-m", "dlbench", "run")
_STUDIES_SIZE, _TEMPORARY_SIZE = "256m", "32m"
_POLL_S = 0.02
# Every worker's MPI listens on one of these alone, as where a firewall lets nothing else through. The kernel keeps a
# port for a minute after it was used.
FIRST_PORT, NUM_PORTS = 41_000, 100
ONLY_PORTS = {
    "OMPI_MCA_btl_tcp_port_min_v4": str(FIRST_PORT),
    "OMPI_MCA_btl_tcp_port_range_v4": str(NUM_PORTS),
}


@dataclass(frozen=True)
class HostShape:
    """What is trained: short runs with one worker on each host, and the limits that are set."""

    workers: int = 3
    repeats: int = 2
    epochs: int = 8
    startup_timeout_s: float = 20.0
    stall_timeout_s: float = 6.0
    orphan_timeout_s: float = 3.0

    def scenario(self) -> str:
        base = {
            "workers": self.workers, "mode": "scale-out", "cores_per_worker": 1, "strategy": "mpi", "batch_size": 16,
            "trainer": "paced:Trainer", "trainer.step_s": 0.01, "model": "softmax", "dataset": "digits",
            "train_samples": 480, "validation_samples": 100, "epochs": self.epochs, "evaluate_every": 1000,
            "learning_rate": 0.1,
        }  # fmt: skip
        limits = {
            "startup_timeout_s": self.startup_timeout_s, "stall_timeout_s": self.stall_timeout_s,
            "orphan_timeout_s": self.orphan_timeout_s, "flush_interval_s": 0.05, "grace_s": 1, "timeout_s": 120,
        }  # fmt: skip
        return json.dumps({"base": base, "repeats": self.repeats, "order": "written", "baseline": "none", **limits})


class HostStudy(Study):
    """A folder with a scenario and a cluster file, and the study that `dlbench run` in the first host makes of it."""

    def __init__(self, made: Cluster, folder: Path, shape: HostShape) -> None:
        super().__init__(folder, shape)
        self.made, self.shape = made, shape
        shutil.copy(paced.__file__, folder)
        cores = sorted(os.sched_getaffinity(0))
        hosts = [
            {"address": host.address, "slots": 1, "cores": [cores[number % len(cores)]]}
            for number, host in enumerate(made.hosts)
        ]
        self.cluster_file = folder / "cluster.yaml"
        self.cluster_file.write_text(
            json.dumps({"hosts": hosts, "ssh": str(made.ssh), "environment": ONLY_PORTS}), encoding="utf-8"
        )
        self.processes_before = {host.name: set(host.processes()) for host in made.hosts}

    def start(
        self, *arguments: str, variables: Mapping[str, str] | None = None, host: Host | None = None
    ) -> subprocess.Popen[bytes]:
        """Start `dlbench run` in a host, by default the first; what it prints goes to a file."""
        argv = [sys.executable, *DLBENCH, str(self.scenario), "--cluster", str(self.cluster_file), *arguments]
        return (host or self.made.hosts[0]).start(
            argv,
            output=self.folder / "output.txt",
            cwd=self.folder,
            variables={"PYTHONUNBUFFERED": "1", **(variables or {})},
        )

    def attempts(self) -> list[AttemptFolder]:
        """Return the attempts in the order they were begun in."""
        return sorted(super().attempts(), key=lambda attempt: _begun_at(attempt.path))

    def of_runs(self, host: Host | None = None) -> set[Identity]:
        """Return the processes that runs have brought to the hosts, or to one.

        Neither dlbench itself is one, nor a session of a host's sshd: it may wait without end for a client that was cut
        off.
        """
        found = self._extra(host)
        return {who for who in found if not _is_dlbench(who.pid) and not words_of(who.pid)[0].startswith("sshd:")}

    def dlbench(self) -> list[int]:
        """Return the processes of dlbench itself, in whatever host."""
        return [who.pid for who in self._extra() if _is_dlbench(who.pid) and words_of(who.pid)[0] == sys.executable]

    def worker(self, attempt: AttemptFolder, rank: int) -> int | None:
        """Return the process of an attempt's worker, by its id on this machine; None where it has not begun."""
        marks = {f"{ATTEMPT_VARIABLE}={attempt.attempt_id}", f"OMPI_COMM_WORLD_RANK={rank}"}
        return next((who.pid for who in self._extra() if marks <= set(_environment(who.pid))), None)

    def launcher(self, attempt: AttemptFolder) -> int:
        """Return the process of an attempt's mpirun."""
        mark = f"{ATTEMPT_VARIABLE}={attempt.attempt_id}"
        return next(
            who.pid
            for who in self._extra(self.made.hosts[0])
            if mark in _environment(who.pid) and "-np" in words_of(who.pid)
        )

    def left_running(self) -> list[int]:
        return [who.pid for who in self._extra()]

    def still_running(self, within_s: float = 30.0) -> list[str]:
        """Wait until nothing runs but what did before; return what runs even then."""
        deadline = time.monotonic() + within_s
        while (left := self._extra()) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return [describe(process) for process in left]

    def clean_up(self) -> None:
        """End whatever a defect has left running."""
        end_all(self._extra)

    def _extra(self, host: Host | None = None) -> list[Identity]:
        hosts = self.made.hosts if host is None else (host,)
        return [who for one in hosts for who in one.processes() if who not in self.processes_before[one.name]]


@contextmanager
def struck_study(folder: Path, num_hosts: int, shape: HostShape) -> Iterator[HostStudy]:
    """Give a study on a cluster of its own, on a small disk; hosts have small disks for their temporary files."""
    small = folder / "small"
    small.mkdir(parents=True)
    (folder / "studies").symlink_to(small)
    # Mounted before the hosts are made, which then have it, too.
    with small_disk(small, _STUDIES_SIZE), cluster(num_hosts) as made:
        for host in made.hosts:
            size = f"size={_TEMPORARY_SIZE},mode=1777"
            host.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", host.variables["TMPDIR"]])
        with HostStudy(made, folder, shape) as study:
            yield study


def wait_until_ended(processes: set[Identity], within_s: float) -> set[Identity]:
    """Wait until processes have ended; return those that have not."""
    deadline = time.monotonic() + within_s
    while (left := {who for who in processes if who.is_alive}) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return left


def describe(process: Identity) -> str:
    """Return a process as a line: its id and its command."""
    return f"{process.pid} {' '.join(words_of(process.pid))[:120]}"


def _begun_at(folder: Path) -> tuple[float, str]:
    path = folder / "assignment.json"
    return ((path if path.exists() else folder).stat().st_mtime, str(folder))


def _is_dlbench(pid: int) -> bool:
    words = words_of(pid)
    return any(tuple(words[place : place + 3]) == DLBENCH for place in range(len(words)))


def words_of(pid: int) -> list[str]:
    """Return the command that a process was started with, word by word; one empty word where it has ended."""
    return _strings(pid, "cmdline") or [""]


def _environment(pid: int) -> list[str]:
    return _strings(pid, "environ")


def _strings(pid: int, name: str) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has ended
        return []
    return [part.decode(errors="replace") for part in text.split(b"\0")[:-1]]
