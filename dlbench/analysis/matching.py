"""Arms of two studies matched: by their name, else by all their settings, else by their label."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dlbench.analysis.contest import Row, records
from dlbench.analysis.wording import one_line
from dlbench.records.columns import names
from dlbench.records.outcome import Status
from dlbench.scenario.settings import OPTION_PREFIXES, Settings

if TYPE_CHECKING:
    import pandas as pd

# A run's seed is that of its repeat; of it alone repeats differ.
SETTING_COLUMNS = tuple(
    name
    for name in names("runs")
    if (name in Settings.model_fields and name != "seed")
    or name in ("learning_rate_base", "batch_size_origin", "target_metric", "target_value", "target_stop")
)


@dataclass(frozen=True, eq=False)
class Arm:
    """One arm of one study.

    Attributes:
        name: What its runs share of their run_id.
        rows: Its runs, completed or not.
    """

    name: str
    rows: tuple[Row, ...] = field(repr=False)

    @property
    def label(self) -> str:
        """What people call it, in one line."""
        return one_line(next((row["label"] for row in self.rows if row.get("label")), self.name))

    @property
    def completed(self) -> tuple[Row, ...]:
        """Its completed runs."""
        return tuple(row for row in self.rows if row["status"] == Status.COMPLETED)

    def known(self, column: str) -> Any:
        """Return the first value in a column that a run of the arm has, completed ones before others; or None."""
        rows = (*self.completed, *self.rows)
        return next((row[column] for row in rows if row.get(column) is not None), None)

    def settings(self) -> dict[str, Any]:
        """Return its settings and options by column; of a setting that is not recorded its default.

        A study that lacks a column was made before the setting was there, and did what its default does.
        """
        fields = Settings.model_fields
        defaults = {name: fields[name].default for name in SETTING_COLUMNS if name in fields}
        found = {name: self.known(name) for name in (*SETTING_COLUMNS, *self.options())}
        return {name: defaults.get(name) if value is None else value for name, value in found.items()}

    def options(self) -> tuple[str, ...]:
        """Return the dotted columns of its rows."""
        return tuple(name for name in self.rows[0] if "." in name and name.partition(".")[0] in OPTION_PREFIXES)


@dataclass(frozen=True, eq=False)
class Pair:
    """One arm in two studies; None in a study that has no such arm."""

    base: Arm | None
    new: Arm | None

    @property
    def label(self) -> str:
        """What people call it; as the new study does, if they differ."""
        arm = self.new or self.base
        return "" if arm is None else arm.label


def arms_of(runs: "pd.DataFrame") -> list[Arm]:
    """Return the arms of one study in the order of their labels as people read them: small numbers first.

    Args:
        runs: The last attempt of each run: columns of `runs.csv` and `arm`.
    """
    grouped: dict[str, list[Row]] = {}
    for row in records(runs):
        grouped.setdefault(row["arm"], []).append(row)
    found = [Arm(name, tuple(rows)) for name, rows in grouped.items()]
    return sorted(found, key=lambda arm: _readable(arm.label))


def matched(base: Sequence[Arm], new: Sequence[Arm]) -> list[Pair]:
    """Return the arms of both studies in pairs, in the order of the base; arms that only the new one has come last."""
    partners: dict[Arm, Arm] = {}
    for key in (_name, _settings(base, new), _label):
        taken = set(partners.values())
        partners |= _by(key, [arm for arm in base if arm not in partners], [arm for arm in new if arm not in taken])
    taken = set(partners.values())
    return [
        *(Pair(arm, partners.get(arm)) for arm in base),
        *(Pair(None, arm) for arm in new if arm not in taken),
    ]


Key = Callable[[Arm], Hashable]


def _by(key: Key, base: Sequence[Arm], new: Sequence[Arm]) -> dict[Arm, Arm]:
    """Return the pairs that share a key which no other arm of either study has."""
    ours, theirs = (_unique(key, arms) for arms in (base, new))
    return {arm: theirs[value] for value, arm in ours.items() if value in theirs}


def _unique(key: Key, arms: Sequence[Arm]) -> dict[Hashable, Arm]:
    times = Counter(map(key, arms))
    return {key(arm): arm for arm in arms if times[key(arm)] == 1}


def _name(arm: Arm) -> Hashable:
    return arm.name


def _label(arm: Arm) -> Hashable:
    return arm.label


def _settings(base: Sequence[Arm], new: Sequence[Arm]) -> Key:
    """Return a key of all settings and options that both studies record."""
    recorded = [
        {name for arm in arms for name in (*SETTING_COLUMNS, *arm.options()) if arm.known(name) is not None}
        for arms in (base, new)
    ]
    columns = sorted(recorded[0] & recorded[1])

    def key(arm: Arm) -> Hashable:
        return tuple(str(arm.known(name)) for name in columns)

    return key


def _readable(label: str) -> tuple[tuple[int, float, str], ...]:
    """Return a key that sorts `batch_size=8` before `batch_size=16`."""
    return tuple(_parts(label))


def _parts(label: str) -> Iterator[tuple[int, float, str]]:
    for word in label.replace("=", " = ").split():
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        yield (0, value, "") if math.isfinite(value) else (1, 0.0, word)
