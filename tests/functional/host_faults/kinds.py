"""The kinds of faults that strike a cluster: how each is done from outside and undone, and what it must lead to."""

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.host import Host
from tests.functional.host_faults.study import FIRST_PORT, NUM_PORTS, HostShape, HostStudy, wait_until_ended, words_of
from tests.functional.studies import AttemptFolder

KILLED = "dlbench itself was ended while this attempt ran"
_START_S = 60.0
# An end without a time limit: dlbench waits for 2 s, gives 1 s of grace, and asks hosts over ssh, which may be cut off.
# All of it is slow where hosts share slow cores.
LONGEST_END_S = 30.0
# Listens on all ports of a range until it is killed, on those that a run has as soon as they are free; says so.
_LISTEN = """\
import socket, sys, time
wanted, held = set(range(int(sys.argv[1]), int(sys.argv[2]))), []
while True:
    for port in sorted(wanted):
        try:
            held.append(socket.create_server(("", port)))
            wanted.discard(port)
        except OSError:
            pass
    print("listening", flush=True)
    time.sleep(0.01 if wanted else 3600)
"""


@dataclass
class Struck:
    """Where a fault strikes: a worker of an attempt, and so the host it is on; keeps what undoing needs."""

    study: HostStudy
    attempt: AttemptFolder
    rank: int
    listener: subprocess.Popen[bytes] | None = None
    keys: str = ""

    @property
    def host(self) -> Host:
        """The host of the worker: each has one."""
        return self.study.made.hosts[self.rank]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the worker, as soon as it is there."""
        deadline = time.monotonic() + _START_S
        while (pid := self.study.worker(self.attempt, self.rank)) is None:
            assert time.monotonic() < deadline, f"worker {self.rank} does not start"
        os.kill(pid, number)


@dataclass(frozen=True)
class Kind:
    """One kind.

    Attributes:
        strike: Does it.
        undo: Restores the cluster.
        status: What the run must end as.
        reason: Pattern of the whole reason, in which {rank}, {host} and {address} stand for the struck worker's; one of
            worker 0, beside dlbench, may have its own.
        reason_beside: That one; empty for none.
        is_ahead: Whether it strikes the next attempt, not the one that runs.
        ends_dlbench: Whether dlbench ends because of it, and has to be started again.
        outlives: Whether the host cannot be reached: what runs there must end by itself before it is undone.
        ranks: The workers that it may strike; empty for all.
        least_rows: How many rows must be received before it strikes: earlier, another end would be right.
        limit: Name of the time limit after which the run ends; empty where it ends at once.
    """

    strike: Callable[[Struck], object]
    undo: Callable[[Struck], object] = lambda _: None
    status: str = "completed"
    reason: str = ""
    reason_beside: str = ""
    is_ahead: bool = False
    ends_dlbench: bool = False
    outlives: bool = False
    ranks: tuple[int, ...] = ()
    least_rows: int = 0
    limit: str = ""

    def longest_end_s(self, shape: HostShape, status: str) -> float:
        """Return the longest time from the fault to the run's end, in seconds; without one for a run that goes on."""
        if status == "completed":
            return math.inf
        limit = "startup_timeout_s" if status == "timeout" else self.limit
        return LONGEST_END_S + (getattr(shape, limit) if limit else 0.0)

    def is_right_for(self, rank: int) -> bool:
        """Whether it may strike a worker."""
        return not self.ranks or rank in self.ranks

    def pattern(self, struck: Struck) -> str:
        """Return the pattern of the reason for a struck worker."""
        text = self.reason_beside if struck.rank == 0 and self.reason_beside else self.reason
        return text.format(rank=struck.rank, host=struck.host.name, address=struck.host.address)


def _order(struck: Struck, order: str) -> Path:
    """Return the file whose presence orders the worker to do something."""
    return struck.study.folder / f"{order}-{struck.host.name}"


def _fill_temporary(struck: Struck) -> None:
    """Fill the host's small file system for temporary files."""
    struck.host.run(["sh", "-c", 'cat /dev/zero > "$TMPDIR/full"'], check=False)


