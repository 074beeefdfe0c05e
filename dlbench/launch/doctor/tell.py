"""`python -m dlbench.launch.doctor.tell REQUEST`: what a host tells of itself, one line of JSON.

The request is JSON: `names` of the other hosts, `home` ([address, port]) to call, and `folders` by what they are for.
What cannot be told is a mapping with `error`. Nothing here can take longer than `TELLING_S`.
"""

import json
import os
import resource
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

from dlbench import plugins
from dlbench.launch.environment import AGENTS, cleaned
from dlbench.launch.introduce import kernel
from dlbench.records.interfaces import UnknownName, way_to
from dlbench.records.machine import describe
from dlbench.records.software import mpirun_path
from dlbench.scenario.limits import number, read, usable_cores

# Before the answer: a shell that logs in may print anything.
MARK = "dlbench-doctor: "
TELLING_S = 8.0
_PROGRAM_S = 6.0
_CONNECT_S = 3.0
# Of so many questions for the time the one that was answered fastest counts, as in NTP (RFC 5905, clock filter).
_NUM_QUESTIONS = 8
# Only an interface that is a device knows its speed: a virtual one makes it up.
_INTERFACES = Path("/sys/class/net")
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
# What moves bytes in Horovod's library, by a name that stands in it.
_OPERATIONS = {"MPI": b"MPI_Allreduce", "Gloo": b"gloo", "NCCL": b"ncclAllReduce"}
# Set by the user to be obeyed, not left over from another job.
_MEANT = {*AGENTS, "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}

_Told = dict[str, Any]


def main(arguments: Sequence[str]) -> NoReturn:
    """Print the answer; whoever hangs on a dead file system or name server is not waited for."""
    request = json.loads(arguments[0])
    told = _at_once(
        {
            "home": lambda: _call_home(*request["home"]),
            "ways": lambda: _ways(request["names"]),
            "mpi": _mpi,
            "machine": describe,
            "horovod": _horovod,
            "port": _free_port,
            "shared_memory": lambda: _room(_SHARED_MEMORY),
            **{f"folders.{name}": _folder_probe(path) for name, path in request["folders"].items()},
        }
    )
    told |= {
        "hostname": socket.gethostname(),
        "prefix": sys.prefix,
        "cores": usable_cores(),
        "kernel": kernel(),
        "variables": leaked(os.environ),
        "limits": _limits(),
        "physical": sorted(path.parent.name for path in _INTERFACES.glob("*/device")),
    }
    print(MARK + json.dumps(told), flush=True)  # noqa: T201
    os._exit(0)


def _at_once(probes: Mapping[str, Callable[[], Any]]) -> _Told:
    """Return what each probe finds, or why it finds nothing."""
    threads = ThreadPoolExecutor(len(probes))
    deadline = time.monotonic() + TELLING_S
    asked = {name: threads.submit(probe) for name, probe in probes.items()}
    return {name: _result(found, deadline) for name, found in asked.items()}


def _result(found: Future[Any], deadline: float) -> Any:
    try:
        return found.result(max(0.0, deadline - time.monotonic()))
    except TimeoutError:  # the probe's own, such as of a connection, or that of all
        return {"error": "timed out" if found.done() else f"no answer within {TELLING_S:g} s"}
    except OSError as error:
        return {"error": _why(error)}


def _why(error: OSError) -> str:
    """Return what the system says; Python adds its own words to some errors."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror or error)


def _call_home(address: str, port: int) -> _Told:
    """Call the machine that dlbench runs on, and compare clocks.

    Returns:
        `offset_s`: this clock minus the one at home; `round_trip_s`: twice the most that it can be wrong by.
    """
    with socket.create_connection((address, port), timeout=_CONNECT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection.makefile("rwb", buffering=0) as lines:
            answers = [_question(lines) for _ in range(_NUM_QUESTIONS)]
    round_trip_s, offset_s = min(answers)
    return {"offset_s": round(offset_s, 6), "round_trip_s": round(round_trip_s, 6)}


def _question(lines: Any) -> tuple[float, float]:
    """Return how long an answer took, and by how much this clock is ahead of the one that answered."""
    asked_at, began = time.time(), time.perf_counter()
    lines.write(b"\n")
    answer = lines.readline()
    took_s = time.perf_counter() - began
    if not answer:
        raise ConnectionError("the connection is closed at once")
    return took_s, asked_at + took_s / 2 - float(answer)


def _ways(names: Sequence[str]) -> _Told:
    """Return how each host is reached from here, and this one by its own name."""
    wanted = [*names, socket.gethostname()]
    with ThreadPoolExecutor(min(32, len(wanted))) as threads:
        return dict(zip(wanted, threads.map(_way, wanted), strict=True))


def _way(name: str) -> _Told:
    try:
        return way_to(name).told()
    except UnknownName as error:
        return {"error": str(error), "is_unknown": True}
    except OSError as error:
        return {"error": _why(error)}


def _mpi() -> _Told:
    """Return the mpirun that runs would use, the one that is first on PATH, and the library that mpi4py loads."""
    used, first = str(mpirun_path() or ""), shutil.which("mpirun") or ""
    version = _first_line([used, "--version"]) if used else ""
    is_same = bool(used and first) and Path(first).samefile(used)
    library = _json_of([sys.executable, "-m", "dlbench.launch.doctor.mpi_library"])
    return {
        "mpirun": used,
        "mpirun_version": version,
        "on_path": first,
        "on_path_version": version if is_same or not first else _first_line([first, "--version"]),
        **library,
    }


def _json_of(argv: Sequence[str]) -> _Told:
    """Return the last line that a program prints, as JSON; else `problem` says why, or `error` that it is slow."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_PROGRAM_S, check=False)
        found = json.loads((done.stdout.splitlines() or [""])[-1])
    except subprocess.TimeoutExpired:
        return {"error": f"MPI's library is not loaded within {_PROGRAM_S:g} s"}
    except ValueError:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return {"problem": said[-1] if said else f"exit code {done.returncode}"}
    return dict(found)


def _first_line(argv: Sequence[str]) -> str:
    """Return the first line that a program prints, empty where it cannot be started.

    Raises:
        OSError: It takes too long.
    """
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_PROGRAM_S, check=False)
    except subprocess.TimeoutExpired as slow:
        raise OSError(f"{shlex.join(argv)} gives no answer within {_PROGRAM_S:g} s") from slow
    except OSError:
        return ""
    return next(iter(done.stdout.splitlines()), "").strip()


