"""The machine of a study, for `machine.json`: what it is, whether it is quiet, and whether another is like it.

Results get published: names of hosts and users, addresses, serial numbers and paths are left out, and environment
variables are taken by lists (`dlbench.records.variables`). Not even a hash of the host's name is kept: host names are
few enough to be guessed from one.

History of `schema_version`:
    1: first version.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlbench.cgroups import describe_limits
from dlbench.records.gpus import describe_gpus
from dlbench.records.hardware import describe_cpu, describe_memory, describe_network, describe_virtualisation
from dlbench.records.software import DECISIVE_LIBRARIES, describe_software
from dlbench.records.variables import tuning
from dlbench.regular_file import read_json

SCHEMA_VERSION = 1
# The kernel keeps a little memory for itself, more or less of it by its version.
MEMORY_TOLERANCE = 0.05
_LISTS = ("gpus", "hosts", "links", "noise")


def describe() -> dict[str, Any]:
    """Return the facts of this machine as JSON; quick, and without importing a framework."""
    return {
        "schema_version": SCHEMA_VERSION,
        "cpu": describe_cpu(),
        "memory": describe_memory(),
        "gpus": describe_gpus(),
        "network": describe_network(),
        "virtualisation": describe_virtualisation(),
        "limits": describe_limits(),
        "software": describe_software(),
        "environment": tuning(os.environ),
    }


def read_machine(path: Path) -> dict[str, Any]:
    """Return what a `machine.json` says, without what has not the form that is written; empty where it is damaged."""
    try:
        content = read_json(path)
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict):
        return {}
    machine: dict[str, Any] = {
        name: part for name, part in content.items() if isinstance(part, int if name == "schema_version" else dict)
    }
    for name in _LISTS:
        if isinstance(content.get(name), list):
            machine[name] = [item for item in content[name] if isinstance(item, dict)]
    return machine


def fingerprint(machine: dict[str, Any]) -> dict[str, Any]:
    """Return what must be equal for a study to go on here: hardware and versions, by readable name.

    What a damaged description lacks is None.
    """
    numbers = [found_in(machine, "cpu", name) for name in ("family", "model_number", "stepping")]
    return {
        "CPU model": found_in(machine, "cpu", "model"),
        "CPU family, model, stepping": None if None in numbers else " ".join(map(str, numbers)),
        "instruction sets": found_in(machine, "cpu", "flags"),
        "CPU cores": found_in(machine, "cpu", "cores"),
        "usable CPUs": found_in(machine, "cpu", "usable_cpus"),
        "CPU limit": found_in(machine, "limits", "cpu_cores"),
        "SMT": found_in(machine, "cpu", "smt"),
        "memory": found_in(machine, "memory", "total_bytes"),
        "memory limit": found_in(machine, "limits", "memory_bytes"),
        "GPUs": [
            f"{found_in(gpu, 'name')} ({_readable(found_in(gpu, 'memory_bytes'))}, driver {found_in(gpu, 'driver')})"
            for gpu in found_in(machine, "gpus") or ()
        ],
        "Python": found_in(machine, "software", "python"),
        "MPI": found_in(machine, "software", "mpi", "mpirun"),
        **{f"version of {name}": version for name, version in library_versions(machine).items()},
    }


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return, a line each, how the fingerprint of one machine differs from another's; empty where it does not."""
    old, new = fingerprint(before), fingerprint(after)
    return [
        f"{name}: was {_readable(old[name])}, is {_readable(new[name])}"
        for name in old
        if not _is_alike(name, old[name], new[name])
    ]


def processor(machine: Mapping[str, Any]) -> str:
    """Return what the processor is called, as in the column `device_name`; empty where it is unknown."""
    return str(found_in(machine, "cpu", "name") or found_in(machine, "cpu", "model") or "")


def _is_alike(name: str, old: Any, new: Any) -> bool:
    if name == "MPI" and None in (old, new):  # an mpirun may not have answered in time, or at all
        return True
    if name == "memory" and isinstance(old, int | float) and isinstance(new, int | float):
        return bool(abs(old - new) <= MEMORY_TOLERANCE * max(old, new))
    return bool(old == new)


def _readable(value: Any) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value / 2**30:.1f} GiB" if isinstance(value, int) and value >= 2**20 else str(value)


def found_in(place: Any, *keys: str) -> Any:
    """Return what stands under these keys, one within the other; None where one is missing or holds something else."""
    for key in keys:
        place = place.get(key) if isinstance(place, Mapping) else None
    return place


def library_versions(machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return the version of each library that decides speed or numbers; None where it is not installed."""
    return {name: found_in(machine, "software", "libraries", name) for name in DECISIVE_LIBRARIES}


def other_versions(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Return, such as `numpy 1.26 (here 2.4.6)`, which versions two hosts do not have in common."""
    return [
        f"{name} {there.get(name) or 'absent'} (here {here.get(name) or 'absent'})"
        for name in {**here, **there}
        if here.get(name) != there.get(name)
    ]
