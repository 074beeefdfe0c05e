"""Arms of two studies matched: by their name, else by all their settings, else by their label."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dlbench.analysis.arms import Arm, arms, option_columns, records
from dlbench.records.columns import names
from dlbench.scenario.settings import Settings, unrecorded

if TYPE_CHECKING:
    import pandas as pd

# A run's seed is that of its repeat; of it alone repeats differ.
SETTING_COLUMNS = tuple(
    name
    for name in names("runs")
    if (name in Settings.model_fields and name != "seed")
    or name in ("learning_rate_base", "target_metric", "target_value", "target_stop")
)

Key = Callable[[Arm], Hashable]


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


def matched(base: "pd.DataFrame", new: "pd.DataFrame") -> list[Pair]:
    """Return the arms of two studies in pairs; arms that only the new one has come last.

    Both are in the order of their labels as people read them: small numbers first.

    Args:
        base: The last attempt of each run of the base, with the columns of `runs.csv`.
        new: The same of the new study.
    """
    ours, theirs = (sorted(arms(records(runs)), key=lambda arm: _readable(arm.label)) for runs in (base, new))
    partners: dict[Arm, Arm] = {}
    for key in (lambda arm: arm.name, _settings(ours, theirs), lambda arm: arm.label):
        taken = set(partners.values())
        partners |= _by(key, [arm for arm in ours if arm not in partners], [arm for arm in theirs if arm not in taken])
    taken = set(partners.values())
    return [
        *(Pair(arm, partners.get(arm)) for arm in ours),
        *(Pair(None, arm) for arm in theirs if arm not in taken),
    ]


def settings(arm: Arm) -> dict[str, Any]:
    """Return an arm's settings and options by column; of one that is not recorded what was done before it was there."""
    defaults = {name: unrecorded(name) for name in SETTING_COLUMNS if name in Settings.model_fields}
    found = {name: arm.known(name) for name in (*SETTING_COLUMNS, *option_columns(arm.first))}
    return {name: defaults.get(name) if value is None else value for name, value in found.items()}


def _by(key: Key, base: Sequence[Arm], new: Sequence[Arm]) -> dict[Arm, Arm]:
    """Return the pairs that share a key which no other arm of either study has."""
    ours, theirs = (_unique(key, own) for own in (base, new))
    return {arm: theirs[value] for value, arm in ours.items() if value in theirs}


def _unique(key: Key, own: Sequence[Arm]) -> dict[Hashable, Arm]:
    times = Counter(map(key, own))
    return {key(arm): arm for arm in own if times[key(arm)] == 1}


def _settings(base: Sequence[Arm], new: Sequence[Arm]) -> Key:
    """Return a key of all settings and options that both studies record."""
    recorded = [
        {name for arm in own for name in (*SETTING_COLUMNS, *option_columns(arm.first)) if arm.known(name) is not None}
        for own in (base, new)
    ]
    columns = sorted(recorded[0] & recorded[1])
    return lambda arm: tuple(str(arm.known(name)) for name in columns)


def _readable(label: str) -> tuple[tuple[int, float, str], ...]:
    """Return a key that sorts `batch_size=8` before `batch_size=16`."""
    key = []
    for word in label.replace("=", " = ").split():
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        key.append((0, value, "") if math.isfinite(value) else (1, 0.0, word))
    return tuple(key)
