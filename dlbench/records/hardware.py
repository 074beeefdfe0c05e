"""The hardware of this host: processors, memory, network and virtualisation."""

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from dlbench.cgroups import ROOT, number, read
from dlbench.records.mpi import printed

CPUS = "sys/devices/system/cpu"
# What fast matrix products need; the other hundred flags do not affect speed.
_FLAGS = (
    *("avx", "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "sve", "sve2", "bf16"),
)
# Each container adds one such interface, under a random name.
_CONTAINER_INTERFACES = ("veth", "cali", "lxc")
_PATIENCE_S = 5.0


def processor(root: Path = ROOT) -> str:
    """Return the processor's name with its family and model, or its architecture where the kernel gives no name."""
    return processor_name(cpu_info(root)) or platform.machine()


def processor_name(info: Mapping[str, str]) -> str:
    """Return what a processor is called, with the numbers that tell it from others of that name; empty if unknown.

    Clouds call all processors of a maker the same: `AMD EPYC (family 25 model 17)`.

    Args:
        info: Fields of one processor in `/proc/cpuinfo`.
    """
    name = " ".join((info.get("model name") or info.get("Hardware") or "").split())
    family, model = info.get("cpu family"), info.get("model")
    return f"{name} (family {family} model {model})" if name and family and model else name


def cpu_info(root: Path = ROOT) -> dict[str, str]:
    """Return the fields of the first processor in `/proc/cpuinfo`: on a large host the whole file takes long."""
    lines = read(root / "proc/cpuinfo", 8192).split("\n\n")[0].splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def describe_cpu(root: Path = ROOT) -> dict[str, Any]:
    """Return what the processor is, its cores, caches and NUMA nodes, and what sets the clock."""
    folder = root / CPUS
    info = cpu_info(root)
    max_khz = number(folder / "cpu0/cpufreq/cpuinfo_max_freq")
    sockets = {read(cpu / "topology/physical_package_id") for cpu in folder.glob("cpu[0-9]*")} - {""}
    boost, no_turbo = read(folder / "cpufreq/boost"), read(folder / "intel_pstate/no_turbo")
    return {
        "model": info.get("model name") or info.get("Hardware") or "",
        "name": processor_name(info),
        "vendor": info.get("vendor_id") or info.get("CPU implementer"),
        "family": info.get("cpu family"),
        "model_number": info.get("model") or info.get("CPU part"),
        "stepping": info.get("stepping") or info.get("CPU revision"),
        "microcode": info.get("microcode"),
        "flags": [flag for flag in _FLAGS if flag in (info.get("flags") or info.get("Features") or "").split()],
        "sockets": len(sockets) or None,
        "cores": psutil.cpu_count(logical=False),
        "usable_cpus": len(os.sched_getaffinity(0)),
        "smt": {"1": True, "0": False}.get(read(folder / "smt/active")),
        "caches": _caches(folder / "cpu0" / "cache", "size"),
        "caches_shared_by": _caches(folder / "cpu0" / "cache", "shared_cpu_list"),
        "numa": {
            node.name: read(node / "cpulist") for node in sorted((root / "sys/devices/system/node").glob("node[0-9]*"))
        },
        "governor": read(folder / "cpu0/cpufreq/scaling_governor") or None,
        "max_mhz": None if max_khz is None else max_khz / 1000,
        "boost": {"1": True, "0": False}.get(boost, {"0": True, "1": False}.get(no_turbo)),
    }


def _caches(folder: Path, fact: str) -> dict[str, str]:
    """Return a fact of each cache of the first processor: its size, such as `{"L2": "1024K"}`, or who shares it."""
    caches = {}
    for index in sorted(folder.glob("index[0-9]*")):
        kind = {"Data": "d", "Instruction": "i"}.get(read(index / "type"), "")
        caches[f"L{read(index / 'level')}{kind}"] = read(index / fact)
    return caches


def describe_memory(root: Path = ROOT) -> dict[str, Any]:
    """Return the memory of the host, and when it uses huge pages."""
    pages = re.search(r"\[(\w+)\]", read(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    return {
        "total_bytes": psutil.virtual_memory().total,
        "transparent_hugepages": pages.group(1) if pages else None,
    }


def describe_network() -> list[dict[str, Any]]:
    """Return name, state, speed and MTU of every lasting interface; addresses are left out."""
    return [
        {
            "name": name,
            "state": "up" if stats.isup else "down",
            # 0 where it is unknown.
            "speed_mbit_per_s": stats.speed or None,
            "mtu_bytes": stats.mtu,
        }
        for name, stats in sorted(psutil.net_if_stats().items())
        if not name.startswith(_CONTAINER_INTERFACES)
    ]


def describe_virtualisation(root: Path = ROOT) -> dict[str, Any]:
    """Return what stands between the program and the hardware: hypervisor and container."""
    flags = cpu_info(root).get("flags", "").split()
    dmi = root / "sys/class/dmi/id"
    # lscpu reads it from the processor itself.
    facts = printed(["lscpu"], _PATIENCE_S) if root == ROOT else ""
    hypervisor = re.search(r"^[ \t]*Hypervisor vendor:[ \t]*(.*\S)", facts, re.MULTILINE)
    marks = {"docker": ".dockerenv", "podman": "run/.containerenv", "singularity": ".singularity.d"}
    container = next((name for name, mark in marks.items() if (root / mark).exists()), None)
    return {
        "virtual_machine": "hypervisor" in flags or (root / "sys/hypervisor/type").exists(),
        "hypervisor": hypervisor[1] if hypervisor else None,
        "vendor": read(dmi / "sys_vendor") or read(root / "sys/hypervisor/type") or None,
        "product": read(dmi / "product_name") or None,
        "container": "kubernetes" if "KUBERNETES_SERVICE_HOST" in os.environ else container,
        "clock_source": read(root / "sys/devices/system/clocksource/clocksource0/current_clocksource") or None,
    }