def _fill_studies(struck: Struck) -> None:
    """Fill the small file system of the study, at once: a run may have but a second left."""
    with _filler(struck).open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            free = os.fstatvfs(file.fileno())
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize)
            file.seek(0, os.SEEK_END)
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            return


def _filler(struck: Struck) -> Path:
    return struck.study.study().parent / ".full"


def _wrong_key(struck: Struck) -> None:
    """Replace the host's known key by another host's."""
    known = struck.study.made.folder.known_hosts
    struck.keys = known.read_text()
    lines = struck.keys.splitlines()
    other = next(line for line in lines if not line.startswith(struck.host.name))
    known.write_text(
        "".join(
            f"{line.split()[0]} {other.split(' ', 1)[1]}\n" if line.startswith(struck.host.name) else f"{line}\n"
            for line in lines
        )
    )


def _right_key(struck: Struck) -> None:
    struck.study.made.folder.known_hosts.write_text(struck.keys)


def _take_ports(struck: Struck) -> None:
    """Listen on every port that MPI may use on the host."""
    output = struck.study.folder / "listening"
    output.unlink(missing_ok=True)
    words = [sys.executable, "-I", "-c", _LISTEN, str(FIRST_PORT), str(FIRST_PORT + NUM_PORTS)]
    before = set(struck.host.processes())
    struck.listener = struck.host.start(words, output=output)
    while not output.read_text():
        assert struck.listener.poll() is None, "the ports cannot be taken"
    struck.study.processes_before[struck.host.name] |= set(struck.host.processes()) - before


def _give_ports(struck: Struck) -> None:
    assert struck.listener is not None
    listening = {who for who in struck.host.processes() if str(FIRST_PORT) in words_of(who.pid)}
    for who in listening:
        os.kill(who.pid, signal.SIGKILL)
    struck.listener.wait()
    wait_until_ended(listening, 5.0)


def _second_dlbench(struck: Struck) -> None:
    """Start another dlbench on the same study, in another host: it must be refused at once."""
    study = struck.study
    output = study.folder / "second.txt"
    argv = [sys.executable, "-m", "dlbench", "run", "--study", str(study.study())]
    done = struck.study.made.hosts[-1].run(argv, cwd=study.folder, timeout_s=60, check=False)
    output.write_text(done.stdout + done.stderr)
    assert done.returncode == 2, output.read_text()
    assert "another dlbench is running in" in done.stderr, output.read_text()
    assert "measuring" not in output.read_text(), "it has disturbed the other"


def _kill_mpirun(struck: Struck) -> None:
    os.kill(struck.study.launcher(struck.attempt), signal.SIGKILL)


def _stop_daemon(struck: Struck) -> None:
    """Stop Open MPI's daemon on the host, so that it cannot end by itself when its mpirun is gone."""
    daemons = [who.pid for who in struck.host.processes() if words_of(who.pid)[0].endswith(("/prted", "/orted"))]
    assert daemons, "there is no daemon"
    for pid in daemons:
        os.kill(pid, signal.SIGSTOP)
    _kill_mpirun(struck)


def kill(study: HostStudy) -> None:
    """Kill dlbench itself (-9)."""
    for pid in study.dlbench():
        with contextlib.suppress(ProcessLookupError):  # it has ended since
            os.kill(pid, signal.SIGKILL)


_ENDED = r"worker {rank} exited before sending its result"
_ANY_ENDED = r"worker \d+ exited before sending its result"
# Before its call, a worker is known by its absence alone.
_LATE = (
    r"start-up took longer than startup_timeout_s \([\d.]+ s\): .*"
    r"worker {rank} on \S+ (has not connected|\(in phase \w+( at step 0)?\)).*"
)
_WHERE = r", (in phase \w+( at step \d+)?|before it connected)"
_MPIRUN_ENDED = r"the launcher ended \(killed by SIGKILL\) before (its workers|a worker connected).*"
_ELSEWHERE, _BESIDE = (1, 2), (0,)
# So many rows are received once every worker trains.
_ALL_TRAIN = 12

