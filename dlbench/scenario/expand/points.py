"""The points of a scenario: every combination of its axes, and those added whole; not yet resolved or excluded."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dlbench.errors import UserError
from dlbench.scenario.scenario import Axes, Scenario
from dlbench.scenario.settings import MAX_RATE, Settings
from dlbench.scenario.source import Path

MAX_RUNS, MAX_ARMS = 100_000, 20_000
# Between two rates that a search which finds its own values tries.
RATE_STEP = 3.0

# What one axis gives to a point: where it was written, the key and the value.
Choice = tuple[Path, str, Any]


@dataclass(frozen=True)
class Point:
    """One combination: the value of each key that is given, and where it was written.

    Attributes:
        values: Settings and options by key, as written.
        origins: Path of each in the scenario.
        chosen: Keys that come from an axis or an included point, not from `base`.
        is_included: Whether it was added whole; `exclude` leaves such points alone.
        tuned: Keys whose value is one of several that are tried.
    """

    values: dict[str, Any]
    origins: dict[str, Path]
    chosen: frozenset[str]
    is_included: bool = False
    tuned: frozenset[str] = frozenset()

    def is_common(self, key: str) -> bool:
        """Whether the key is given by `base` for all points, or not at all."""
        return key not in self.chosen


def points(scenario: Scenario) -> Iterator[Point]:
    """Yield the points in the order they are written, the last axis fastest, included points last.

    Each stands there once for each combination of the values that `tune` tries.

    `base` alone is one point, unless there are included points and no axes.

    Raises:
        UserError: There are too many, or a key is an axis twice.
    """
    groups = [_steps(path, axes) for path, axes in scenario.axes()]
    has_matrix = bool(groups) or not scenario.include
    num_points = has_matrix * math.prod(map(len, groups)) + len(scenario.include)
    check_size(num_points * math.prod(map(len, _tried(scenario))), scenario)
    seen: set[str] = set()
    for path, axes in scenario.axes():
        for key in axes:
            if key in seen:
                raise UserError(f"{key!r} is an axis twice", where=scenario.source.where((*path, key)))
            seen.add(key)
    if has_matrix:
        for steps in itertools.product(*groups):
            yield from _tuned(_point(scenario, [choice for step in steps for choice in step]), scenario)
    for index, included in enumerate(scenario.include):
        choices: list[Choice] = [(("include", index, key), key, value) for key, value in included.items()]
        yield from _tuned(_point(scenario, choices, is_included=True), scenario)


def check_size(num_arms: int, scenario: Scenario) -> None:
    """Refuse more arms and runs than any study has."""
    num_runs = num_arms * scenario.least_repeats
    for number, most, what in ((num_arms, MAX_ARMS, "arms"), (num_runs, MAX_RUNS, "runs")):
        if number > most:
            hint = "shorten an axis" + (", or lower `repeats`" if what == "runs" else "")
            where = scenario.source.where(("matrix",))
            raise UserError(f"{number:,} {what} are too many; at most {most:,} are allowed", hint=hint, where=where)


def axis_keys(scenario: Scenario) -> tuple[str, ...]:
    """Return the keys that an axis or an included point gives, in the order they are written."""
    keys = [key for _, axes in scenario.axes() for key in axes]
    keys += [key for included in scenario.include for key in included]
    return tuple(dict.fromkeys(keys))


def _steps(path: Path, axes: Axes) -> list[list[Choice]]:
    """Return what the axes of one group give at each of their steps."""
    choices = ([((*path, key, index), key, value) for index, value in enumerate(axes[key])] for key in axes)
    return [list(step) for step in zip(*choices, strict=True)]


def _tuned(point: Point, scenario: Scenario) -> Iterator[Point]:
    """Yield a point once for each combination of values to try: as if `base` had them, but for what it has itself."""
    for tried in itertools.product(*_tried(scenario)):
        values = {key: value for _, key, value in tried}
        origins: dict[str, Path] = {key: path for path, key, _ in tried}
        yield replace(point, values=point.values | values, origins=point.origins | origins, tuned=frozenset(values))


def _tried(scenario: Scenario) -> list[list[Choice]]:
    """Return the values to try of each key that is tuned."""
    tune = scenario.tune.candidates if scenario.tune else {}
    return [
        [(("tune", key, index), key, value) for index, value in enumerate(values)]
        or [(("tune", key), key, rate) for rate in _around(float(scenario.base.get(key, Settings().learning_rate)))]
        for key, values in tune.items()
    ]


def _around(rate: float) -> list[float]:
    """Return a rate with the next ones below and above it that a run can have."""
    rates = (next_rate(rate, 1 / RATE_STEP), rate, next_rate(rate, RATE_STEP))
    return [each for each in rates if 0 < each <= MAX_RATE]


def next_rate(rate: float, factor: float) -> float:
    """Return the rate by a factor above another one, to two digits."""
    return float(f"{rate * factor:.2g}")


def _point(scenario: Scenario, choices: list[Choice], is_included: bool = False) -> Point:
    origins: dict[str, Path] = {key: ("base", key) for key in scenario.base}
    origins |= {key: path for path, key, _ in choices}
    values = scenario.base | {key: value for _, key, value in choices}
    return Point(values, origins, frozenset(key for _, key, _ in choices), is_included)
