"""The hardware of this host: processors, memory, network and virtualisation."""

import os
import re
from pathlib import Path
from typing import Any

import psutil

from dlbench.cgroups import ROOT, number, read

CPUS = "sys/devices/system/cpu"
# What fast matrix products need; the other hundred flags do not affect speed.
_FLAGS = (
    *("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "sve", "sve2", "bf16"),
)
# Each container adds one such interface, under a random name.
_CONTAINER_INTERFACES = ("veth", "cali", "lxc")


def describe_cpu(root: Path = ROOT) -> dict[str, Any]:
    """Return model, cores, caches, NUMA nodes, and what sets the clock."""
    folder = root / CPUS
    info = _cpu_info(root)
    max_khz = number(folder / "cpu0/cpufreq/cpuinfo_max_freq")
    return {
        "model": info.get("model name") or info.get("Hardware") or "",
        "flags": [flag for flag in _FLAGS if flag in (info.get("flags") or info.get("Features") or "").split()],
        **_cores(folder),
        "caches": _caches(folder / "cpu0" / "cache"),
        "numa": {
            node.name: read(node / "cpulist") for node in sorted((root / "sys/devices/system/node").glob("node[0-9]*"))
        },
        "governor": read(folder / "cpu0/cpufreq/scaling_governor") or None,
        "max_mhz": None if max_khz is None else max_khz / 1000,
        "boost": _boost(folder),
    }


def _cpu_info(root: Path) -> dict[str, str]:
    """Return the fields of the first processor: on a large host the whole file takes long."""
    lines = read(root / "proc/cpuinfo", 8192).split("\n\n")[0].splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _cores(folder: Path) -> dict[str, Any]:
    sockets = {read(cpu / "topology/physical_package_id") for cpu in folder.glob("cpu[0-9]*")} - {""}
    return {
        "sockets": len(sockets) or None,
        "cores": psutil.cpu_count(logical=False),
        "logical_cpus": psutil.cpu_count(),
        "usable_cpus": len(os.sched_getaffinity(0)),
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


def describe_memory(root: Path = ROOT) -> dict[str, Any]:
    """Return the memory and swap of the host, and when it uses huge pages."""
    pages = re.search(r"\[(\w+)\]", read(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    return {
        "total_bytes": psutil.virtual_memory().total,
        "swap_bytes": psutil.swap_memory().total,
        "transparent_hugepages": pages.group(1) if pages else None,
    }


def describe_network() -> list[dict[str, Any]]:
    """Return name, state, speed and MTU of every lasting interface; addresses are left out."""
    return [
        {
            "name": name,
            "state": "up" if found.isup else "down",
            # 0 where it is unknown.
            "speed_mbit_per_s": found.speed or None,
            "mtu_bytes": found.mtu,
        }
        for name, found in sorted(psutil.net_if_stats().items())
        if not name.startswith(_CONTAINER_INTERFACES)
    ]


def describe_virtualisation(root: Path = ROOT) -> dict[str, Any]:
    """Return what stands between the program and the hardware: hypervisor and container."""
    flags = _cpu_info(root).get("flags", "").split()
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
