"""The machines of a report, as short facts: what `machine.json` says, and what the rows themselves say."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dlbench.analysis.formatting import counted, number, percent
from dlbench.records.machine import found_in, processor
from dlbench.records.noise import LEAST_SHARE
from dlbench.report.data import ReportData, StudyData
from dlbench.report.formatting import one_line, values

if TYPE_CHECKING:
    import pandas as pd

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
# Columns of versions, and what each is called.
VERSIONS = (
    ("dlbench_version", "dlbench"),
    ("python_version", "Python"),
    ("keras_version", "Keras"),
    ("tensorflow_version", "TensorFlow"),
    ("numpy_version", "NumPy"),
    ("mpi_version", ""),  # its name is part of the version
    ("horovod_version", "Horovod"),
)
# Larger differences of speed before and after a study are as large as differences between arms.
SLOWER = 0.05
NOT_KNOWN = "machine.json is not there or cannot be read; what follows is from the rows"


@dataclass(frozen=True)
class Machine:
    """What is known of one machine, and the studies that were made on it."""

    studies: tuple[str, ...]
    facts: tuple[Fact, ...]


def machines(data: ReportData) -> tuple[Machine, ...]:
    """Return the machines; studies of which the same is known share one."""
    found: dict[tuple[Fact, ...], list[str]] = {}
    for study in data.studies:
        found.setdefault(tuple(_facts(study)), []).append(study.name)
    return tuple(Machine(tuple(studies), facts) for facts, studies in found.items())


def unsteady(data: ReportData) -> Iterator[str]:
    """Yield warnings for studies before or after which others computed on a core, or a core computed more slowly."""
    for study in data.studies:
        shares = _by_core(study.machine, "spin_share_by_core").items()
        if busy := [core for core, values in shares if min(values) < LEAST_SHARE]:
            yield (
                f"{one_line(study.name)}: before or after the runs other programs computed on core {', '.join(busy)}: "
                "they may have slowed some runs."
            )
        by_core = _by_core(study.machine, "spin_best_per_s_by_core", "spin_best_per_s")
        slower = max((1 - min(speeds) / max(speeds) for speeds in by_core.values()), default=0.0)
        if slower > SLOWER:
            yield (
                f"{one_line(study.name)}: a core did the same work before and after the runs at speeds that differ by "
                f"{percent(slower)}: others on the processor may have slowed some runs."
            )


def _by_core(machine: Mapping[str, Any], name: str, of_all: str = "") -> dict[str, list[float]]:
    """Return what `dlbench.records.noise` measured of each core before and after each part of a study.

    Early studies know one speed of all cores, "".
    """
    found: dict[str, list[float]] = {}
    parts = found_in(machine, "noise")
    for part in parts if isinstance(parts, list) else ():
        for moment in ("before", "after"):
            by_core = found_in(part, moment, name) or {"": found_in(part, moment, of_all)}
            for core, value in by_core.items() if isinstance(by_core, Mapping) else ():
                if isinstance(value, int | float) and value > 0:
                    found.setdefault(str(core), []).append(float(value))
    return found


def _facts(study: StudyData) -> Iterator[Fact]:
    pairs = (*_hardware(study.machine), *_from_rows(study.attempts), *_software(study.machine))
    yield from ((name, text) for name, text in pairs if text)


def _hardware(machine: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield what the host that dlbench ran on has; a damaged or older description has less."""
    if not machine:
        yield "Machine", NOT_KNOWN
        return
    yield "Processor", _processor(machine)
    yield "Cores", _cores(machine)
    yield "Instruction sets", _texts(found_in(machine, "cpu", "flags"))
    yield "Caches", _caches(machine)
    yield "Clock", _clock(machine)
    yield "Memory", _bytes(found_in(machine, "memory", "total_bytes"))
    yield "GPUs", _gpus(found_in(machine, "gpus"))
    yield "Limits", _limits(machine)
    yield "Virtual", _virtual(machine)


def _software(machine: Mapping[str, Any]) -> Iterator[Fact]:
    system = (_text(found_in(machine, "software", name)) for name in ("os", "kernel", "architecture"))
    yield "Operating system", ", ".join(filter(None, system))
    yield "Installed", _libraries(found_in(machine, "software", "libraries"))
    commit = _text(found_in(machine, "software", "dlbench", "commit"))
    is_dirty = found_in(machine, "software", "dlbench", "dirty") is True
    yield "Commit of dlbench", f"{commit}{', with changes' if is_dirty else ''}" if commit else ""


def _from_rows(attempts: "pd.DataFrame") -> Iterator[Fact]:
    for column, title in _ROWS:
        yield title, ", ".join(_distinct(attempts[column]))
    yield "Slowest link of a run", _link(attempts)
    versions = (
        f"{name} {' and '.join(found)}".strip() for column, name in VERSIONS if (found := _distinct(attempts[column]))
    )
    yield "Versions in the runs", ", ".join(versions)


