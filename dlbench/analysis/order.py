"""The order in which a person reads the arms of a study: as the scenario writes its axes, not as runs were executed."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from dlbench.scenario.expand.arms import is_shared
from dlbench.scenario.expand.points import axis_keys
from dlbench.scenario.run_spec import RunSpec, arm_name
from dlbench.scenario.scenario import Scenario

FIRST = -1


def reading_order(scenario: Scenario, runs: Iterable[RunSpec]) -> list[str]:
    """Return the names of a study's arms, the last axis fastest, each base line before the arms of its group."""
    written = [axes for _, axes in scenario.axes()]
    written += [{key: (value,) for key, value in included.items()} for included in scenario.include]
    # The values of each axis as they are written; those of included points follow.
    places = {
        key: list(dict.fromkeys(_text(value) for axes in written for value in axes.get(key, ())))
        for key in axis_keys(scenario)
    }

    def rank(run: RunSpec) -> tuple[int, ...]:
        return (*(_rank(run, key, values) for key, values in places.items()), not run.baseline)

    return list(dict.fromkeys(arm_name(run.run_id) for run in sorted(runs, key=rank)))


def _rank(run: RunSpec, key: str, places: Sequence[str]) -> int:
    """Return a run's place on one axis: values from `base` come last, what a base line has of its own first."""
    if run.baseline and not is_shared(key):
        return FIRST
    value = _text(run.axes.get(key))
    return places.index(value) if value in places else len(places)


def _text(value: Any) -> str:
    """Return a value as it can be compared: 0 is 0.0, and a hyphen and an underscore mean the same in names."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    return json.dumps(value, sort_keys=True, default=str).replace("-", "_")
