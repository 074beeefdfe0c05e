"""The machines of a report, as short facts: what `machine.json` says, and what the rows themselves say."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from dlbench.analysis.arms import Row
from dlbench.analysis.formatting import counted, number, percent
from dlbench.records.machine import found_in, processor
from dlbench.records.noise import LEAST_SHARE
from dlbench.report.data import ReportData, StudyData
from dlbench.report.formatting import one_line

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
# Columns of the link between hosts, and what makes their values microseconds and MB/s.
_LINK = (("link_latency_s", 1e6), ("link_bandwidth_bytes_per_s", 1e-6))
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


class Machine(NamedTuple):
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
    cpu = partial(found_in, machine, "cpu")
    stepping, microcode = _text(cpu("stepping"), "stepping {}"), _text(cpu("microcode"), "microcode {}")
    yield "Processor", _joined(_text(processor(machine)), stepping, microcode)
    sockets, usable = _counted(cpu("sockets"), "socket"), _counted(cpu("usable_cpus"), "logical processor")
    threads = _whether(cpu("smt"), "several threads a core", "one thread a core")
    yield "Cores", _joined(_text(cpu("cores")), sockets, threads, usable and f"{usable} usable")
    flags = cpu("flags")
    yield "Instruction sets", _joined(*map(_text, flags)) if isinstance(flags, list) else ""
    yield "Caches", _caches(machine)
    mhz = cpu("max_mhz")
    # As far as a virtual machine shows what sets it.
    yield "Clock", _joined(_text(cpu("governor"), "governor {}"), f"up to {mhz:g} MHz" if _is_number(mhz) else "")
    yield "Memory", _bytes(found_in(machine, "memory", "total_bytes"))
    yield "GPUs", _gpus(found_in(machine, "gpus"))
    limits = partial(found_in, machine, "limits")
    yield "Limits", _joined(_text(limits("cpu_cores"), "{} cores"), _bytes(limits("memory_bytes")))
    virtual = partial(found_in, machine, "virtualisation")
    kind = _whether(virtual("virtual_machine"), "a virtual machine", "no virtual machine")
    container = _text(virtual("container"), "in a container ({})")
    yield "Virtual", _joined(kind, _text(virtual("hypervisor"), "hypervisor {}"), container)


def _software(machine: Mapping[str, Any]) -> Iterator[Fact]:
    software = partial(found_in, machine, "software")
    yield "Operating system", _joined(*(_text(software(name)) for name in ("os", "kernel", "architecture")))
    libraries = software("libraries")
    if isinstance(libraries, Mapping):
        yield "Installed", _joined(*(f"{name} {_text(version)}".strip() for name, version in libraries.items()))
    changes = _whether(software("dlbench", "dirty"), ", with changes", "")
    yield "Commit of dlbench", _text(software("dlbench", "commit"), f"{{}}{changes}")


def _from_rows(attempts: Sequence[Row]) -> Iterator[Fact]:
    for column, title in _ROWS:
        yield title, ", ".join(_distinct(attempts, column))
    latency, bandwidth = (_range(attempts, *column) for column in _LINK)
    # As measured before the studies.
    yield "Slowest link of a run", _joined(latency and f"{latency} us one way", bandwidth and f"{bandwidth} MB/s")
    versions = ((name, " and ".join(_distinct(attempts, column))) for column, name in VERSIONS)
    yield "Versions in the runs", _joined(*(f"{name} {text}".strip() for name, text in versions if text))


def _range(rows: Sequence[Row], column: str, scale: float) -> str:
    """Return the smallest and largest value of a column; empty where none is known."""
    values = [scale * row[column] for row in rows if row.get(column) is not None]
    return " to ".join(dict.fromkeys(number(value) for value in (min(values), max(values)))) if values else ""


def _distinct(rows: Iterable[Row], column: str) -> list[str]:
    """Return the values that occur in a column, each once, in their order."""
    known = sorted({row[column] for row in rows if row.get(column) is not None})
    return [f"{value:g}" if isinstance(value, float) else str(value) for value in known]


def _caches(machine: Mapping[str, Any]) -> str:
    """Return the caches of the first core, and which logical processors share each."""
    sizes, sharing = found_in(machine, "cpu", "caches"), partial(found_in, machine, "cpu", "caches_shared_by")
    if not isinstance(sizes, Mapping):
        return ""
    return _joined(*(f"{name} {_text(size)}{_text(sharing(name), ' (shared by {})')}" for name, size in sizes.items()))


def _gpus(gpus: Any) -> str:
    """Return each kind of GPU with how many there are; `none found` only where it was looked for."""
    if not isinstance(gpus, list):
        return ""
    return _joined(*(f"{count} x {name}" for name, count in Counter(map(_gpu, gpus)).items())) or "none found"


def _gpu(gpu: Any) -> str:
    details = _joined(_bytes(found_in(gpu, "memory_bytes")), _text(found_in(gpu, "driver"), "driver {}"))
    return (_text(found_in(gpu, "name")) or "unnamed") + (f" ({details})" if details else "")


def _bytes(size: Any) -> str:
    """Return a size as people say it, such as `23.5 GiB`."""
    if not _is_number(size):
        return ""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{number(size)} bytes"


def _text(value: Any, form: str = "{}") -> str:
    """Return a single value as text; what is none is unknown."""
    text = "" if isinstance(value, bool) or not isinstance(value, str | int | float) else str(value).strip()
    return form.format(text) if text else ""


def _counted(count: Any, noun: str) -> str:
    return counted(count, noun) if isinstance(count, int) else ""


def _whether(value: Any, yes: str, no: str) -> str:
    """Return one of two texts; none where it is not known."""
    return {True: yes, False: no}[value] if isinstance(value, bool) else ""


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
