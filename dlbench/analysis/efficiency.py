"""Efficiency of single runs: each run's rate of one worker against its base line, so that repeats can be seen apart.

Of an arm, `dlbench.analysis.arms` says it with an interval; the median over an arm's runs here is the same number.
"""

from typing import TYPE_CHECKING

from dlbench.analysis.arms import EQUAL, EQUAL_OPTIONS
from dlbench.analysis.groups import is_alone
from dlbench.records.outcome import Status

if TYPE_CHECKING:
    import pandas as pd

RATE = "samples_per_s_per_worker"
# Between the values of one key: no value of a setting holds it.
_BETWEEN = "\x1f"


def efficiencies(runs: "pd.DataFrame") -> "pd.Series[float]":
    """Return each run's rate of one worker / median rate of its base line; NaN where either is unknown.

    The base line of a run are the completed runs of one worker alone in its study that are its equals in all of
    `dlbench.analysis.arms.EQUAL` and in the options of model, data set and trainer; emulated and real runs are never
    compared. A base line has no efficiency itself.

    Args:
        runs: Runs with the columns of `runs.csv`, of one or several studies.
    """
    alone = is_alone(runs)
    is_known = (runs["status"] == Status.COMPLETED).astype(bool) & (runs[RATE] > 0).astype(bool)
    rates = runs[RATE].astype("float64").where(is_known)
    base = rates.where(alone).groupby(_equals(runs)).transform("median")
    return (rates / base).where(~alone)


def _equals(runs: "pd.DataFrame") -> "pd.Series[str]":
    """Return what a run has in common with its base line, as one text."""
    import pandas as pd

    names = ["study", *(name for name in runs.columns if name in EQUAL or name.startswith(EQUAL_OPTIONS))]
    emulated = runs["emulated"].fillna("").ne("").map(str).tolist()
    texts = [runs[name].astype("string").fillna("").tolist() for name in names]
    return pd.Series(list(map(_BETWEEN.join, zip(emulated, *texts, strict=True))), index=runs.index, dtype=object)
