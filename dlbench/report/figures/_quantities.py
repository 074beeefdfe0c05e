"""Figures that show quantities of runs against batch size, workers, or whatever else varies: all of them are data.

`QuantityFigure` is one declaration, `_table.TABLE` holds them, and `QuantityFigure.chart` interprets each.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from dlbench.analysis.arms import equal_columns, option_columns
from dlbench.analysis.groups import SETTINGS, groups, is_alone
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, Role, Series
from dlbench.report.figures._places import Placed, against, placed, spread, with_categories
from dlbench.report.figures._rows import SEEN, UNEQUAL, is_completed, labels, sees_unequally
from dlbench.report.figures._shown import compares, in_chart, left_out_note, needs_two
from dlbench.report.figures._target import TARGET, ended, target_name
from dlbench.report.lines import parts, series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

# What is drawn beside the series of a panel, and notes on it: of the data, of what stands where, and of the series.
Reference = Callable[["ReportData", Placed, Panel], tuple[Sequence[Series], Iterable[str]]]


@dataclass(frozen=True)
class QuantityFigure:
    """A plugin: columns of runs, each against what varies, one line for each way to train.

    Attributes:
        doc: What `dlbench list figures` and the page say of it.
        ORDER: Its place in the report.
        title: Of what it is; `{target}` stands for the target that all runs had, or for the targets.
        shown: The vertical axis of each column.
        needs: What runs must have, for the reason why the figure is left out.
        rows: Returns the runs with these columns; raises `MissingRowsError` where there can be none.
        notes: Yields sentences for the details, of the data and of the runs that are shown.
        reference: Adds lines to a panel that has something to compare.
        values: Returns the series of one column in place of `lines.series`.
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
    rows: Callable[["ReportData"], "pd.DataFrame"]
    notes: Callable[["ReportData", "pd.DataFrame"], Iterable[str]]
    reference: Reference | None = None
    values: Callable[["ReportData", Placed, str], tuple[Series, ...]] | None = None
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
        import pandas as pd

        runs = self.rows(data)
        completed = runs[is_completed(runs)]
        unequal = SEEN in self.shown and sees_unequally(runs)
        columns = [name for name in self.shown if completed[name].notna().any() and (name != SEEN or unequal)]
        columns = columns or [name for name in self.shown if self.has_target]  # all runs may be late
        whole, runs = runs, runs[_needed(runs, columns)]  # a table is cut hundreds of times, as wide as it is
        targets = list(groups(runs, TARGET)) if self.has_target else [({}, runs)]
        only = target_name(targets[0][0]) if self.has_target and len(targets) == 1 else ""
        panels: list[Panel] = []
        rows_shown: list[pd.DataFrame] = []
        left_out: list[str] = []
        notes: list[str] = []
        for values, rows in targets:
            prefix = target_name(values) if values and not only else ""
            for one in self._placed(rows) if columns else ():
                title = ": ".join(filter(None, (prefix, one.part.title)))
                made = [self._panel(data, one, column, title) for column in columns]
                varied = [panel for panel in made if self._compares(panel, one)]
                for panel in varied:
                    lines, said = self.reference(data, one, panel) if self.reference else ((), ())
                    panels.append(replace(panel, series=(*panel.series, *lines)))
                    notes += said
                rows_shown += [one.part.runs] * bool(varied)
                left_out += [one.part.title] * (not varied)
        if not panels:
            raise self._lacking(completed, columns)
        shown = whole.loc[pd.concat(rows_shown).index.unique()].reset_index(drop=True)
        alone = "with one strategy only" if self.form == "cells" else "without a second arm"
        title = self.title.format(target=f"a {only}" if only else "the targets")
        return Chart(
            title=title if self.x else against(title, panels),
            panels=tuple(panels),
            columns=min(
                self.columns, len(columns) if len(columns) > 1 else 2 if len(panels) in (2, 4) else 3, len(panels)
            ),
            lead=UNEQUAL if unequal else "",
            notes=(*dict.fromkeys(notes), *self.notes(data, shown), *left_out_note(left_out, alone)),
            runs=in_chart(shown, [*columns, *(ended(name) for name in columns if self.has_target)]),
        )

    def _placed(self, runs: "pd.DataFrame") -> Iterator[Placed]:
        if self.x is None:
            yield from placed(runs, scaling=self.is_scaling, others=self.over_all)
        else:
            yield from (Placed(part, *self.x) for part in parts(runs, x=self.x[0]))

    def _panel(self, data: "ReportData", one: Placed, column: str, title: str) -> Panel:
        late = ended(column) if self.has_target else ""
        made = self.values(data, one, column) if self.values else series(one.part, one.x, column, late)
        if self.form == "cells":  # the base line is what the others are compared with: first
            rows = tuple(sorted(made, key=lambda line: line.role is not Role.BASE_LINE))
            return with_categories(Panel(title, one.axis, self.shown[column], rows, form="cells"))
        axis = spread(self.shown[column], made) if self.may_spread else self.shown[column]
        if self.may_spread and self.is_scaling and one.x == "workers":  # ideal lines are straight
            axis = replace(axis, scale="log10", low=None)
        return Panel(title, one.axis, axis, made)

    def _compares(self, panel: Panel, one: Placed) -> bool:
        if self.form == "lines":
            return compares(panel, self.least)
        rows = one.part.runs
        known = rows[is_completed(rows) & rows[list(self.shown)].notna().any(axis=1) & ~is_alone(rows)]
        return bool(known["strategy"].nunique() > 1)

    def _lacking(self, completed: "pd.DataFrame", columns: Sequence[str]) -> MissingRowsError:
        """Return the error that says which rows are missing."""
        known = completed[completed[list(columns)].notna().any(axis=1)] if columns else completed[:0]
        if completed.empty or len(known) or self.has_target:
            what = "two or more strategies" if self.form == "cells" else "two or more arms"
            names = labels(known) if self.form == "lines" else known[~is_alone(known)]["strategy"].dropna().tolist()
            return needs_two(f"completed runs of {what} with {self.needs}", list(dict.fromkeys(names)))
        return MissingRowsError(f"needs completed runs with {self.needs}")


def _needed(runs: "pd.DataFrame", columns: Sequence[str]) -> list[str]:
    """Return the columns that decide what shares a panel, what it is called, and what is shown of it."""
    of_runs = {
        "study",
        "run_id",
        "arm",
        "label",
        "status",
        "emulated",
        "baseline",
        "device_name",
        "flags",
        "arm_number",
    }
    sizes = {"batch_size_global", "batch_size_per_worker", "placement"}
    wanted = {
        *SETTINGS,
        *equal_columns(runs.columns),
        *option_columns(runs.columns),
        *TARGET,
        *of_runs,
        *sizes,
        *columns,
    }
    return [name for name in runs.columns if name in wanted or name.removesuffix(".ended") in columns]
