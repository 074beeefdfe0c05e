"""`python -m dlbench.hosts.agent`: does on a host what dlbench asks for, until its standard input ends.

Requests come on standard input, or as arguments; answers go to standard output. Each is a line of JSON.

| `do` | request | answer |
| --- | --- | --- |
| describe | files: paths | cores, machine (`records.machine.describe`), kernel, files (SHA-256 by path) |
| check | names, home, folders | what `dlbench doctor` examines (`hosts.doctor.probes`) |
| clean up | attempt_id, grace_s, ranks | logs (by file name), remaining (process ids), oom_kills |
| load mpi | | library, library_version: what mpi4py loads; MPI is not started |
| ask ray | | cluster: its address, cpus: of this node, is_head; `problem` where this is no node of one |
| route, address, listen, call, stop | `hosts.link_ends` | `hosts.link_ends` |

What cannot be done is answered with `error`.
"""

import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dlbench.cgroups import oom_kills, read, usable_cores
from dlbench.hosts import MARK

# dlbench is never silent for so long; the connection to it may be gone without a word.
_IDLE_S = 900
# Of a longer log its end.
_MAX_LOG_BYTES = 2**20
# The id of the kernel's boot: the same in all containers and namespaces of one machine, and of no other machine.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LIBMPI = re.compile(r"(/.*/libmpi[\w-]*\.so[.\d]*)$", re.MULTILINE)

Facts = dict[str, Any]


def main(requests: Sequence[str]) -> None:
    """Do what is asked, line by line."""
    for line in requests or iter(_next_line, ""):
        request = json.loads(line)
        try:
            for answer in _answers(request.pop("do"), request):
                print(MARK + json.dumps(answer), flush=True)  # noqa: T201
        except OSError as error:
            print(MARK + json.dumps({"error": str(error.strerror or error or type(error).__name__)}), flush=True)  # noqa: T201
    # A probe that hangs in a dead file system or name server must not keep this process.
    os._exit(0)


def _next_line() -> str:
    signal.alarm(_IDLE_S)
    return sys.stdin.readline()


def _answers(do: str, request: Facts) -> Iterable[Facts]:
    """Return the answers; each request imports only what it needs, for that is most of the time it takes."""
    of_one_answer: dict[str, Callable[..., Facts]] = {
        "describe": describe, "clean up": _clean_up, "free ports": lambda number: {"ports": free_ports(number)},
        "load mpi": _load_mpi, "ask ray": _ask_ray,
    }  # fmt: skip
    if do in of_one_answer:
        return [of_one_answer[do](**request)]
    if do == "check":
        from dlbench.hosts.doctor import probes

        return [probes.check(**request) | {"kernel": read(_BOOT_ID)}]
    from dlbench.hosts import link_ends

    return link_ends.answers(do, request)


def describe(files: Iterable[str] = (), machine: Mapping[str, Any] | None = None) -> Facts:
    """Return the cores, hardware, versions and kernel of this machine, and the hashes of the user's files.

    Args:
        files: Paths of the files.
        machine: The hardware and versions, where they are known already.
    """
    from dlbench.records.machine import describe as describe_machine

    facts = machine if machine is not None else describe_machine()
    return {"cores": usable_cores(), "machine": facts, "kernel": read(_BOOT_ID), "files": hashes(files)}


def free_ports(number: int) -> list[int]:
    """Return a number of ports of this host that nothing listens on now."""
    with ExitStack() as held:
        return [held.enter_context(socket.create_server(("", 0))).getsockname()[1] for _ in range(number)]


def hashes(paths: Iterable[str]) -> dict[str, str | None]:
    """Return the SHA-256 of each file, by its path as given; None where it cannot be read."""
    digests: dict[str, str | None] = dict.fromkeys(paths)
    for path in digests:
        with contextlib.suppress(OSError), Path(path).open("rb") as file:
            digests[path] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def _clean_up(attempt_id: str, grace_s: float, ranks: Sequence[int]) -> Facts:
    """End what is left of an attempt; take the logs that workers without a folder of it have in temporary files."""
    from dlbench import scratch
    from dlbench.launch.processes import end_all, leftovers
    from dlbench.records.files import own_log, worker_log

    remaining, logs = end_all(lambda: leftovers(attempt_id), grace_s), {}
    scratch.sweep()
    for path in (own_log(attempt_id, worker_log(rank)) for rank in ranks):
        with contextlib.suppress(OSError):
            if path is not None:
                text = path.read_bytes()[-_MAX_LOG_BYTES:].decode(errors="replace")
                path.unlink()
                logs[path.name.removeprefix(f"{attempt_id}-")] = text
    return {"remaining": remaining, "logs": logs, "oom_kills": oom_kills()}


def _load_mpi() -> Facts:
    """Return the file of the MPI library that mpi4py loads, and its version; `problem` says why there is none."""
    try:
        import mpi4py

        mpi4py.rc.initialize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        return {"problem": str(error).split("\n")[0]}
    match = _LIBMPI.search(Path("/proc/self/maps").read_text())
    version = MPI.Get_library_version().split(",")[0].strip("\0 \n")
    return {"library": match[1] if match else "", "library_version": version}


def _ask_ray() -> Facts:
    """Return the address of the Ray cluster that this host is a node of, and what it is there."""
    import ray

    try:
        ray.init(address="auto", log_to_driver=False, logging_level="error")
    except ConnectionError as error:
        return {"problem": str(error).split("\n")[0]}
    context = ray.get_runtime_context()
    node = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
    resources = node["Resources"]
    is_head = "node:__internal_head__" in resources
    return {"cluster": context.gcs_address, "cpus": resources.get("CPU", 0), "is_head": is_head}


if __name__ == "__main__":
    main(sys.argv[1:])
