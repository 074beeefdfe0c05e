"""Facts of healthy hosts, of which tests change one thing."""

import copy
from collections.abc import Mapping
from typing import Any

from dlbench.launch.doctor.facts import Asked, Facts
from dlbench.launch.doctor.finding import Remark
from dlbench.launch.links import Broken, Link
from dlbench.scenario.cluster import Cluster, Host

GIB = 1 << 30
MPI = {
    "mpirun": "/env/bin/mpirun",
    "mpirun_version": "mpirun (Open MPI) 5.0.11",
    "on_path": "/env/bin/mpirun",
    "on_path_version": "mpirun (Open MPI) 5.0.11",
    "library": "/env/lib/libmpi.so.40",
    "library_version": "Open MPI v5.0.11",
}
MACHINE = {
    "memory": {"total_bytes": 16 * GIB},
    "gpus": [],
    "network": [{"name": "eth0", "mtu_bytes": 1500, "speed_mbit_per_s": 10_000}],
    "virtualisation": {"container": None},
    "limits": {"cpu_cores": None, "memory_bytes": None},
    "software": {"python": "3.11.7", "libraries": {"numpy": "2.4.6"}, "dlbench": {"commit": "abc", "dirty": False}},
}


def healthy(number: int, names: tuple[str, ...]) -> dict[str, Any]:
    """Return what the host of that number tells."""
    own = f"10.0.0.{number}"
    ways = {
        name: {"address": f"10.0.0.{i}", "own": own, "interface": "eth0", "is_loopback": False}
        for i, name in enumerate(names)
    }
    told = {
        "machine": MACHINE,
        "hostname": names[number],
        "cores": [0, 1, 2, 3],
        "kernel": f"kernel {number}",
        "variables": {},
        "limits": {"processes": None, "files": 20_000, "group_processes": None},
        "ways": {**ways, "10.0.0.9": {"address": "10.0.0.9", "own": own, "interface": "eth0", "is_loopback": False}},
        "port": {"port": 40_000},
        "physical": ["eth0"],
        "home": {"offset_s": 0.002, "round_trip_s": 0.0001},
        "mpi": MPI,
        "horovod": {"library": "/env/mpi_lib.so", "operations": ["MPI", "Gloo"]},
        "shared_memory": {"total_bytes": 8 * GIB, "free_bytes": 8 * GIB},
        "folders.studies": {"path": "/work/studies", "free_bytes": 50 * GIB, "is_writable": True},
        "folders.cache": {"path": "/cache", "free_bytes": 50 * GIB, "is_writable": True},
    }
    return copy.deepcopy(told)


def facts(
    *hosts: Host,
    told: Mapping[str, Any] | None = None,
    problem: str = "",
    links: tuple[Link | Broken, ...] = (),
) -> Facts:
    """Return the facts of hosts: the first is this machine, the last tells other things at dotted keys."""
    names = tuple(host.address for host in hosts)
    asked = []
    for number, host in enumerate(hosts):
        is_here, is_last = number == 0, number == len(hosts) - 1
        found = healthy(number, names)
        for key, value in (told or {}).items() if is_last else ():
            put(found, key, value)
        reach = () if is_here else ("ssh", host.address)
        asked.append(Asked(host, is_here, problem if is_last else "", {} if is_last and problem else found, reach))
    here = Asked(hosts[0], is_here=True, told=healthy(0, names))
    return Facts(
        Cluster(hosts=hosts), tuple(asked), here, links, "10.0.0.9", "/env/bin/python", "/env", "/work/dlbench"
    )


def put(told: dict[str, Any], key: str, value: Any) -> None:
    """Put a value at a key such as `machine/limits/cpu_cores`."""
    *folders, last = key.split("/")
    for folder in folders:
        told = told[folder]
    told[last] = value


def two(slots: int = 2, **others: Any) -> Facts:
    """Return this machine, `a`, and another host, `b`, which tells other things."""
    return facts(Host(address="a", slots=2), Host(address="b", slots=slots), **others)


def of(remarks: Any) -> list[tuple[str, str, str]]:
    """Return remarks as plain words."""
    found: list[Remark] = list(remarks)
    return [(str(remark.verdict), remark.text, remark.mend) for remark in found]
