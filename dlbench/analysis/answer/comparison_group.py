"""Comparison groups: arms that train one model on one data set, emulated and real ones apart, each with a title."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dlbench.analysis.arms import Arm, Row, arms, emulation, is_alone, records
from dlbench.analysis.formatting import one_line
from dlbench.analysis.groups import ALONE, TASK, Names, described, is_shared, varying
from dlbench.scenario.run_spec import arm_name

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class ComparisonGroup:
    """Arms that can be compared.

    Attributes:
        title: Model and data set, or the command.
        emulated: Reasons why its runs were not on representative hardware, for a sentence; empty where they are real.
        arms: In the order of their first runs, each with a title of its own.
        runs: Their rows as a table.
        keys: The settings that their titles state.
    """

    title: str
    emulated: str
    arms: tuple[Arm, ...]
    runs: "pd.DataFrame" = field(repr=False)
    keys: tuple[str, ...] = ()

    @property
    def completed(self) -> tuple[Arm, ...]:
        """The arms with at least one completed run."""
        return tuple(arm for arm in self.arms if arm.completed)


def comparison_groups(runs: "pd.DataFrame", names: Names = varying) -> list[ComparisonGroup]:
    """Return the comparison groups of a report, in the order of their first runs, real ones before emulated ones.

    Args:
        runs: The last attempt of each run: columns of `runs.csv` and `placement`.
        names: Returns the settings that titles of arms state.
    """
    found: dict[tuple[str, bool], list[Arm]] = {}
    for arm in arms(records(runs)):
        found.setdefault((_title(arm.first), bool(arm.emulated)), []).append(arm)
    titles = [title for title, _ in found]
    ordered = sorted(found, key=lambda key: (titles.index(key[0]), key[1]))
    return [_group(title, found[title, emulated], runs, names) for title, emulated in ordered]


def _title(row: Row) -> str:
    return " on ".join(one_line(row[key]) for key in TASK if row.get(key)) or "a task without a name"


def _group(title: str, own: Sequence[Arm], runs: "pd.DataFrame", names: Names) -> ComparisonGroup:
    chosen_names = {(arm.study, arm.name) for arm in own}
    chosen = runs[[key in chosen_names for key in zip(runs["study"], map(arm_name, runs["run_id"]), strict=True)]]
    keys = names(chosen)
    titles = _titles(own, keys)
    titled = tuple(replace(arm, title=text) for arm, text in zip(own, titles, strict=True))
    return ComparisonGroup(title, emulation(arm.emulated for arm in own).replace(";", ", "), titled, chosen, keys)


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
