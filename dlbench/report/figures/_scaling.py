"""What figures against workers share: weak and strong scaling apart, and who is a base line's equal."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from dlbench.analysis.arms import emulation, equal_columns
from dlbench.report.chart import Axis
from dlbench.report.figures._rows import by_scope
from dlbench.report.lines import Part, parts

if TYPE_CHECKING:
    import pandas as pd

WORKERS = Axis("workers", "log2")
# What `batch_scope` holds fixed, by the name that papers give the comparison.
SCALING = {"per-worker": "weak scaling", "global": "strong scaling"}
MEANINGS = {
    "per-worker": "Weak scaling: every worker keeps its batch.",
    "global": "Strong scaling: one batch is divided over the workers.",
}


def scaled(runs: "pd.DataFrame") -> Iterator[Part]:
    """Yield the runs that one base line fits: of one way of scaling, one task, and equal in what a base line shares."""
    for scope, rows in by_scope(runs):
        scaling = SCALING.get(scope, "")
        for part in parts(rows, x="workers", always=equal_settings(runs)):
            yield replace(part, title=", ".join(filter(None, (scaling, part.title))))


def equal_settings(runs: "pd.DataFrame") -> tuple[str, ...]:
    """Return the columns in which an arm and its base line are equal."""
    return equal_columns(runs.columns)


def meanings(runs: "pd.DataFrame") -> tuple[str, ...]:
    """Say what the batch was in the ways of scaling that occur."""
    scopes = set(runs["batch_scope"].dropna())
    return tuple(text for scope, text in MEANINGS.items() if scope in scopes)


def is_emulated(runs: "pd.DataFrame") -> "pd.Series[bool]":
    """Whether each run was not on representative hardware."""
    return runs["emulated"].fillna("") != ""


def reasons(runs: "pd.DataFrame") -> str:
    """Return all reasons why runs are emulated, joined by `;`; empty where none is."""
    return emulation(runs["emulated"].dropna())
