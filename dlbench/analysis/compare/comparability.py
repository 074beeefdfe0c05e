"""Which arms of two studies are compared, whether they can be at all, and what differs besides results.

Arms are matched by their name, else by all their settings, else by their label.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from dlbench.analysis.answer.comparison_group import LINK, SAME_LINK
from dlbench.analysis.arms import COUNTED, Arm, distinct, is_imported, option_columns
from dlbench.analysis.formatting import counted, one_line
from dlbench.analysis.groups import tuned_of
from dlbench.errors import shorten
from dlbench.records.columns import names
from dlbench.records.machine import differences, found_in
from dlbench.scenario.metrics import Metric, Metrics
from dlbench.scenario.settings import Settings

# A run's seed is that of its repeat; of it alone repeats differ. A learning rate follows from the base rate.
_OF_RUNS = {"seed", "learning_rate"}
_SETTINGS = {*Settings.model_fields, "learning_rate_base", "target_metric", "target_value", "target_stop"} - _OF_RUNS
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)")

# An arm of a base and its counterpart; None in a study that has no such arm.
Pair = tuple[Arm | None, Arm | None]
Machine = Mapping[str, Any]
Kind = Literal["machine", "versions", "note"]

# What decides the work itself: where it differs, nothing is left to compare.
WORK = {"dataset_checksum": "the data differ", "num_parameters": "the models differ"}
# A setting that follows from the machine where a scenario does not give it.
OF_THE_MACHINE = frozenset({"cores_per_worker"})
# Known only after a run: without a value on both sides nothing is said of them.
OFTEN_UNKNOWN = frozenset({"train_samples", "validation_samples", "hosts", "workers_per_host", "collectives"})
VERSIONS = tuple(name for name in names("runs") if name.endswith("_version") and name != "schema_version")
# How `dlbench.records.machine.differences` begins a line that is about software.
_SOFTWARE = ("Python:", "MPI:", "version of ")
MOST_LETTERS = 60


@dataclass(frozen=True)
class Difference:
    """Something besides results in which two studies differ.

    Attributes:
        kind: `machine` and `versions` change how fast a run is; a `note` says what else to know.
        text: What was, and what is.
    """

    kind: Kind
    text: str


def matched(base: Sequence[Arm], new: Sequence[Arm]) -> list[Pair]:
    """Return the arms of two studies in pairs; arms that only the new one has come last.

    Both are in the order of their labels as people read them: small numbers first.
    """
    ours, theirs = (sorted(arms, key=lambda arm: _readable(arm.label)) for arms in (base, new))
    recorded = ({name for arm in arms for name in _columns(arm) if arm.get(name) is not None} for arms in (base, new))
    of_both = sorted(set.intersection(*recorded))
    partners: dict[Arm, Arm] = {}
    left = theirs
    for key in (lambda arm: arm.name, lambda arm: tuple(str(arm.get(name)) for name in of_both), lambda arm: arm.label):
        before, after = _unique(key, [arm for arm in ours if arm not in partners]), _unique(key, left)
        partners |= {arm: after[value] for value, arm in before.items() if value in after}
        taken = set(partners.values())
        left = [arm for arm in theirs if arm not in taken]
    return [*((arm, partners.get(arm)) for arm in ours), *((None, arm) for arm in left)]


def settings(arm: Arm) -> dict[str, Any]:
    """Return an arm's settings and options by column; the default of one that is not recorded."""
    # What a search has found is no choice of anybody's.
    values = {name: "tuned" if name in tuned_of(arm) else arm.get(name) for name in _columns(arm)}
    fields = Settings.model_fields
    return {name: fields[name].default if v is None and name in fields else v for name, v in values.items()}


def _columns(arm: Arm) -> list[str]:
    # On how many hosts the same workers are is up to the launcher; a table means other arms by it.
    chosen = _SETTINGS | {"hosts"} if is_imported(arm.first) else _SETTINGS
    return [*(name for name in names("runs") if name in chosen), *option_columns(arm.columns)]


def _unique(key: Callable[[Arm], Hashable], arms: Sequence[Arm]) -> dict[Hashable, Arm]:
    """Return the arms by a key that no other arm has."""
    times = Counter(map(key, arms))
    return {key(arm): arm for arm in arms if times[key(arm)] == 1}


def _readable(label: str) -> list[str | float]:
    """Return a key that sorts `batch_size=8` before `batch_size=16`."""
    return [float(part) if place % 2 else part for place, part in enumerate(_NUMBER.split(label))]


def refusals(both: Sequence[tuple[Arm, Arm]]) -> tuple[str, ...]:
    """Return why studies with these arms of both cannot be compared; empty where they can."""
    if not both:
        return ("they have no arm in common",)
    return tuple(_counted(text for base, new in both for text in _refused(base, new)))


def _refused(base: Arm, new: Arm) -> Iterator[str]:
    before, after = ({name: arm.get(name) for name in WORK} | settings(arm) for arm in (base, new))
    for name in [name for name in before if name in after and name not in OF_THE_MACHINE]:
        if text := _difference(name, before[name], after[name], unknown=name in (*WORK, *OFTEN_UNKNOWN)):
            yield f"{WORK.get(name, 'the settings differ')}: {text}"
    if bool(base.emulated) != bool(new.emulated):
        where, why = ("BASE" if base.emulated else "NEW"), (base.emulated or new.emulated).replace(";", ", ")
        yield f"only in {where} is the hardware emulated ({why}): such times are never compared with real ones"


