"""Runs as contests: arms that train one model on one data set compete, emulated and real ones apart."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dlbench.analysis.groups import ALONE, TASK, described, emulation, is_shared, varying
from dlbench.analysis.wording import one_line
from dlbench.records.outcome import Status
from dlbench.scenario.settings import Input

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]

# More patience would not have brought a run that ended so to its target.
ENDED = (Status.COMPLETED, Status.DIVERGED)


@dataclass(frozen=True, eq=False)
class Contender:
    """One arm of one study: all its runs, and what people call it.

    Attributes:
        name: What tells it from the contest's others, in one line.
        rows: Its runs by column, completed or not; what is unknown is None or absent.
    """

    name: str
    rows: tuple[Row, ...] = field(repr=False)

    @cached_property
    def completed(self) -> tuple[Row, ...]:
        """Its completed runs."""
        return tuple(row for row in self.rows if row["status"] == Status.COMPLETED)

    @property
    def first(self) -> Row:
        """The run that says how the arm was set: a completed one, if there is one."""
        return (self.completed or self.rows)[0]

    @property
    def workers(self) -> int:
        """Number of replicas."""
        return int(self.first.get("workers") or 1)

    @property
    def is_alone(self) -> bool:
        """Whether it is one worker without any communication library."""
        return is_alone(self.first)

    @property
    def scores_mean_something(self) -> bool:
        """Whether it trained on samples, not on random numbers."""
        return bool(self.first.get("input") != Input.SYNTHETIC)

    def values(self, column: str) -> tuple[float, ...]:
        """Return one number of each completed run that has it."""
        found = [row.get(column) for row in self.completed]
        return tuple(float(value) for value in found if value is not None and math.isfinite(value))


@dataclass(frozen=True, eq=False)
class Contest:
    """Arms that can be compared.

    Attributes:
        title: Model and data set, or the command.
        emulated: Reasons why its runs are not real hardware at work, for a sentence; empty where they are real.
        arms: In the order of their first runs.
        runs: Their rows as a table.
    """

    title: str
    emulated: str
    arms: tuple[Contender, ...]
    runs: "pd.DataFrame" = field(repr=False)

    @property
    def completed(self) -> tuple[Contender, ...]:
        """The arms with at least one completed run."""
        return tuple(arm for arm in self.arms if arm.completed)


def is_alone(row: Row) -> bool:
    """Whether a run is one worker without any communication library."""
    return bool(row.get("strategy") == "single" and row.get("workers") == 1)


def records(runs: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return the rows of a table by column name, unknown values as None; columns without any value are left out."""
    import pandas as pd

    found = runs.dropna(axis="columns", how="all").to_dict("records")
    return [
        {str(name): None if value is pd.NA or value != value else value for name, value in row.items()} for row in found
    ]


def contests(runs: "pd.DataFrame") -> list[Contest]:
    """Return the contests of a report, in the order of their first runs, real ones before emulated ones.

    Args:
        runs: The last attempt of each run: columns of `runs.csv`, `arm` and `placement`.
    """
    rows = records(runs)
    arms: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(rows):
        arms.setdefault((row["study"], row["arm"]), []).append(place)
    fields: dict[tuple[str, bool], list[list[int]]] = {}
    for places in arms.values():
        own = [rows[place] for place in places]
        fields.setdefault((_title(own[0]), bool(reasons(own))), []).append(places)
    titles = [title for title, _ in fields]
    ordered = sorted(fields, key=lambda found: (titles.index(found[0]), found[1]))
    return [_contest(title, runs, rows, fields[title, emulated]) for title, emulated in ordered]


def reasons(rows: Sequence[Row]) -> str:
    """Return why runs are emulated; a run that failed early may not say it, but another of its arm does."""
    return emulation(row.get("emulated") for row in rows).replace(";", ", ")


def _title(row: Row) -> str:
    return " on ".join(one_line(row[key]) for key in TASK if row.get(key)) or "a task without a name"


def _contest(title: str, runs: "pd.DataFrame", rows: Sequence[Row], arms: Sequence[Sequence[int]]) -> Contest:
    places = [place for own in arms for place in own]
    chosen = runs.iloc[places]
    names = _names([rows[own[0]] for own in arms], varying(chosen))
    found = [Contender(name, tuple(rows[place] for place in own)) for name, own in zip(names, arms, strict=True)]
    return Contest(title, reasons([rows[place] for place in places]), tuple(found), chosen)


def _names(rows: Sequence[Row], keys: Sequence[str]) -> list[str]:
    has_others = not all(map(is_alone, rows))
    names = [_name(row, keys, says_alone=has_others and is_alone(row)) for row in rows]
    times = Counter(names)
    return [
        name if times[name] == 1 else one_line(f"{name} [{row['arm']} of {row['study']}]")
        for name, row in zip(names, rows, strict=True)
    ]


def _name(row: Row, keys: Sequence[str], *, says_alone: bool) -> str:
    """Return what people call an arm; of a base line without the settings that only its arms have."""
    told = {key: row.get(key) for key in keys if not says_alone or is_shared(key)}
    text = described(told)
    if says_alone:
        return one_line(", ".join(filter(None, (ALONE, text))))
    return one_line(text or row.get("label") or row["arm"])
