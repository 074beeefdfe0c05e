"""The tables that people open first: `summary.csv`, a narrow row for each run, and `arms.csv`, medians of each arm."""

import math
import re
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from dlbench.analysis.arms import Arm, Row, arms, last_attempts, reported
from dlbench.analysis.groups import place_of, tuned_columns, varying, written_name
from dlbench.records.columns import FORMULA_MARKS
from dlbench.records.tables import line
from dlbench.scenario.metrics import QUALITY, RATE, TIME_TO_TARGET, TRAIN_TIME

if TYPE_CHECKING:
    import pandas as pd

SUMMARY, ARMS = "summary.csv", "arms.csv"
# What a reader looks for first, whether it varies or not; then the settings that do.
LEADING = ("strategy", "workers", "batch_size")
ARM_COLUMNS = (
    "study", "arm", "label", "workers", "baseline", "emulated", "metric", "median", "low", "high", "coverage", "n",
)  # fmt: skip
RESULTS = (TRAIN_TIME.column, TIME_TO_TARGET.column, RATE.column, *QUALITY)
# Of these, what has no column where no run has it.
_OPTIONAL = ("baseline", "emulated", TIME_TO_TARGET.column, "validation_mean_squared_error")
# Spreadsheets also take full-width marks, and drop line breaks and look at what follows. In many countries they split
# lines at semicolons, quoted or not.
_FORMULA = re.compile(f"(^|;|\t)(?=[{''.join(FORMULA_MARKS)}\r\n\uff0d\uff1d\uff0b\uff20])")


def tables(rows: Iterable[Row]) -> dict[str, str]:
    """Return both tables of a study by file name, from the rows of its `runs.csv`; none without a run."""
    lasts = last_attempts(rows)
    all_arms = arms(lasts)
    settings = (*varying(all_arms), *tuned_columns(all_arms))
    return {SUMMARY: summary_csv(lasts, settings), ARMS: arms_csv(all_arms, settings)} if all_arms else {}


def summary_csv(runs: Sequence[Row], settings: Sequence[str]) -> str:
    """Return `summary.csv`: the settings that vary and the results of the last attempt of each run, in their order.

    Args:
        runs: The runs, as `last_attempts` returns them.
        settings: The settings in which they differ.
    """
    results = (*RESULTS, *reported(runs))
    every = ("run_id", *_settings(settings, ()), "baseline", "emulated", "repeat", "status", *results)
    columns = [name for name in every if name not in _OPTIONAL or any(run.get(name) for run in runs)]
    leading = columns[1 : columns.index("status")]
    ordered = sorted(runs, key=lambda run: tuple(place_of(run.get(name)) for name in leading))
    head = line(map(written_name, columns))
    return head + "".join(line(defused(run.get(name)) for name in columns) for run in ordered)


def arms_csv(all_arms: Iterable[Arm], settings: Sequence[str]) -> str:
    """Return `arms.csv`: every arm with a completed run, a row for every metric that it has.

    Args:
        all_arms: The arms, of one or several studies.
        settings: The settings in which they differ.
    """
    varied = _settings(settings, ARM_COLUMNS)
    columns = (*ARM_COLUMNS[:3], *varied, *ARM_COLUMNS[3:])
    lines = [line(map(written_name, columns))]
    for arm in (arm for arm in all_arms if arm.completed):
        first = (arm.study, arm.name, arm.label, *map(arm.first.get, varied), arm.workers, arm.baseline, arm.emulated)
        lines += [
            line((*map(defused, first), metric, mid.value, mid.low, mid.high, mid.coverage, mid.n))
            for metric, mid in arm.metrics.items()
            if mid is not None and math.isfinite(mid.value)  # half of the runs may never reach a target
        ]
    return "".join(lines)


def arms_frame(all_arms: Iterable[Arm], settings: Sequence[str]) -> "pd.DataFrame":
    """Return `arms.csv` as a table."""
    import pandas as pd

    return pd.read_csv(StringIO(arms_csv(all_arms, settings)), dtype={"emulated": "string"})


def _settings(settings: Iterable[str], there: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys((*LEADING, *settings)) if name not in (*there, "study")]


def defused(value: object) -> object:
    """Return a text so that no spreadsheet takes it for a formula; numbers stay numbers."""
    return _FORMULA.sub(r"\1'", value) if isinstance(value, str) else value