def _link(attempts: "pd.DataFrame") -> str:
    """Return latency and bandwidth of the links that runs crossed, as measured before their studies."""
    parts = [
        (attempts["link_latency_s"].dropna() * 1e6, "us one way"),
        (attempts["link_bandwidth_bytes_per_s"].dropna() / 1e6, "MB/s"),
    ]
    known = [(values, unit) for values, unit in parts if len(values)]
    return ", ".join(f"{_between(values)} {unit}" for values, unit in known)


def _between(values: "pd.Series[float]") -> str:
    low, high = number(values.min()), number(values.max())
    return low if low == high else f"{low} to {high}"


def _distinct(column: "pd.Series[Any]") -> list[str]:
    """Return the values that occur, each once, in their order."""
    known = sorted({value for value in values(column) if value is not None})
    return [f"{value:g}" if isinstance(value, float) else str(value) for value in known]


def _processor(machine: Mapping[str, Any]) -> str:
    details = [(name, _text(found_in(machine, "cpu", name))) for name in ("stepping", "microcode")]
    return ", ".join(filter(None, (_text(processor(machine)), *(f"{name} {text}" for name, text in details if text))))


def _caches(machine: Mapping[str, Any]) -> str:
    """Return the caches of the first core, and which logical processors share each."""
    sizes, sharing = found_in(machine, "cpu", "caches"), found_in(machine, "cpu", "caches_shared_by")
    if not isinstance(sizes, Mapping):
        return ""
    shared = sharing if isinstance(sharing, Mapping) else {}
    return ", ".join(
        f"{name} {_text(size)}{f' (shared by {by})' if (by := _text(shared.get(name))) else ''}"
        for name, size in sizes.items()
    )


def _clock(machine: Mapping[str, Any]) -> str:
    """Return what sets the clock, as far as a virtual machine shows it."""
    governor, mhz = _text(found_in(machine, "cpu", "governor")), found_in(machine, "cpu", "max_mhz")
    is_number = isinstance(mhz, int | float) and not isinstance(mhz, bool)
    return ", ".join(
        filter(None, (f"governor {governor}" if governor else "", f"up to {mhz:g} MHz" if is_number else ""))
    )


def _texts(values: Any) -> str:
    return ", ".join(filter(None, map(_text, values))) if isinstance(values, list) else ""


def _cores(machine: Mapping[str, Any]) -> str:
    cores, usable = found_in(machine, "cpu", "cores"), found_in(machine, "cpu", "usable_cpus")
    sockets, smt = found_in(machine, "cpu", "sockets"), found_in(machine, "cpu", "smt")
    parts = [_text(cores)]
    parts += [counted(sockets, "socket")] if isinstance(sockets, int) else []
    parts += ["several threads a core" if smt else "one thread a core"] if isinstance(smt, bool) else []
    parts += [f"{counted(usable, 'logical processor')} usable"] if isinstance(usable, int) else []
    return ", ".join(filter(None, parts))


def _gpus(gpus: Any) -> str:
    """Return each kind of GPU with how many there are; `none found` only where it was looked for."""
    if not isinstance(gpus, list):
        return ""
    names = [_gpu(gpu) for gpu in gpus]
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)) or "none found"


def _gpu(gpu: Any) -> str:
    name, memory = _text(found_in(gpu, "name")) or "unnamed", _bytes(found_in(gpu, "memory_bytes"))
    driver = _text(found_in(gpu, "driver"))
    details = ", ".join(filter(None, (memory, f"driver {driver}" if driver else "")))
    return f"{name} ({details})" if details else name


def _limits(machine: Mapping[str, Any]) -> str:
    cores, memory = found_in(machine, "limits", "cpu_cores"), found_in(machine, "limits", "memory_bytes")
    return ", ".join(filter(None, (f"{_text(cores)} cores" if _text(cores) else "", _bytes(memory))))


def _virtual(machine: Mapping[str, Any]) -> str:
    found = found_in(machine, "virtualisation", "virtual_machine")
    container = _text(found_in(machine, "virtualisation", "container"))
    hypervisor = _text(found_in(machine, "virtualisation", "hypervisor"))
    parts = [{True: "a virtual machine", False: "no virtual machine"}.get(found, "") if isinstance(found, bool) else ""]
    parts += [f"hypervisor {hypervisor}"] if hypervisor else []
    return ", ".join(filter(None, (*parts, f"in a container ({container})" if container else "")))


def _libraries(libraries: Any) -> str:
    if not isinstance(libraries, Mapping):
        return ""
    return ", ".join(f"{name} {_text(version)}".strip() for name, version in libraries.items())


def _bytes(size: Any) -> str:
    """Return a size as people say it, such as `23.5 GiB`."""
    if isinstance(size, bool) or not isinstance(size, int | float):
        return ""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{number(size)} bytes"


def _text(value: Any) -> str:
    """Return a single value as text; what is none is unknown."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value).strip()
