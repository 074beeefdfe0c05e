"""The machines of a report, as short facts: what `machine.json` says, and what the rows themselves say."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dlbench.analysis.arms import Row, distinct, held_back, is_simulated
from dlbench.analysis.formatting import counted, joined, number, one_line, percent
from dlbench.grouping import by_key
from dlbench.records.machine import found_in, processor
from dlbench.records.noise import LEAST_SHARE
from dlbench.report.data import ReportData, StudyData

Fact = tuple[str, str]

# Columns of `runs.csv` that say what a run ran on, and what they are called here.
_ROWS = (
    ("device_name", "Devices of the runs"),
    ("hosts", "Hosts of a run"),
    ("machines", "Machines that they are"),
    ("interface", "Interface between hosts"),
    ("transports", "Transports"),
    ("cores_per_worker", "Cores of a worker"),
    ("cores_enforced", "Cores enforced by"),
)
# Columns of the link between hosts, each with a factor and the unit that it makes.
_LINK = (("link_latency_s", 1e6, " us one way"), ("link_bandwidth_bytes_per_s", 1e-6, " MB/s"))
# Columns of versions, and what each is called.
VERSIONS = (
    ("dlbench_version", "dlbench"),
    ("python_version", "Python"),
    ("keras_version", "Keras"),
    ("tensorflow_version", "TensorFlow"),
    ("torch_version", "PyTorch"),
    ("jax_version", "JAX"),
    ("numpy_version", "NumPy"),
    ("mpi_version", ""),  # its name is part of the version
    ("horovod_version", "Horovod"),
)
# Larger differences of speed before and after a study are as large as differences between arms.
SLOWER = 0.05
NOT_KNOWN = "machine.json is not there or cannot be read; what follows is from the rows"


def machines(data: ReportData) -> dict[tuple[Fact, ...], list[str]]:
    """Return what is known of each machine, and the studies made on it: those with the same facts share one."""
    return by_key((_facts(study), study.name) for study in data.studies)


def unsteady(data: ReportData) -> Iterator[str]:
    """Yield warnings for studies before or after which others computed on a core, or a core computed more slowly."""
    for study in data.studies:
        if all(map(is_simulated, study.attempts)):
            continue
        name = f"{one_line(study.name, 300)}: " if len(data.studies) > 1 else ""
        shares = _by_core(study.machine, "spin_share_by_core").items()
        if busy := [core for core, values in shares if min(values) < LEAST_SHARE]:
            yield f"{name}other programs computed on core {', '.join(busy)} before or after the runs"
        by_core = _by_core(study.machine, "spin_best_per_s_by_core").values()
        slower = max((1 - min(speeds) / max(speeds) for speeds in by_core), default=0.0)
        if slower > SLOWER:
            yield f"{name}the speed of a core differed by {percent(slower)} before and after the runs"


def _by_core(machine: Mapping[str, Any], name: str) -> dict[str, list[float]]:
    """Return what `dlbench.records.noise` measured of each core before and after each part of a study."""
    values: dict[str, list[float]] = {}
    for part, moment in itertools.product(machine.get("noise", ()), ("before", "after")):
        by_core = found_in(part, moment, name)
        for core, value in by_core.items() if isinstance(by_core, Mapping) else ():
            if isinstance(value, int | float) and value > 0:
                values.setdefault(core, []).append(value)
    return values


def _bytes(size: float) -> str:
    """Return a size as people say it, such as `23.5 GiB`."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{number(size)} bytes"


def _caches(cpu: Mapping[str, Any]) -> str:
    """Return the caches of the first core, and which logical processors share each."""
    shared = {name: _written(cores, " (shared by {})") for name, cores in cpu.get("caches_shared_by", {}).items()}
    return ", ".join(f"{name} {_written(size, '{}')}{shared.get(name, '')}" for name, size in cpu["caches"].items())


def _gpus(gpus: Sequence[Any]) -> str:
    """Return each kind of GPU with how many there are; `none found` only where it was looked for."""
    kinds = Counter((gpu.get("name") or "unnamed", _described(gpu, _GPU)) for gpu in gpus)
    each = (f"{count} x {name}" + (f" ({details})" if details else "") for (name, details), count in kinds.items())
    return ", ".join(each) or "none found"