def redeclared(metrics: tuple[Metrics, Metrics], *keys: Literal["better", "unit", "matters"]) -> Iterator[str]:
    """Say of the metrics that both scenarios declare in which of these keys they differ."""
    value: dict[str, Callable[[Metric], Any]] = {
        "better": lambda metric: "higher" if metric.is_higher_better else "lower",
        "unit": lambda metric: metric.unit or "none",
        "matters": lambda metric: f"{100 * metric.margin:g}%" if metric.is_share else metric.margin,
    }
    for name in sorted(metrics[0].keys() & metrics[1].keys()):
        lines = [_difference(f"{key} of {name}", *(value[key](side[name]) for side in metrics)) for key in keys]
        yield from filter(None, lines)


def warnings(both: Sequence[tuple[Arm, Arm]], machines: tuple[Machine, Machine]) -> tuple[Difference, ...]:
    """Return what else differs: machine, versions, and what could not be checked."""
    noted = [*_machines(machines), *(Difference("note", text) for text in _unrecorded(both))]
    kinds = {difference.kind for difference in noted} if all(machines) else set()
    columns: dict[str, Kind] = {**dict.fromkeys(VERSIONS, "versions"), "device_name": "machine", "emulated": "machine"}
    noted += [
        Difference(kind, text) for name, kind in columns.items() if kind not in kinds and (text := _seen(name, both))
    ]
    lines = [_difference(name, base.get(name), new.get(name)) for name in OF_THE_MACHINE for base, new in both]
    # Within one machine the measured bandwidth says how busy that was.
    rates = [[arm.values(LINK) for arm in pair] for pair in both if (pair[0].get("machines") or 1) > 1]
    ratios = [median(after) / median(before) for before, after in rates if before and after]
    unlike = [ratio for ratio in ratios if not 1 / SAME_LINK < ratio < SAME_LINK]
    lines += [f"the measured bandwidth between hosts differs by more than {SAME_LINK:g} times"] * len(unlike)
    return (*noted, *(Difference("machine", text) for text in _counted(lines)))


def _machines(machines: tuple[Machine, Machine]) -> Iterator[Difference]:
    base, new = machines
    if not base or not new:
        which = " and ".join(name for name, machine in (("BASE", base), ("NEW", new)) if not machine)
        yield Difference("machine", f"what machine {which} ran on is not known: there is no machine.json")
        return
    hosts = [[machine, *machine.get("hosts", ())] for machine in machines]
    lines = [line for was, is_now in zip(*hosts, strict=False) for line in differences(dict(was), dict(is_now))]
    for line in _counted([*lines, _difference("number of hosts", *map(len, hosts))], "hosts"):
        yield Difference("versions" if line.startswith(_SOFTWARE) else "machine", one_line(line))
    variables = [listed if isinstance(listed := machine.get("environment"), Mapping) else {} for machine in machines]
    for name in sorted({*variables[0], *variables[1]}):
        was, is_now = (listed.get(name, "") for listed in variables)
        if was != is_now:
            text = f"environment variable {name}: was {was or 'unset'}, is {is_now or 'unset'}"
            yield Difference("machine", one_line(text))
    commits = (found_in(host, "software", "dlbench", "commit") for host in machines)
    if text := _difference("commit of dlbench", *commits):
        yield Difference("note", text)


def _unrecorded(both: Sequence[tuple[Arm, Arm]]) -> Iterator[str]:
    """Say which options one study records and the other does not, with a value: they may differ."""
    sides = [(base, new, "BASE") for base, new in both] + [(new, base, "NEW") for base, new in both]
    yield from _counted(
        one_line(f"{name} is {_shown(ours.get(name))} in {where} and not recorded in the other")
        for ours, theirs, where in sides
        for name in sorted({*option_columns(ours.columns)} - {*theirs.columns})
        if ours.get(name) is not None
    )
    for noun in sorted(distinct([row for arm, _ in both for row in arm.rows], COUNTED)):
        yield f"samples are {noun}: the tables count them"
    if unknown := sum(None in (base.get("dataset_checksum"), new.get("dataset_checksum")) for base, new in both):
        yield f"whether {counted(unknown, 'arm')} read the same data is not known: a checksum is missing"


def _seen(column: str, both: Sequence[tuple[Arm, Arm]]) -> str:
    """Say what rows of the two studies have in a column, where both have something and not the same."""
    seen = [{str(value) for pair in both for value in distinct(pair[side].rows, column)} for side in (0, 1)]
    if not all(seen) or seen[0] == seen[1]:
        return ""
    was, is_now = (" and ".join(sorted(names)) for names in seen)
    return one_line(f"{column}: was {was}, is {is_now}")


def _difference(name: str, was: Any, is_now: Any, *, unknown: bool = True) -> str:
    """Return a difference in words; empty where there is none, or where an unknown value decides nothing."""
    if was == is_now or (unknown and None in (was, is_now)):
        return ""
    return one_line(f"{name} was {_shown(was)}, is {_shown(is_now)}")


def _shown(value: Any) -> str:
    return "not set" if value is None else shorten(str(value), MOST_LETTERS)


def _counted(lines: Iterable[str], what: str = "arms") -> list[str]:
    """Return each line once, with the number of arms (or `what`) it is true of where they are several."""
    times = Counter(filter(None, lines))
    return [f"{line} (in {count} {what})" if count > 1 else line for line, count in times.items()]
