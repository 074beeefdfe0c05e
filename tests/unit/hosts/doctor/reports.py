"""Reports of healthy hosts, of which tests change one thing."""

import copy
from collections.abc import Mapping
from typing import Any

from dlbench.hosts.doctor.facts import ClusterFacts, HostReport
from dlbench.hosts.links import BrokenLink, LinkMeasurement
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
    "cpu": {"governor": "performance", "boost": False, "smt": False, "vendor": "GenuineIntel"},
    "memory": {"total_bytes": 16 * GIB, "transparent_hugepages": "madvise"},
    "gpus": [],
    "network": [{"name": "eth0", "mtu_bytes": 1500, "speed_mbit_per_s": 10_000}],
    "virtualisation": {"container": None},
    "limits": {"cpu_cores": None, "memory_bytes": None},
    "software": {"python": "3.11.7", "libraries": {"numpy": "2.4.6"}, "dlbench": {"commit": "abc", "dirty": False}},
}


def healthy(number: int, names: tuple[str, ...]) -> dict[str, Any]:
    """Return what the host of that number answers."""
    own = f"10.0.0.{number}"
    routes = {
        name: {"address": f"10.0.0.{i}", "own": own, "interface": "eth0", "is_loopback": False}
        for i, name in enumerate(names)
    }
    answer = {
        "machine": MACHINE,
        "hostname": names[number],
        "cores": [0, 1, 2, 3],
        "kernel": f"kernel {number}",
        "load": 0.1,
        "cpus": 4,
        "variables": {},
        "limits": {"processes": None, "files": 20_000, "group_processes": None},
        "routes": routes | {"10.0.0.9": {**routes[names[0]], "address": "10.0.0.9"}},
        "port": {"port": 40_000},
        "physical": ["eth0"],
        "home": {"offset_s": 0.002, "round_trip_s": 0.0001},
        "mpi": MPI,
        "horovod": {"library": "/env/mpi_lib.so", "operations": ["MPI", "Gloo"]},
        "ray": {"cluster": "10.0.0.9:6379", "cpus": 4},
        "shared_memory": {"total_bytes": 8 * GIB, "free_bytes": 8 * GIB},
        "folders.studies": {"path": "/work/studies", "free_bytes": 50 * GIB, "is_writable": True},
        "folders.cache": {"path": "/cache", "free_bytes": 50 * GIB, "is_writable": True},
        "folders.temporary": {"path": "/tmp", "free_bytes": 50 * GIB, "is_writable": True},
    }
    return copy.deepcopy(answer)


def facts(
    *hosts: Host,
    answer: Mapping[str, Any] | None = None,
    problem: str = "",
    links: tuple[LinkMeasurement | BrokenLink, ...] = (),
) -> ClusterFacts:
    """Return the facts of hosts: the first is this machine, the last answers otherwise at keys such as `mpi/mpirun`."""
    names = tuple(host.address for host in hosts)
    reports = []
    for number, host in enumerate(hosts):
        is_last = number == len(hosts) - 1
        found = healthy(number, names)
        for key, value in (answer or {}).items() if is_last else ():
            put(found, key, value)
        ssh = ("ssh", host.address) if number else ()
        reports.append(
            HostReport(host, number == 0, problem if is_last else "", {} if problem and is_last else found, ssh)
        )
    here = HostReport(hosts[0], is_here=True, answer=healthy(0, names))
    places = ("10.0.0.9", "/env/bin/python", "/env", "/work/dlbench")
    return ClusterFacts(Cluster(hosts=hosts), tuple(reports), here, links, *places)


def put(answer: dict[str, Any], key: str, value: Any) -> None:
    """Put a value at a key such as `machine/limits/cpu_cores`."""
    *folders, last = key.split("/")
    for folder in folders:
        answer = answer[folder]
    answer[last] = value


def two(slots: int = 2, **others: Any) -> ClusterFacts:
    """Return this machine, `a`, and another host, `b`, which answers otherwise."""
    return facts(Host(address="a", slots=2), Host(address="b", slots=slots), **others)
