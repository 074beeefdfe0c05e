"""The hardware of this host, as the kernel tells it: processors, memory, network, virtualisation and limits."""

import os
import re
from pathlib import Path
from typing import Any

from dlbench.scenario.limits import ROOT, number, read

CPUS = "sys/devices/system/cpu"
# What a fast matrix product asks a processor for; the other hundred flags say nothing about speed.
_FLAGS = (
    *("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "sve", "sve2", "bf16"),
)
# Each container adds one such interface, under a random name.
_PASSING_INTERFACES = ("veth", "cali", "lxc")


def describe_cpu(root: Path = ROOT) -> dict[str, Any]:
    """Return model, cores, caches, NUMA nodes, and what sets the clock."""
    folder = root / CPUS
    # The first processor's paragraph is enough; on a large host the whole file takes long.
    info = _fields(read(root / "proc/cpuinfo", 8192).split("\n\n")[0])
    return {
        "model": info.get("model name") or info.get("Hardware") or "",
        "flags": [flag for flag in _FLAGS if flag in (info.get("flags") or info.get("Features") or "").split()],
        **_cores(folder),
        "caches": _caches(folder / "cpu0" / "cache"),
        "numa": {
            node.name: read(node / "cpulist") for node in sorted((root / "sys/devices/system/node").glob("node[0-9]*"))
        },
        "governor": read(folder / "cpu0/cpufreq/scaling_governor") or None,
        "max_mhz": _thousandth(number(folder / "cpu0/cpufreq/cpuinfo_max_freq")),
        "boost": _boost(folder),
    }


def _fields(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _cores(folder: Path) -> dict[str, Any]:
    topologies = [cpu / "topology" for cpu in folder.glob("cpu[0-9]*")]
    sockets = {read(topology / "physical_package_id") for topology in topologies} - {""}
    cores = {read(topology / "thread_siblings_list") for topology in topologies} - {""}
    return {
        "sockets": len(sockets) or None,
        "cores": len(cores) or None,
        "logical_cpus": os.cpu_count(),
        "usable_cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "smt": {"1": True, "0": False}.get(read(folder / "smt/active")),
    }


def _caches(folder: Path) -> dict[str, str]:
    """Return the size of each cache of the first processor, such as `{"L2": "1024K"}`."""
    caches = {}
    for index in sorted(folder.glob("index[0-9]*")):
        kind = {"Data": "d", "Instruction": "i"}.get(read(index / "type"), "")
        caches[f"L{read(index / 'level')}{kind}"] = read(index / "size")
    return caches


def _boost(folder: Path) -> bool | None:
    boost, no_turbo = read(folder / "cpufreq/boost"), read(folder / "intel_pstate/no_turbo")
    return {"1": True, "0": False}.get(boost, {"0": True, "1": False}.get(no_turbo))


def _thousandth(value: int | None) -> float | None:
    return None if value is None else value / 1000


def describe_memory(root: Path = ROOT) -> dict[str, Any]:
    """Return the memory and swap of the host, and whether it uses huge pages by itself."""
    fields = _fields(read(root / "proc/meminfo"))
    pages = re.search(r"\[(\w+)\]", read(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    return {
        "total_bytes": _kibibytes(fields.get("MemTotal")),
        "swap_bytes": _kibibytes(fields.get("SwapTotal")),
        "transparent_hugepages": pages.group(1) if pages else None,
    }


def _kibibytes(text: str | None) -> int | None:
    return int(text.split()[0]) * 1024 if text else None


def describe_network(root: Path = ROOT) -> list[dict[str, Any]]:
    """Return name, state, speed and MTU of every lasting interface; addresses are left out."""
    folders = sorted((root / "sys/class/net").glob("*"))
    return [_interface(folder) for folder in folders if not folder.name.startswith(_PASSING_INTERFACES)]


def _interface(folder: Path) -> dict[str, Any]:
    speed = number(folder / "speed")
    return {
        "name": folder.name,
        "state": read(folder / "operstate"),
        # -1 is how a virtual interface says that it has none.
        "speed_mbit_per_s": speed if speed is not None and speed > 0 else None,
        "mtu_bytes": number(folder / "mtu"),
    }


def describe_virtualisation(root: Path = ROOT) -> dict[str, Any]:
    """Return what stands between the program and the hardware: hypervisor and container."""
    flags = _fields(read(root / "proc/cpuinfo", 8192).split("\n\n")[0]).get("flags", "").split()
    dmi = root / "sys/class/dmi/id"
    return {
        "virtual_machine": "hypervisor" in flags or (root / "sys/hypervisor/type").exists(),
        "vendor": read(dmi / "sys_vendor") or read(root / "sys/hypervisor/type") or None,
        "product": read(dmi / "product_name") or None,
        "container": _container(root),
        "clock_source": read(root / "sys/devices/system/clocksource/clocksource0/current_clocksource") or None,
    }


def _container(root: Path) -> str | None:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    marks = {"docker": ".dockerenv", "podman": "run/.containerenv", "singularity": ".singularity.d"}
    return next((name for name, mark in marks.items() if (root / mark).exists()), None)