KINDS: dict[str, Kind] = {
    "none": Kind(lambda _: None),
    "killed": Kind(
        lambda struck: struck.signal(signal.SIGKILL),
        # Where a process ends before the rendezvous, Open MPI's launcher may wait without end, or name another process
        # that it has ended because of the first.
        status="failed|timeout",
        reason=rf"{_ENDED} \((killed by SIGKILL|its launcher does not report how)\){_WHERE}.*"
        rf"|{_ANY_ENDED} \((killed by SIGKILL|its launcher does not report how)\){_WHERE}"
        rf"; or worker (\d or )?{{rank}}( or \d)? did.*"
        rf"|the connection to worker \d on \S+ \([^()]*\) is lost, while .*worker {{rank}} on \S+ has not connected"
        rf"|{_LATE}|{_ANY_ENDED} \(killed by SIGKILL\), (in phase rendezvous at step 0|before it connected)",
    ),
    "stopped": Kind(
        lambda struck: struck.signal(signal.SIGSTOP),
        status="stalled|timeout",
        reason=r"no progress for stall_timeout_s \([\d.]+ s\): worker {rank} on \S+ \([^()]*\)"
        rf" \(no heartbeat from worker {{rank}}\), while .*|{_LATE}",
        reason_beside=rf"worker 0 on \S+ \([^()]*\) is stopped: process \d+ was sent a signal such as SIGSTOP|{_LATE}",
        limit="stall_timeout_s",
    ),
    "memory": Kind(
        lambda struck: _order(struck, "fill-memory").touch(),
        lambda struck: _order(struck, "fill-memory").unlink(),
        status="out-of-memory",
        reason=r"worker {rank}: (\w+\.)*_?\w*MemoryError.*",
    ),
    "slow": Kind(
        lambda struck: _order(struck, "slow-down").touch(),
        lambda struck: _order(struck, "slow-down").unlink(),
    ),
    "cut off": Kind(
        lambda struck: struck.host.cut(),
        lambda struck: struck.host.restore(),
        status="failed",
        reason=rf"{_ENDED} \(the host {{address}} is down, or cannot be reached\){_WHERE}.*",
        # Without its own link dlbench cannot see which of the others is cut off.
        reason_beside=rf"{_ANY_ENDED} \(the host [\d.]+ is down, or cannot be reached\){_WHERE}.*",
        outlives=True,
        least_rows=_ALL_TRAIN,
        limit="orphan_timeout_s",
    ),
    "full /tmp": Kind(
        _fill_temporary,
        lambda struck: struck.host.run(["sh", "-c", 'rm -f "$TMPDIR/full"'], check=False),
        least_rows=_ALL_TRAIN,
    ),
    "full disk": Kind(
        _fill_studies,
        lambda struck: _filler(struck).unlink(),
        status="failed",
        reason=r"the (journal|attempt's files) cannot be written: .*No space left on device.*",
        ends_dlbench=True,
        ranks=_BESIDE,
    ),
    "wrong key": Kind(
        _wrong_key, _right_key, status="failed", reason=r".*\b({host}|{address})\b.*", is_ahead=True, ranks=_ELSEWHERE
    ),
    "port in use": Kind(
        _take_ports,
        _give_ports,
        status="failed",
        reason=r"worker \d: .*: MPI finds no route between (.* and {host}|{host} and .*)",
        is_ahead=True,
    ),
    "second dlbench": Kind(_second_dlbench, ranks=_BESIDE),
    "mpirun killed": Kind(
        _kill_mpirun,
        status="failed",
        reason=_MPIRUN_ENDED,
        ranks=_BESIDE,
        least_rows=_ALL_TRAIN,
    ),
    "daemon stopped": Kind(
        _stop_daemon,
        status="failed",
        reason=_MPIRUN_ENDED,
        ranks=_ELSEWHERE,
        least_rows=_ALL_TRAIN,
    ),
    "dlbench killed": Kind(
        lambda struck: kill(struck.study),
        status="interrupted",
        reason=KILLED,
        ends_dlbench=True,
        ranks=_BESIDE,
        limit="orphan_timeout_s",
    ),
}
