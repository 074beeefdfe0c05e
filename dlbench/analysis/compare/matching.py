"""Arms of two studies matched: by their name, else by all their settings, else by their label."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from dlbench.analysis.arms import Arm, option_columns
from dlbench.analysis.groups import tuned_of
from dlbench.records.columns import names
from dlbench.scenario.settings import Settings

# A run's seed is that of its repeat; of it alone repeats differ.
_SETTINGS = {*Settings.model_fields, "learning_rate_base", "target_metric", "target_value", "target_stop"} - {"seed"}
SETTING_COLUMNS = tuple(name for name in names("runs") if name in _SETTINGS)
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)")

# An arm of a base and its counterpart; None in a study that has no such arm.
Pair = tuple[Arm | None, Arm | None]


def matched(base: Sequence[Arm], new: Sequence[Arm]) -> list[Pair]:
    """Return the arms of two studies in pairs; arms that only the new one has come last.

    Both are in the order of their labels as people read them: small numbers first.
    """
    ours, theirs = (sorted(arms, key=lambda arm: _readable(arm.label)) for arms in (base, new))
    partners: dict[Arm, Arm] = {}
    left = theirs
    for key in (lambda arm: arm.name, _settings_key(ours, theirs), lambda arm: arm.label):
        before, after = _unique(key, [arm for arm in ours if arm not in partners]), _unique(key, left)
        partners |= {arm: after[value] for value, arm in before.items() if value in after}
        taken = set(partners.values())
        left = [arm for arm in theirs if arm not in taken]
    return [*((arm, partners.get(arm)) for arm in ours), *((None, arm) for arm in left)]


def settings(arm: Arm) -> dict[str, Any]:
    """Return an arm's settings and options by column; the default of one that is not recorded."""
    # What a search has found is no choice of anybody's.
    values = {name: arm.get(name) for name in _columns(arm) if name not in tuned_of(arm)}
    fields = Settings.model_fields
    return {name: fields[name].default if v is None and name in fields else v for name, v in values.items()}


def _columns(arm: Arm) -> list[str]:
    return [*SETTING_COLUMNS, *option_columns(arm.columns)]


def _unique(key: Callable[[Arm], Hashable], arms: Sequence[Arm]) -> dict[Hashable, Arm]:
    """Return the arms by a key that no other arm has."""
    times = Counter(map(key, arms))
    return {key(arm): arm for arm in arms if times[key(arm)] == 1}


def _settings_key(base: Sequence[Arm], new: Sequence[Arm]) -> Callable[[Arm], Hashable]:
    """Return a key of all settings and options that both studies record."""
    recorded = ({name for arm in arms for name in _columns(arm) if arm.get(name) is not None} for arms in (base, new))
    columns = sorted(set.intersection(*recorded))
    return lambda arm: tuple(str(arm.get(name)) for name in columns)


def _readable(label: str) -> list[str | float]:
    """Return a key that sorts `batch_size=8` before `batch_size=16`."""
    return [float(part) if place % 2 else part for place, part in enumerate(_NUMBER.split(label))]