# How a value is written: in a form, by one of two texts for yes and no, or by a function.
_Form = str | tuple[str, str] | Callable[[Any], str]
_GPU: dict[str, _Form] = {"memory_bytes": _bytes, "driver": "driver {}"}
# What `machine.json` says of the host that dlbench ran on: by title, places in it and how their values are written.
_HARDWARE: dict[str, dict[str, _Form]] = {
    "Processor": {"processor": "{}", "cpu.stepping": "stepping {}", "cpu.microcode": "microcode {}"},
    "Cores": {
        "cpu.cores": "{}",
        "cpu.sockets": lambda count: counted(count, "socket"),
        "cpu.smt": ("several threads a core", "one thread a core"),
        "cpu.usable_cpus": lambda count: f"{counted(count, 'logical processor')} usable",
    },
    "Instruction sets": {"cpu.flags": ", ".join},
    "Caches": {"cpu": _caches},
    # As far as a virtual machine shows what sets it.
    "Clock": {"cpu.governor": "governor {}", "cpu.max_mhz": "up to {:g} MHz".format},
    "Memory": {"memory.total_bytes": _bytes},
    "GPUs": {"gpus": _gpus},
    "Limits": {"limits.cpu_cores": "{} cores", "limits.memory_bytes": _bytes},
    "Virtual": {
        "virtualisation.virtual_machine": ("a virtual machine", "no virtual machine"),
        "virtualisation.hypervisor": "hypervisor {}",
        "virtualisation.container": "in a container ({})",
    },
}
_SOFTWARE: dict[str, dict[str, _Form]] = {
    "Operating system": {"software.os": "{}", "software.kernel": "{}", "software.architecture": "{}"},
    "Installed": {
        "software.libraries": lambda libraries: joined(
            *(f"{name} {_written(version, '{}')}".strip() for name, version in libraries.items())
        )
    },
    "Commit of dlbench": {"software.dlbench.commit": "{}", "software.dlbench.dirty": ("with changes", "")},
}


def _facts(study: StudyData) -> tuple[Fact, ...]:
    """Return what is known; a damaged or older description has less."""
    machine, rows = {**study.machine, "processor": processor(study.machine)}, study.attempts
    facts = [("Machine", "" if study.machine else NOT_KNOWN)]
    facts += [(title, _described(machine, places)) for title, places in _HARDWARE.items()]
    facts += [(title, ", ".join(_distinct(rows, column))) for column, title in _ROWS]
    facts.append(("Clocks of the GPUs, median run", held_back(rows)))
    # As measured before the studies.
    facts.append(("Slowest link of a run", joined(*(_range(rows, *column) for column in _LINK))))
    versions = ((name, " and ".join(_distinct(rows, column))) for column, name in VERSIONS)
    facts.append(("Versions in the runs", ", ".join(f"{name} {text}".strip() for name, text in versions if text)))
    facts += [(title, _described(machine, places)) for title, places in _SOFTWARE.items()]
    return tuple((title, text) for title, text in facts if text)


def _described(description: Mapping[str, Any], places: Mapping[str, _Form]) -> str:
    """Return the values at some places of a description, written and joined."""
    return joined(*(_written(found_in(description, *place.split(".")), form) for place, form in places.items()))


def _written(value: Any, form: _Form) -> str:
    """Return a value as text; empty where it is unknown or not of the kind that is expected."""
    if isinstance(value, bool) or isinstance(form, tuple):
        return form[not value] if isinstance(value, bool) and isinstance(form, tuple) else ""
    if isinstance(form, str):
        return form.format(value) if isinstance(value, int | float) or (isinstance(value, str) and value) else ""
    try:
        return form(value)
    except (AttributeError, LookupError, TypeError, ValueError):
        return ""


def _range(rows: Sequence[Row], column: str, scale: float, unit: str) -> str:
    """Return the smallest and largest value of a column; empty where none is known."""
    values = [scale * row[column] for row in rows if row.get(column) is not None]
    return " to ".join(dict.fromkeys(map(number, (min(values), max(values))))) + unit if values else ""


def _distinct(rows: Iterable[Row], column: str) -> list[str]:
    """Return the values that occur in a column, each once, in their order."""
    return [f"{value:g}" if isinstance(value, float) else str(value) for value in sorted(distinct(rows, column))]
