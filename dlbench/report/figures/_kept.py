"""Panels in which something varies along x and the runs in them; parts in which nothing does are named."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlbench.report.chart import Lacking, Panel
from dlbench.report.lines import Part

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Kept:
    """What a chart shows.

    Attributes:
        panels: Those in which something varies.
        runs: The runs of their parts, each once.
        left_out: Titles of the parts in which nothing does.
    """

    panels: tuple[Panel, ...]
    runs: "pd.DataFrame"
    left_out: tuple[str, ...]


def kept(candidates: Iterable[tuple[Part, Sequence[Panel]]], lacking: Lacking) -> Kept:
    """Sort parts with their panels into what is shown and what is not.

    Raises:
        Lacking: Nothing varies in any panel; it is `lacking`.
    """
    import pandas as pd

    panels: list[Panel] = []
    shown: list[pd.DataFrame] = []
    left_out: list[str] = []
    for part, made in candidates:
        varied = [panel for panel in made if num_known(panel) > 1]
        panels += varied
        if varied:
            shown.append(part.runs)
        else:
            left_out.append(part.title)
    if not panels:
        raise lacking
    runs = pd.concat(shown).drop_duplicates(["study", "run_id"]).reset_index(drop=True)
    return Kept(tuple(panels), runs, tuple(left_out))


def num_known(panel: Panel) -> int:
    """Return at how many places along x a completed run has a value, be it in one series or in several."""
    return len({mark.x for one in panel.series for mark in one.marks if mark.points or mark.ended})
