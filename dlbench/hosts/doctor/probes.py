"""What a host finds out about itself for `dlbench doctor`.

A probe that fails, or takes longer than `PROBING_S`, gives `{"error": why}` in place of its facts.
"""

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dlbench import plugins
from dlbench.cgroups import process_limit, usable_cores
from dlbench.hosts import MARK
from dlbench.launch.environment import AGENTS, cleaned
from dlbench.records.interfaces import UnknownNameError, route_to
from dlbench.records.machine import describe
from dlbench.records.mpi import in_one_line, version_text
from dlbench.records.software import mpirun_path
from dlbench.search_path import program

PROBING_S = 8.0
_PROGRAM_S = 6.0
_CONNECT_S = 3.0
# Of this many questions for the time the one that was answered fastest counts, as in NTP (RFC 5905, clock filter).
_NUM_QUESTIONS = 8
# Only an interface that is a device knows its speed: a virtual one makes it up.
_INTERFACES = Path("/sys/class/net")
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
# What moves bytes in Horovod's library, by a name that stands in it.
_OPERATIONS = {"MPI": b"MPI_Allreduce", "Gloo": b"gloo", "NCCL": b"ncclAllReduce"}
# Set by the user on purpose, not left over from another job.
_ALLOWED = {*AGENTS, "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}

_Facts = dict[str, Any]


def check(names: Sequence[str], home: tuple[str, int], folders: Mapping[str, str], *, ray: bool = False) -> _Facts:
    """Return the facts of this host.

    Args:
        names: The other hosts, to find the routes to them.
        home: Address and port of the clock server on the machine that dlbench was called on.
        folders: Where room is needed, by what it is for.
        ray: Whether Ray is asked for its cluster, which starts a job there.
    """
    load = os.getloadavg()[0]  # before the probes themselves are a load
    slow: dict[str, Callable[[], Any]] = {
        "home": partial(_compare_clocks, *home),
        "routes": partial(_routes, names),
        "mpi": _mpi,
        "machine": describe,
        "horovod": _horovod,
        **({"ray": _ray} if ray else {}),
        "port": _free_port,
        "shared_memory": partial(_room, _SHARED_MEMORY),
        **{f"folders.{name}": partial(_folder, Path(path)) for name, path in folders.items()},
        # Not `gettempdir`, which passes over a folder that is full.
        "folders.temporary": partial(_folder, Path(os.environ.get("TMPDIR", "/tmp"))),  # noqa: S108
    }
    return in_time(slow) | {
        "hostname": socket.gethostname(),
        "load": load,
        "cpus": os.cpu_count(),
        "cores": usable_cores(),
        "variables": leaked(os.environ),
        "limits": _limits(),
        "physical": sorted(path.parent.name for path in _INTERFACES.glob("*/device")),
    }


def in_time(probes: Mapping[str, Callable[[], Any]]) -> _Facts:
    """Run all probes at once; return what each finds, or why it finds nothing."""
    threads = ThreadPoolExecutor(len(probes))
    deadline = time.monotonic() + PROBING_S
    started = {name: threads.submit(probe) for name, probe in probes.items()}
    return {name: _result(future, deadline) for name, future in started.items()}


def _result(future: Future[Any], deadline: float) -> Any:
    try:
        return future.result(max(0.0, deadline - time.monotonic()))
    except TimeoutError:  # the probe's own, such as of a connection, or that of all
        return {"error": "timed out" if future.done() else f"no answer within {PROBING_S:g} s"}
    except OSError as error:
        return {"error": _why(error)}


def _why(error: OSError) -> str:
    """Return the system's text; Python adds its own words to some errors."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror or error)


def _compare_clocks(address: str, port: int) -> _Facts:
    """Call the machine that dlbench runs on, and compare clocks.

    Returns:
        `offset_s`: this clock minus the other; `round_trip_s`: twice the most that it can be wrong by.
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


def _routes(names: Sequence[str]) -> _Facts:
    """Return how each host is reached from here, and this one by its own name."""
    wanted = [*names, socket.gethostname()]
    with ThreadPoolExecutor(min(32, len(wanted))) as threads:
        return dict(zip(wanted, threads.map(_route, wanted), strict=True))


def _route(name: str) -> _Facts:
    try:
        return route_to(name).as_json()
    except UnknownNameError as error:
        return {"error": str(error), "is_unknown": True}
    except OSError as error:
        return {"error": _why(error)}


def _mpi() -> _Facts:
    """Return the mpirun that runs would use, the one that is first on PATH, and the library that mpi4py loads."""
    used, first = str(mpirun_path() or ""), shutil.which("mpirun") or ""
    version = _mpi_version(used)
    is_same = bool(used and first) and Path(used).samefile(first)
    return {
        "mpirun": used,
        "mpirun_version": version,
        "on_path": first,
        "on_path_version": version if is_same else _mpi_version(first),
        **answer_of([sys.executable, *program("dlbench.hosts.agent"), '{"do": "load mpi"}']),
    }


def _mpi_version(mpirun: str) -> str:
    """Return an mpirun's version; "" where there is none.

    Raises:
        OSError: It does not answer.
    """
    text = version_text(mpirun, _PROGRAM_S / 2)
    if mpirun and not text:
        raise OSError(f"`{mpirun} --version` does not answer")
    return in_one_line(text)


def answer_of(argv: Sequence[str]) -> _Facts:
    """Return what a process that loads a library answers; else `problem` says why, or `error` that it is slow."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_PROGRAM_S, check=False)
        return dict(json.loads(done.stdout.rpartition(MARK)[2]))
    except subprocess.TimeoutExpired:
        return {"error": f"not loaded within {_PROGRAM_S:g} s"}
    except ValueError:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return {"problem": lines[-1] if lines else f"exit code {done.returncode}"}


def _ray() -> _Facts:
    """Return the Ray cluster that this host is a node of; nothing where Ray is not installed."""
    if find_spec("ray") is None:
        return {}
    return answer_of([sys.executable, *program("dlbench.hosts.agent"), '{"do": "ask ray"}'])


def _horovod() -> _Facts:
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
    return {name: value for name, value in sorted(environment.items()) if name not in kept and name not in _ALLOWED}


def _limits() -> dict[str, int | None]:
    """Return how many processes (and threads) and open files this user may have; None: no limit."""
    kinds = {"processes": resource.RLIMIT_NPROC, "files": resource.RLIMIT_NOFILE}
    limits = {name: resource.getrlimit(limit)[0] for name, limit in kinds.items()}
    return {name: None if limit == resource.RLIM_INFINITY else limit for name, limit in limits.items()} | {
        "group_processes": process_limit()
    }


def _free_port() -> _Facts:
    with socket.create_server(("", 0)) as held:
        return {"port": held.getsockname()[1]}


def _folder(path: Path) -> _Facts:
    """Return a folder's room, or that of the folder it would be made in."""
    there = next(place for place in (path, *path.parents) if place.exists())
    return {**_room(there), "path": str(path), "is_writable": os.access(there, os.W_OK | os.X_OK)}


def _room(path: Path) -> _Facts:
    usage = shutil.disk_usage(path)
    return {"total_bytes": usage.total, "free_bytes": usage.free}
