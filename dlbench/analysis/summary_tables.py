"""The tables that people open first: `summary.csv`, a narrow row for each run, and `arms.csv`, medians of each arm."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from dlbench.analysis.arms import TIME_TO_TARGET, Arm, Row, arms, last_attempts
from dlbench.analysis.groups import place_of, varying, written_name
from dlbench.records.columns import FORMULA_MARKS
from dlbench.records.tables import line

SUMMARY, ARMS = "summary.csv", "arms.csv"
# What a reader looks for first, whether it varies or not; then the settings that do.
LEADING = ("strategy", "workers", "batch_size")
ARM_COLUMNS = (
    "study", "arm", "label", "workers", "baseline", "emulated", "metric", "median", "low", "high", "coverage", "n",
)  # fmt: skip
RESULTS = ("train_time_s", TIME_TO_TARGET, "samples_per_s", "validation_accuracy", "validation_loss")
# Spreadsheets also take full-width marks, and drop line breaks and look at what follows. In many countries they split
# lines at semicolons, quoted or not.
_FORMULA = re.compile(f"(^|;|\t)(?=[{''.join(FORMULA_MARKS)}\r\n\uff0d\uff1d\uff0b\uff20])")


def tables(rows: Iterable[Row]) -> dict[str, str]:
    """Return both tables of a study by file name, from the rows of its `runs.csv`; none without a run."""
    lasts = last_attempts(rows)
    found = arms(lasts)
    settings = varying(found)
    return {SUMMARY: summary(lasts, settings), ARMS: arm_table(found, settings)} if found else {}


def summary(runs: Iterable[Row], settings: Sequence[str]) -> str:
    """Return `summary.csv`: the settings that vary and the results of the last attempt of each run, in their order.

    Args:
        runs: The runs, as `last_attempts` returns them.
        settings: The settings in which they differ.
    """
    has_target = any(run.get(TIME_TO_TARGET) is not None for run in runs)
    is_told = {name: any(run.get(name) for run in runs) for name in ("baseline", "emulated")}
    columns = (
        "run_id",
        *_settings(settings, ()),
        *(name for name, told in is_told.items() if told),
        "repeat",
        "status",
        *(name for name in RESULTS if name != TIME_TO_TARGET or has_target),
    )
    leading = columns[1 : columns.index("status")]
    ordered = sorted(runs, key=lambda run: tuple(place_of(run.get(name)) for name in leading))
    head = line(map(written_name, columns))
    return head + "".join(line(defused(run.get(name)) for name in columns) for run in ordered)


def arm_table(found: Iterable[Arm], settings: Sequence[str]) -> str:
    """Return `arms.csv`: every arm with a completed run, a row for every metric that it has.

    Args:
        found: The arms, of one or several studies.
        settings: The settings in which they differ.
    """
    own = _settings(settings, ARM_COLUMNS)
    columns = (*ARM_COLUMNS[:3], *own, *ARM_COLUMNS[3:])
    rows = chain.from_iterable(_rows(arm, own) for arm in found if arm.completed)
    return line(map(written_name, columns)) + "".join(rows)


def _settings(settings: Iterable[str], there: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys((*LEADING, *settings)) if name not in (*there, "study")]


def _rows(arm: Arm, settings: Sequence[str]) -> Iterator[str]:
    """Yield the lines of an arm; half of its runs may never reach a target."""
    first = (arm.study, arm.name, arm.label, *map(arm.first.get, settings), arm.workers, arm.baseline, arm.emulated)
    metrics = {**arm.metrics, "efficiency": arm.efficiency, TIME_TO_TARGET: arm.time_to_target}
    for metric, interval in metrics.items():
        if interval is not None and math.isfinite(interval.value):
            values = (interval.value, interval.low, interval.high, interval.coverage, interval.n)
            yield line((*map(defused, first), metric, *values))


def defused(value: object) -> object:
    """Return a text so that no spreadsheet takes it for a formula; numbers stay numbers."""
    return _FORMULA.sub(r"\1'", value) if isinstance(value, str) else value
