"""Figures that show quantities of runs against batch size, workers, or whatever else varies: all of them are data.

`QuantityFigure` is one declaration, `_table.TABLE` holds them, and `QuantityFigure.chart` interprets each.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dlbench.analysis.arms import Arm
from dlbench.analysis.formatting import joined, listed
from dlbench.analysis.groups import groups, values_of
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, Role, Series
from dlbench.report.data import ReportData
from dlbench.report.figures._places import placed, spread, with_categories
from dlbench.report.figures._shown import (
    SEEN,
    UNEQUAL,
    ends_apart,
    in_chart,
    label,
    learning_rates,
    left_out_note,
    sees_unequally,
    with_faults,
)
from dlbench.report.figures._target import TARGET, target_name
from dlbench.report.lines import Part, ended, series
from dlbench.scenario.metrics import SCORE_COLUMNS


def no_notes(every: Sequence[Arm], shown: Sequence[Arm]) -> Iterable[str]:
    """Return no further notes."""
    return ()


def as_it_is(part: Part, panel: Panel) -> tuple[Panel, Iterable[str]]:
    """Return a panel that is compared with nothing else."""
    return panel, ()


@dataclass(frozen=True)
class QuantityFigure:
    """A plugin: columns of arms, each against what varies, one line for each way to train.

    Attributes:
        doc: What `dlbench list figures` and the page say of it.
        ORDER: Its place in the report.
        title: Of what it is, and against what (`{x}`). Where it has `{target}`, each target has its own panels.
        shown: The vertical axis of each column.
        needs: What runs must have, for the reason why the figure is left out.
        definition: The sentence for the details that says what is shown.
        notes: Yields further ones, of all arms and of those that are shown.
        arms: Returns the arms with these columns; raises `MissingRowsError` where there can be none.
        places: Yields the parts of these arms that may share a panel, and what stands on x.
        reference: Returns a panel that has something to compare with what it is compared with, and notes on that.
        form: Of the panels. In `cells` each part has two strategies.
        least: How many marks make a panel worth showing.
        ALL_ARMS: Whether it sums up all arms, where other charts show some.
    """

    doc: str
    ORDER: int
    title: str
    shown: Mapping[str, Axis]
    needs: str
    definition: str = ""
    notes: Callable[[Sequence[Arm], Sequence[Arm]], Iterable[str]] = no_notes
    arms: Callable[[Sequence[Arm]], Sequence[Arm]] = list
    places: Callable[[Sequence[Arm]], Iterable[tuple[Part, Axis]]] = placed
    reference: Callable[[Part, Panel], tuple[Panel, Iterable[str]]] = as_it_is
    form: Literal["lines", "cells"] = "lines"
    least: int = 2
    ALL_ARMS: bool = False
    OPTIONS: type[Options] = Options

    def chart(self, data: ReportData) -> Chart:
        """Return the panels in which arms can be compared.

        Raises:
            MissingRowsError: There is no such panel, or no run has any of the columns.
        """
        is_of_training = SEEN in self.shown
        arms = self.arms(with_faults(data) if is_of_training else data.arms)
        unequal = is_of_training and sees_unequally(arms)
        columns = [name for name in self.shown if self._names(arms, [name]) and (name != SEEN or unequal)]
        by_target = list(groups(arms, TARGET if "{target}" in self.title else ()))
        shown: dict[tuple[str | None, str], Arm] = {}
        panels, left_out, notes = list[Panel](), list[str](), list[str]()
        for target, aimed in by_target if columns else ():
            prefix = target_name(target) if len(by_target) > 1 else ""
            for part, x in self.places(aimed):
                title = joined(prefix, part.title, sep=": ")
                # Maps beside each other have the same rows.
                others = columns if self.form == "cells" else ()
                every = [self._panel(title, x, column, series(part, column, *others)) for column in columns]
                comparable = [panel for panel in every if self._compares(panel, part)]
                for panel in comparable:
                    compared, told = self.reference(part, panel)
                    panels.append(compared)
                    notes += told
                if comparable:
                    shown |= {(arm.study, arm.name): arm for arm in part.arms}
                else:
                    left_out.append(part.title)
        if not panels:
            what = "strategies" if self.form == "cells" else "arms"
            names = listed(self._names(arms, columns))
            of_two = f", of two or more {what} that are equal in all else; those with a value: {names}" if names else ""
            raise MissingRowsError(f"needs completed runs with {self.needs}{of_two}")
        # Without units, and without whose batch it is.
        against = dict.fromkeys(panel.x.name.partition(" of ")[0] for panel in panels)
        goal = "the targets" if len(by_target) > 1 else f"a {target_name(target)}" if target else ""
        # What is shown depends on the learning rates.
        depends = any(name in SCORE_COLUMNS or "target" in name or name == "updates" for name in self.shown)
        return Chart(
            title=self.title.format(target=goal, x=" and by ".join(against)),
            panels=tuple(panels),
            columns=2 if (len(columns) if len(columns) > 1 else len(panels)) in (2, 4) else 3,
            lead=joined(
                unequal and UNEQUAL,
                is_of_training and ends_apart(shown.values(), data.metrics),
                depends and learning_rates(list(shown.values())),
                sep=" ",
            ),
            notes=(
                *dict.fromkeys(notes),
                *[self.definition] * bool(self.definition),
                *self.notes(data.arms, list(shown.values())),
                *left_out_note(left_out, f"with{' one strategy only' if self.form == 'cells' else 'out a second arm'}"),
            ),
            runs=in_chart(shown.values(), [*columns, *map(ended, columns)]),
        )

    def _panel(self, title: str, x: Axis, column: str, lines: tuple[Series, ...]) -> Panel:
        y = self.shown[column]
        if self.form == "cells":  # the base line is what the others are compared with: first
            rows = tuple(sorted(lines, key=lambda line: line.role is not Role.BASE_LINE))
            return with_categories(Panel(title, x, y, rows, form="cells"))
        return Panel(title, x, spread(y, lines), lines)

    def _compares(self, panel: Panel, part: Part) -> bool:
        """Whether a panel has marks of runs to compare, emulated ones apart; in `cells`, of two strategies."""
        marks = Counter(
            bool(curve.emulated) for curve in panel.series for mark in curve.marks if mark.points or mark.ended
        )
        if self.form == "cells":
            return bool(marks) and len(self._names(part.arms, self.shown)) > 1
        return max(marks.values(), default=0) >= self.least

    def _names(self, arms: Iterable[Arm], columns: Iterable[str]) -> list[str]:
        """Return the labels of the arms that have a value or ended before it; in `cells` their strategies."""
        names = [name for column in columns for name in (column, ended(column))]
        valued = [arm for arm in arms if any(map(arm.values, names))]
        if self.form == "cells":
            return values_of((arm for arm in valued if not arm.is_alone), "strategy")
        return list(dict.fromkeys(map(label, valued)))
