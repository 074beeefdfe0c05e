"""What two studies are compared by: five metrics, and the values that the repeats of an arm have of each."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dlbench.analysis.contest import ENDED
from dlbench.analysis.matching import Arm, Pair
from dlbench.analysis.significance import Case
from dlbench.scenario.settings import Input

TARGET = "time_to_target_s"

Repeat = tuple[str, ...]


@dataclass(frozen=True)
class Metric:
    """A column that is compared.

    Attributes:
        column: Its name.
        lower: Whether smaller values are better.
        is_score: Whether it says how well a model predicts: repeats with one seed then belong together, and it means
            nothing where the input was random numbers.
    """

    column: str
    lower: bool
    is_score: bool = False


METRICS = (
    Metric("samples_per_s", lower=False),
    Metric("train_time_s", lower=True),
    Metric("validation_accuracy", lower=False, is_score=True),
    Metric("validation_loss", lower=True, is_score=True),
    Metric(TARGET, lower=True),
)


def case(pair: Pair, metric: Metric) -> Case | None:
    """Return the values of one metric, the new study's first; None where a study has none, or they mean nothing."""
    if pair.base is None or pair.new is None:
        return None
    if metric.is_score and Input.SYNTHETIC in (pair.base.known("input"), pair.new.known("input")):
        return None
    base, new = values(pair.base, metric), values(pair.new, metric)
    if not base or not new:
        return None
    paired = metric.is_score and base.keys() == new.keys()
    a, b = (tuple(found[key] for key in (sorted(found) if paired else found)) for found in (new, base))
    return Case(a, b, metric.lower, paired)


def values(arm: Arm, metric: Metric) -> dict[Repeat, float]:
    """Return the values of an arm's runs by repeat and seed.

    Of times to a target they are infinite where a run ended without reaching it, and there are none without a target.
    """
    if metric.column == TARGET:
        return _times_to_target(arm)
    found = {_repeat(row): row.get(metric.column) for row in arm.completed}
    return {key: float(value) for key, value in found.items() if value is not None and math.isfinite(value)}


def _times_to_target(arm: Arm) -> dict[Repeat, float]:
    if arm.known("target_value") is None:
        return {}
    found = {_repeat(row): row.get(TARGET) for row in arm.rows if row["status"] in ENDED}
    return {key: math.inf if value is None else float(value) for key, value in found.items()}


def _repeat(row: Mapping[str, Any]) -> Repeat:
    """Return what pairs a run with one of another study; without a known repeat only its own name."""
    if row.get("repeat") is None:
        return (str(row["run_id"]),)
    return (f"{row['repeat']:06}", str(row.get("seed")))
