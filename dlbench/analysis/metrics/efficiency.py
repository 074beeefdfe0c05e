"""Efficiency of single runs: each run's rate of one worker against its base line, so that repeats can be seen apart.

`dlbench.analysis.arms.Arm.efficiency` is that of an arm, with an interval; the median over its runs here is the same.
"""

from statistics import median
from typing import TYPE_CHECKING

from dlbench.analysis.arms import RATE, base_line_key, equal_columns, is_alone, records
from dlbench.records.outcome import Status

if TYPE_CHECKING:
    import pandas as pd


def efficiencies(runs: "pd.DataFrame") -> "pd.Series[float]":
    """Return each run's rate of one worker / median rate of its base line; NaN where either is unknown.

    A base line has no efficiency itself.

    Args:
        runs: Runs with the columns of `runs.csv`, of one or several studies.
    """
    import pandas as pd

    columns = ("study", "status", "emulated", "strategy", "workers", RATE, *equal_columns(runs.columns))
    rows = [{column: None, **row} for row in records(runs[list(columns)]) for column in (RATE,)]
    keys = [base_line_key(row, equal_columns(columns)) for row in rows]
    base: dict[object, list[float]] = {}
    for row, key in zip(rows, keys, strict=True):
        if is_alone(row) and row["status"] == Status.COMPLETED and row[RATE]:
            base.setdefault(key, []).append(row[RATE])
    medians = {key: median(rates) for key, rates in base.items()}
    found = [
        row[RATE] / medians[key]
        if key in medians and row[RATE] and row["status"] == Status.COMPLETED and not is_alone(row)
        else None
        for row, key in zip(rows, keys, strict=True)
    ]
    return pd.Series(found, index=runs.index, dtype="float64")
