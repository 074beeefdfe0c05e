"""Whether two studies can be compared at all, and what differs between them besides results."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dlbench.analysis.arms import Arm, option_columns
from dlbench.analysis.compare.matching import settings
from dlbench.analysis.formatting import counted, one_line
from dlbench.errors import shorten
from dlbench.records.columns import names
from dlbench.records.machine import differences

DifferenceKind = Literal["machine", "versions", "note"]
Machine = Mapping[str, Any]

# What decides the work itself: where it differs, nothing is left to compare.
WORK = {"dataset_checksum": "the data differ", "num_parameters": "the models differ"}
# A setting that follows from the machine where a scenario does not give it.
OF_THE_MACHINE = frozenset({"cores_per_worker"})
# Known only after a run, or not recorded by early versions: without a value on both sides nothing is said of them.
OFTEN_UNKNOWN = frozenset({"train_samples", "validation_samples", "workers_per_host", "collectives"})
VERSIONS = tuple(name for name in names("runs") if name.endswith("_version") and name != "schema_version")
# How `dlbench.records.machine.differences` begins a line that is about software.
_SOFTWARE = ("Python:", "MPI:", "version of ")
# What the name of a processor has in `device_name` before its numbers.
_FAMILY = " (family "
MOST_LETTERS = 60


@dataclass(frozen=True)
class Difference:
    """Something besides results in which two studies differ.

    Attributes:
        kind: `machine` and `versions` change how fast a run is; a `note` says what else to know.
        text: What was, and what is.
    """

    kind: DifferenceKind
    text: str


def refusals(both: Sequence[tuple[Arm, Arm]]) -> tuple[str, ...]:
    """Return why studies with these arms of both cannot be compared; empty where they can."""
    if not both:
        return ("they have no arm in common",)
    found = []
    for column, words in WORK.items():
        lines = _counted(_difference(column, base.known(column), new.known(column)) for base, new in both)
        found += [f"{words}: {line}" for line in lines]
    found += [f"the settings differ: {line}" for line in _counted(_settings(both))]
    found += _counted(_emulated(base, new) for base, new in both)
    return tuple(found)


def warnings(both: Sequence[tuple[Arm, Arm]], machines: tuple[Machine, Machine]) -> tuple[Difference, ...]:
    """Return what else differs: machine, versions, and what could not be checked."""
    found = [*_machines(machines), *_unrecorded(both)]
    if not all(machines):
        found += [Difference("versions", line) for name in VERSIONS for line in _seen(name, both)]
    if not any(difference.kind == "machine" for difference in found):
        found += [Difference("machine", line) for line in _seen("device_name", both)]
    lines = _counted(
        _difference(name, base.known(name), new.known(name)) for name in OF_THE_MACHINE for base, new in both
    )
    return tuple(dict.fromkeys([*found, *(Difference("machine", line) for line in lines)]))


def _settings(both: Sequence[tuple[Arm, Arm]]) -> Iterator[str]:
    for base, new in both:
        before, after = settings(base), settings(new)
        for name in before:
            if name not in after or name in OF_THE_MACHINE:
                continue
            if name in OFTEN_UNKNOWN and None in (before[name], after[name]):
                continue
            yield _difference(name, before[name], after[name], unknown=False)


def _emulated(base: Arm, new: Arm) -> str:
    if bool(base.emulated) == bool(new.emulated):
        return ""
    where, arm = ("BASE", base) if base.emulated else ("NEW", new)
    why = arm.emulated.replace(";", ", ")
    return f"only in {where} is the hardware emulated ({why}): such times are never compared with real ones"


def _machines(machines: tuple[Machine, Machine]) -> Iterator[Difference]:
    base, new = machines
    if not base or not new:
        which = "BASE and NEW" if not base and not new else ("NEW" if base else "BASE")
        yield Difference("machine", f"what machine {which} ran on is not known: there is no machine.json")
        return
    for line in differences(dict(base), dict(new)):
        yield Difference("versions" if line.startswith(_SOFTWARE) else "machine", one_line(line))
    before, after = _part(base, "environment"), _part(new, "environment")
    for name in sorted(before.keys() | after.keys()):
        if before.get(name, "") != after.get(name, ""):
            was, is_now = (f"{found[name]}" if name in found else "unset" for found in (before, after))
            yield Difference("machine", one_line(f"environment variable {name}: was {was}, is {is_now}"))
    commits = [_part(_part(machine, "software"), "dlbench").get("commit") for machine in machines]
    if text := _difference("commit of dlbench", *commits):
        yield Difference("note", text)


def _unrecorded(both: Sequence[tuple[Arm, Arm]]) -> Iterator[Difference]:
    """Yield options that one study records and the other does not, with a value: they may differ."""
    sides = [(base, new, "BASE") for base, new in both] + [(new, base, "NEW") for base, new in both]
    lines = [
        f"{name} is {_shown(ours.known(name))} in {where} and not recorded in the other"
        for ours, theirs, where in sides
        for name in sorted(set(option_columns(ours.first)) - set(option_columns(theirs.first)))
        if ours.known(name) is not None
    ]
    yield from (Difference("note", one_line(line)) for line in _counted(lines))
    unknown = sum(base.known("dataset_checksum") is None or new.known("dataset_checksum") is None for base, new in both)
    if unknown:
        text = f"whether {counted(unknown, 'arm')} read the same data is not known: a checksum is missing"
        yield Difference("note", text)


def _seen(column: str, both: Sequence[tuple[Arm, Arm]]) -> Iterator[str]:
    """Yield what rows of the two studies say in a column, where both say something and not the same."""
    was, is_now = (
        sorted({str(row[column]) for pair in both for row in pair[side].rows if row.get(column) is not None})
        for side in (0, 1)
    )
    if column == "device_name" and not all(_FAMILY in name for name in (*was, *is_now)):
        # Early versions record the name alone.
        was, is_now = (sorted({name.partition(_FAMILY)[0] for name in names}) for names in (was, is_now))
    if was and is_now and was != is_now:
        yield one_line(f"{column}: was {' and '.join(was)}, is {' and '.join(is_now)}")


def _difference(name: str, was: Any, is_now: Any, *, unknown: bool = True) -> str:
    """Return a difference in words; empty where there is none, or where an unknown value decides nothing."""
    if was == is_now or (unknown and None in (was, is_now)):
        return ""
    return one_line(f"{name} was {_shown(was)}, is {_shown(is_now)}")


def _shown(value: Any) -> str:
    return "not set" if value is None else shorten(str(value), MOST_LETTERS)


def _counted(lines: Iterable[str]) -> list[str]:
    """Return each line once, with the number of arms it is true of where they are several."""
    times = Counter(filter(None, lines))
    return [f"{line} (in {count} arms)" if count > 1 else line for line, count in times.items()]


def _part(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = found.get(key)
    return part if isinstance(part, Mapping) else {}
