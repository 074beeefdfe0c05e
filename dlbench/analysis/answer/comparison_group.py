"""Comparison groups: arms of one task under one condition, emulated and real ones apart, each with a title."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from dlbench.analysis.arms import Arm, Row, arms, emulation, is_alone, records
from dlbench.analysis.formatting import one_line
from dlbench.analysis.groups import (
    ALONE,
    TASK,
    column_of,
    condition_text,
    described,
    is_shared,
    naming,
)
from dlbench.scenario.run_spec import arm_name

if TYPE_CHECKING:
    import pandas as pd

LINK = "link_bandwidth_bytes_per_s"
# Links of studies whose measured bandwidths differ by less than this ratio are the same condition.
SAME_LINK = 1.5


@dataclass(frozen=True, eq=False)
class ComparisonGroup:
    """Arms that can be compared.

    Attributes:
        title: Model and data set, or the command.
        emulated: Reasons why its runs were not on representative hardware, for a sentence; empty where they are real.
        arms: In the order of their first runs, each with a title of its own.
        runs: Their rows as a table.
        keys: The settings that their titles state.
        given: The condition that they share, by column; empty where all arms of the report share one.
        condition: The same in words.
    """

    title: str
    emulated: str
    arms: tuple[Arm, ...]
    runs: "pd.DataFrame" = field(repr=False)
    keys: tuple[str, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    condition: str = ""

    @property
    def completed(self) -> tuple[Arm, ...]:
        """The arms with at least one completed run."""
        return tuple(arm for arm in self.arms if arm.completed)


def comparison_groups(runs: "pd.DataFrame", given: Collection[str] = ()) -> list[ComparisonGroup]:
    """Return the comparison groups of a report, in the order of their first runs, real ones before emulated ones.

    A base line of one worker, which no link holds up, is in the group of every condition.

    Args:
        runs: The last attempt of each run: columns of `runs.csv` and `placement`.
        given: Settings that are conditions beside those that always are.
    """
    every = arms(records(runs))
    links = _links(every)
    conditions = _conditions(every, given)
    of_alone = [key for key in conditions if len({str(arm.known(key)) for arm in every if arm.is_alone}) > 1]
    of_arms = {
        arm: (
            *(None if arm.is_alone and key not in of_alone else arm.known(key) for key in conditions),
            links.get(arm.study),
        )
        for arm in every
    }
    tasks = {arm: (_title(arm.first), bool(arm.emulated)) for arm in every}
    # The conditions of each task in the order of their first runs, whatever the base line's place.
    of_tasks: dict[tuple[str, bool], dict[tuple[Any, ...], None]] = {}
    for arm in every:
        if not arm.is_alone:
            of_tasks.setdefault(tasks[arm], {})[of_arms[arm]] = None
    found: dict[tuple[str, bool, tuple[Any, ...]], list[Arm]] = {}
    for arm, condition in of_arms.items():
        others = of_tasks.get(tasks[arm], {}) if arm.is_alone else {}
        for one in [other for other in others if _fits(condition, other)] or [condition]:
            found.setdefault((*tasks[arm], one), []).append(arm)
    titles = [title for title, *_ in found]
    ordered = sorted(found, key=lambda key: (titles.index(key[0]), key[1]))
    names_of = [*conditions, *([LINK] if len(set(links.values())) > 1 else [])]
    return [_group(key[0], found[key], runs, dict(zip(names_of, key[2], strict=False))) for key in ordered]


def _conditions(every: Sequence[Arm], given: Collection[str]) -> list[str]:
    """Return the columns in which arms differ that are conditions: declared, devices, or options of the simulator."""
    of_settings = {"device_name", *map(column_of, given)}
    columns = dict.fromkeys(name for arm in every for name in arm.first)
    always = [name for name in columns if name.startswith("communicator.") or name in of_settings]
    others = [arm for arm in every if not arm.is_alone] or every
    return [name for name in always if len({str(arm.known(name)) for arm in others if arm.known(name) is not None}) > 1]


def _fits(condition: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether all that is known of a condition is as in another one."""
    return all(one is None or one == two for one, two in zip(condition, other, strict=True))


def _links(every: Sequence[Arm]) -> dict[str | None, float]:
    """Return the bandwidth of the links that each study measured; of studies on about the same links that of one."""
    measured: dict[str | None, list[float]] = {}
    for arm in every:
        measured.setdefault(arm.study, []).extend(arm.values(LINK))
    found: dict[str | None, float] = {}
    for study, middle in sorted(
        ((study, median(own)) for study, own in measured.items() if own), key=lambda one: one[1]
    ):
        last = next(reversed(found.values()), middle)
        found[study] = last if middle < SAME_LINK * last else middle
    return found


def _title(row: Row) -> str:
    return " on ".join(one_line(row[key]) for key in TASK if row.get(key)) or "a task without a name"


def _group(title: str, own: Sequence[Arm], runs: "pd.DataFrame", given: Mapping[str, Any]) -> ComparisonGroup:
    chosen_names = {(arm.study, arm.name) for arm in own}
    chosen = runs[[key in chosen_names for key in zip(runs["study"], map(arm_name, runs["run_id"]), strict=True)]]
    keys = naming(chosen)
    titles = _titles(own, keys)
    titled = tuple(replace(arm, title=text) for arm, text in zip(own, titles, strict=True))
    emulated = emulation(arm.emulated for arm in own).replace(";", ", ")
    return ComparisonGroup(title, emulated, titled, chosen, keys, given, condition_text(given, runs))


def _titles(own: Sequence[Arm], keys: Sequence[str]) -> list[str]:
    has_others = not all(arm.is_alone for arm in own)
    titles = [_arm_title(arm, keys, says_alone=has_others and is_alone(arm.rows[0])) for arm in own]
    times = Counter(titles)
    return [
        title if times[title] == 1 else one_line(f"{title} [{arm.name} of {arm.study}]")
        for title, arm in zip(titles, own, strict=True)
    ]


def _arm_title(arm: Arm, keys: Sequence[str], *, says_alone: bool) -> str:
    """Return what people call an arm; of a base line without the settings that only its arms have."""
    row = arm.rows[0]
    text = described({key: row.get(key) for key in keys if not says_alone or is_shared(key)})
    if says_alone:
        return one_line(", ".join(filter(None, (ALONE, text))))
    return one_line(text or row.get("label") or arm.name)
