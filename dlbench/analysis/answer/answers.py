"""The answer that a report begins with: what to use, why, and what speaks against trusting it.

Sentences with numbers, made from rows alone. Nothing is recommended without its price, nothing is called better that
chance may have made so, and where no conclusion is possible, that is said.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from dlbench.analysis.answer.best import best
from dlbench.analysis.answer.comparison_group import ComparisonGroup, comparison_groups
from dlbench.analysis.answer.warnings import evidence, warnings
from dlbench.analysis.answer.workers import workers
from dlbench.analysis.formatting import Statement, counted
from dlbench.analysis.groups import Names, varying

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Statement", "answers"]

_ORDER = ("use", "why", "warning")


def answers(runs: "pd.DataFrame", names: Names = varying) -> tuple[Statement, ...]:
    """Return the statements of a report: first those on what to use, then why, then the warnings.

    Args:
        runs: The last attempt of each run, completed or not: columns of `runs.csv`, `arm` and `placement`.
        names: Returns the settings that names of arms state.
    """
    found = comparison_groups(runs, names)
    several = len(found) > 1
    doubts = [_led(one, group, several) for group in found for one in _emulation(group)]
    said = [_led(one, group, several) for group in found for one in _said_of(group)]
    if any(group.completed for group in found):
        said += evidence(found)
        doubts += warnings(found)
    else:
        doubts = [Statement("No run completed: no conclusion is possible.", "warning"), *doubts, *warnings(found)]
    # What is doubtful of all stands before what is doubtful of some.
    return tuple(sorted((*doubts, *said), key=lambda statement: _ORDER.index(statement.kind)))


def _led(statement: Statement, group: ComparisonGroup, is_one_of_several: bool) -> Statement:
    """Return a statement led by its group's name where there are others, and by that it is emulated."""
    emulated = "emulated" if group.emulated else ""
    lead = ", ".join(filter(None, (group.title if is_one_of_several else "", emulated)))
    return replace(statement, text=f"{lead}: {statement.text}") if lead else statement


def _emulation(group: ComparisonGroup) -> Iterator[Statement]:
    if group.emulated:
        yield Statement(f"This is not representative hardware ({group.emulated}); real devices may differ.", "warning")


def _said_of(group: ComparisonGroup) -> Iterator[Statement]:
    if not group.completed:
        runs = sum(len(arm.rows) for arm in group.arms)
        yield Statement(f"No run completed ({counted(runs, 'run')} tried): no conclusion is possible.", "warning")
        return
    yield from best(group)
    yield from workers(group)
