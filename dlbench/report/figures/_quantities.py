"""Figures that show quantities of runs against batch size, workers, or whatever else varies: all of them are data.

`QuantityFigure` is one declaration, `_table.TABLE` holds them, and `QuantityFigure.chart` interprets each.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from dlbench.analysis.arms import Arm
from dlbench.analysis.groups import groups, values_of
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, Role, Series
from dlbench.report.figures._places import Placed, against, placed, spread, with_categories
from dlbench.report.figures._shown import (
    SEEN,
    UNEQUAL,
    compares,
    in_chart,
    label,
    left_out_note,
    needs_two,
    sees_unequally,
)
from dlbench.report.figures._target import TARGET, target_name
from dlbench.report.lines import ended, parts, series

if TYPE_CHECKING:
    from dlbench.report.data import ReportData

# Returns what is drawn beside the series of a panel, and notes on it.
Reference = Callable[[Placed, Panel], tuple[Sequence[Series], Iterable[str]]]


@dataclass(frozen=True)
class QuantityFigure:
    """A plugin: columns of arms, each against what varies, one line for each way to train.

    Attributes:
        doc: What `dlbench list figures` and the page say of it.
        ORDER: Its place in the report.
        title: Of what it is; `{target}` stands for the target that all runs had, or for the targets.
        shown: The vertical axis of each column.
        needs: What runs must have, for the reason why the figure is left out.
        arms: Returns the arms with these columns; raises `MissingRowsError` where there can be none.
        notes: Yields sentences for the details, of the data and of the arms that are shown.
        reference: Adds lines to a panel that has something to compare.
        x: The column that always stands on x, with its axis; else what varies does.
        over_all: Whether settings beside batch size and workers stand on x, too.
        is_scaling: Whether weak and strong scaling, and what no common base line fits, have panels of their own.
        has_target: Whether runs had a target: each target has panels of its own, late runs are `at least` values.
        may_spread: Whether axes of values that lie far apart are logarithmic.
        form: Of the panels. In `cells` each part has two strategies.
        least: So many marks make a panel worth showing.
        columns: Most panels in a row.
    """

    doc: str
    ORDER: int
    title: str
    shown: Mapping[str, Axis]
    needs: str
    arms: Callable[["ReportData"], Sequence[Arm]]
    notes: Callable[["ReportData", Sequence[Arm]], Iterable[str]]
    reference: Reference | None = None
    x: tuple[str, Axis] | None = None
    over_all: bool = False
    is_scaling: bool = False
    has_target: bool = False
    may_spread: bool = True
    form: Literal["lines", "cells"] = "lines"
    least: int = 2
    columns: int = 3
    OPTIONS: type[Options] = Options

    def chart(self, data: "ReportData") -> Chart:
        """Return the panels in which arms can be compared.

        Raises:
            MissingRowsError: There is no such panel, or no run has any of the columns.
        """
        arms = self.arms(data)
        unequal = SEEN in self.shown and sees_unequally(arms)
        columns = [name for name in self.shown if _known(arms, [name]) and (name != SEEN or unequal)]
        columns = columns or [name for name in self.shown if self.has_target]  # all runs may be late
        targets = list(groups(arms, TARGET if self.has_target else ()))
        only = target_name(targets[0][0]) if self.has_target and len(targets) == 1 else ""
        panels: list[Panel] = []
        names: set[tuple[str | None, str]] = set()
        left_out: list[str] = []
        notes: list[str] = []
        for values, aimed in targets if columns else ():
            prefix = target_name(values) if values and not only else ""
            for place in self._placed(aimed):
                title = ": ".join(filter(None, (prefix, place.part.title)))
                varied = [
                    panel for column in columns if self._compares(panel := self._panel(place, column, title), place)
                ]
                for panel in varied:
                    lines, told = self.reference(place, panel) if self.reference else ((), ())
                    panels.append(replace(panel, series=(*panel.series, *lines)))
                    notes += told
                if varied:
                    names |= {(arm.study, arm.name) for arm in place.part.arms}
                else:
                    left_out.append(place.part.title)
        if not panels:
            raise self._lacking(arms, columns)
        shown = [arm for arm in arms if (arm.study, arm.name) in names]
        alone = "with one strategy only" if self.form == "cells" else "without a second arm"
        title = self.title.format(target=f"a {only}" if only else "the targets")
        in_row = len(columns) if len(columns) > 1 else 2 if len(panels) in (2, 4) else 3
        return Chart(
            title=title if self.x else against(title, panels),
            panels=tuple(panels),
            columns=min(self.columns, in_row, len(panels)),
            lead=UNEQUAL if unequal else "",
            notes=(*dict.fromkeys(notes), *self.notes(data, shown), *left_out_note(left_out, alone)),
            runs=in_chart(shown, [*columns, *map(ended, columns)]),
        )

    def _placed(self, arms: Sequence[Arm]) -> Iterator[Placed]:
        if self.x is None:
            return placed(arms, scaling=self.is_scaling, others=self.over_all)
        x, axis = self.x
        return (Placed(part, x, axis) for part in parts(arms, x=x))

    def _panel(self, place: Placed, column: str, title: str) -> Panel:
        lines, axis = series(place.part, place.x, column), self.shown[column]
        if self.form == "cells":  # the base line is what the others are compared with: first
            rows = tuple(sorted(lines, key=lambda line: line.role is not Role.BASE_LINE))
            return with_categories(Panel(title, place.axis, axis, rows, form="cells"))
        if self.may_spread and self.is_scaling and place.x == "workers":  # ideal lines are straight
            axis = replace(axis, scale="log10", low=None)
        return Panel(title, place.axis, spread(axis, lines) if self.may_spread else axis, lines)

    def _compares(self, panel: Panel, place: Placed) -> bool:
        if self.form == "lines":
            return compares(panel, self.least)
        return len(_strategies(_known(place.part.arms, self.shown))) > 1

    def _lacking(self, arms: Sequence[Arm], columns: Sequence[str]) -> MissingRowsError:
        """Return the error that says which rows are missing."""
        known = _known(arms, columns)
        if known or self.has_target or not any(arm.completed for arm in arms):
            what = "two or more strategies" if self.form == "cells" else "two or more arms"
            names = _strategies(known) if self.form == "cells" else list(dict.fromkeys(map(label, known)))
            return needs_two(f"completed runs of {what} with {self.needs}", names)
        return MissingRowsError(f"needs completed runs with {self.needs}")


def _known(arms: Iterable[Arm], columns: Iterable[str]) -> list[Arm]:
    """Return the arms of which any completed run has one of the columns."""
    names = list(columns)
    return [arm for arm in arms if any(map(arm.values, names))]


def _strategies(arms: Iterable[Arm]) -> list[str]:
    return values_of((arm for arm in arms if not arm.is_alone), "strategy")