def _horovod() -> _Told:
    """Return Horovod's library for TensorFlow and what can move its bytes; nothing is imported."""
    library = plugins.load("strategies", "horovod").get("library")()
    content = b"" if library is None else Path(library).read_bytes()
    return {
        "library": str(library or ""),
        "operations": [name for name, mark in _OPERATIONS.items() if mark in content],
    }


def leaked(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that would make a run another one than its scenario says."""
    kept = cleaned(environment, keep_slurm=True)
    return {name: value for name, value in sorted(environment.items()) if name not in kept and name not in _MEANT}


def _limits() -> dict[str, int | None]:
    """Return how many processes (and threads) and open files this user may have; None: as many as there can be."""
    found = {"processes": resource.RLIMIT_NPROC, "files": resource.RLIMIT_NOFILE}
    limits = {name: resource.getrlimit(limit)[0] for name, limit in found.items()}
    return {name: None if limit == resource.RLIM_INFINITY else limit for name, limit in limits.items()} | {
        "group_processes": _group_processes()
    }


def _group_processes() -> int | None:
    """Return how many processes and threads this process's control group may have; None for no limit."""
    places = [line.split(":", 2) for line in read(Path("/proc/self/cgroup")).splitlines()]
    groups = Path("/sys/fs/cgroup")
    folders = [
        groups / controllers / path.lstrip("/")
        for _, controllers, path in (place for place in places if len(place) == 3)
        if controllers in ("", "pids")
    ]
    return min((limit for folder in folders if (limit := number(folder / "pids.max")) is not None), default=None)


def _free_port() -> _Told:
    with socket.create_server(("", 0)) as held:
        return {"port": held.getsockname()[1]}


def _folder_probe(path: str) -> Callable[[], _Told]:
    return lambda: _folder(Path(path))


def _folder(path: Path) -> _Told:
    """Return a folder's room, or that of the folder it would be made in."""
    there = next(place for place in (path, *path.parents) if place.exists())
    return {**_room(there), "path": str(path), "is_writable": os.access(there, os.W_OK | os.X_OK)}


def _room(path: Path) -> _Told:
    found = os.statvfs(path)
    return {"total_bytes": found.f_blocks * found.f_frsize, "free_bytes": found.f_bavail * found.f_frsize}


if __name__ == "__main__":
    main(sys.argv[1:])
