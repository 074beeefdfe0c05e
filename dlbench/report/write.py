"""Write a report into one folder: figures, their tables, the page and its Markdown.

The charts of a large report show some of its arms: hundreds of them cannot be told apart, and take long to draw.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbench import plugins
from dlbench.analysis.arms import METRICS, Arm
from dlbench.analysis.formatting import listed
from dlbench.analysis.groups import is_shared, place_of, varying, ways
from dlbench.analysis.summary_tables import ARMS, SUMMARY, arms_csv, summary_csv
from dlbench.errors import UserError, unwritable
from dlbench.records import files
from dlbench.report.answers import answers_of, verdicts
from dlbench.report.caption import caption
from dlbench.report.chart import Chart, Hues, MissingRowsError, chart_csv
from dlbench.report.data import ReportData
from dlbench.report.page import render as page
from dlbench.report.page.content import Content, RenderedFigure
from dlbench.report.rendering.pool import RenderPool, render
from dlbench.scenario.metrics import BUILT_IN

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

# The folder of a study's own report, inside it.
FOLDER = "report"
PAGE = "report.html"
MARKDOWN = "report.md"
FORMATS = ("png", "svg")
# Of more arms than this no figure sums up all: each arm takes a moment.
MOST_ARMS = 2_000
# Charts of more arms than this are thinned.
MOST_CHARTED = 48
# This many values of a setting still make a curve: of more, as many stay.
FEW = 3


@dataclass(frozen=True)
class ReportRequest:
    """What to write, and where.

    Attributes:
        output: The folder; made where it is absent, files of the same names are replaced, others stay.
        figures: Names of figures; all, with page and summary, where it is empty.
        formats: Image formats, among FORMATS.
        style: Name of the images' style: see `dlbench.report.rendering.style`.
    """

    output: Path
    figures: tuple[str, ...] = ()
    formats: tuple[str, ...] = FORMATS
    style: str = "light"


@dataclass
class ReportFiles:
    """Files in the order of writing, and figures that were left out, with the reason."""

    written: list[Path] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)


def write_report(
    data: ReportData,
    request: ReportRequest,
    pool: RenderPool | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> ReportFiles:
    """Write a report.

    Args:
        data: The rows.
        request: What is asked for.
        pool: Renders the figures; default: this process does.
        progress: Called with the number of figures that are drawn, and of all that can be.

    Raises:
        UserError: There is no such figure, format or style, a figure that was asked for lacks rows, or the folder
            cannot be written.
    """
    from dlbench.report.rendering.style import style_of

    style_of(request.style)
    names, report_files, (charted, note), pool = _names(request), ReportFiles(), thinned(data), pool or RenderPool(0)
    progress(0, len(names))
    figures: Iterable[tuple[RenderedFigure, Chart]] = _figures(data, charted, names, request, report_files)
    if request.figures:  # before anything is written
        figures = list(figures)
    try:
        files.make_folder(request.output)
        # While figures are rendered, the charts of others are made, and then the answer.
        pending, drawn, content = [], [], None
        for figure, chart in figures:
            pictures = [request.output / f"{figure.name}.{suffix}" for suffix in request.formats]
            page_id = "" if request.figures else figure.name
            task = partial(render, chart, request.style, pictures, figure.caption, page_id)
            pending.append((figure, chart, pool.submit(task)))
        if not request.figures:
            content = Content(data, answers_of(data).answers, verdicts(data), (), tuple(report_files.left_out), note)
        for done, (figure, chart, element) in enumerate(pending):
            progress(done, len(pending))
            drawn.append(replace(figure, svg=element()))
            files.write_text(request.output / f"{figure.name}.csv", chart_csv(figure.name, chart))
            report_files.written += [request.output / file for file in figure.files]
        progress(len(pending), len(pending))
        if content:
            content = replace(content, drawn=tuple(drawn))
            texts = {PAGE: page.html(content), MARKDOWN: page.markdown(content)}
            texts |= {ARMS: arms_csv(data.arms, data.settings), SUMMARY: summary_csv(data.runs, data.settings)}
            for name, text in texts.items():
                files.write_text(request.output / name, text)
                report_files.written.append(request.output / name)
    except OSError as error:
        raise unwritable(error, request.output) from error
    return report_files


def picture(data: ReportData, name: str, style: str) -> "MatplotlibFigure":
    """Return one figure as matplotlib's.

    Raises:
        UserError: There is no such figure or style, or rows are lacking.
    """
    from dlbench.report.rendering import figure
    from dlbench.report.rendering.style import style_of

    request = ReportRequest(Path(), (name,))
    ((_, chart),) = _figures(data, thinned(data)[0], _names(request), request, ReportFiles())
    return figure.picture(chart, style_of(style))


def _names(request: ReportRequest) -> list[str]:
    """Return the names of the figures in the report's order."""
    unknown = [name for name in request.formats if name not in FORMATS]
    if unknown or not request.formats:
        raise UserError(f"there is no format {', '.join(unknown) or 'at all'}; there are: {', '.join(FORMATS)}")
    asked = [plugins.canonical(name) for name in request.figures] or plugins.names("figures")
    loaded = {name: plugins.load("figures", name) for name in asked}
    return sorted(loaded, key=lambda name: (loaded[name].get("ORDER", 1000), name))


def _figures(
    whole: ReportData, thin: ReportData, names: Iterable[str], request: ReportRequest, report_files: ReportFiles
) -> Iterator[tuple[RenderedFigure, Chart]]:
    """Yield the figures before they are rendered, with their charts; note those that cannot be drawn.

    Raises:
        UserError: One that was asked for cannot be drawn.
    """
    # Every way to train has the colour that it has in the chart of training time, which has them all: so a figure that
    # is asked for alone has the same colours as on the page.
    hues = Hues()
    with contextlib.suppress(MissingRowsError):
        hues.applied(plugins.load("figures", "training_time").get("chart")(thin))
    for name in names:
        plugin = plugins.load("figures", name)
        data = whole if plugin.get("ALL_ARMS", False) and len(whole.arms) <= MOST_ARMS else thin
        try:
            chart = hues.applied(plugin.get("chart")(data))
        except MissingRowsError as lacking:
            if request.figures:
                raise UserError(f"the figure {name} cannot be drawn: {lacking}") from lacking
            report_files.left_out.append((name, str(lacking)))
            continue
        text, details = caption(chart, data)
        files = tuple(f"{name}.{suffix}" for suffix in (*request.formats, "csv"))
        yield RenderedFigure(name, plugin.doc, chart.title, "", text, files, details), chart


def thinned(data: ReportData) -> tuple[ReportData, str]:
    """Return the arms that charts show, and the sentence that says what they leave out; empty where they show all.

    Of large grids they show whole ones with fewer values of the settings that have the most: evenly chosen, those of
    the best arms among them. Base lines stay with the arms they belong to.
    """
    kept: Sequence[Arm] = data.arms
    if len(kept) <= MOST_CHARTED:
        return data, ""
    best, cut = _best(data.arms), dict[str, int]()
    while len(kept) > MOST_CHARTED and (key := _longest(kept)):
        values = _in_order(kept, key)
        cut.setdefault(key, len(values))
        number = max(FEW if len(values) > FEW else 1, len(values) * MOST_CHARTED // len(kept))
        chosen = _chosen(values, number, [arm.get(key) for arm in best])
        spared = set(kept) - set(ways(kept) or kept) if not is_shared(key) else set()
        kept = [arm for arm in kept if arm.get(key) in chosen or arm in spared]
    if len(kept) > MOST_CHARTED:  # they differ in nothing that is known
        kept = [kept[place] for place in _evenly(len(kept), MOST_CHARTED)]
    settings = (f"{key} at {len(_in_order(kept, key))} of {count} values" for key, count in cut.items())
    what = listed(settings) or "evenly chosen"
    note = f"Charts show {len(kept)} of {len(data.arms):,} arms ({what}), the best among them; `arms.csv` has all."
    return data.of(kept), note


def _best(arms: Iterable[Arm]) -> list[Arm]:
    """Return the best arm by each metric that any has."""
    kept = []
    for metric in METRICS:
        sign = -1 if BUILT_IN[metric].is_higher_better else 1
        if values := {arm: sign * spread.value for arm in arms if (spread := arm.metrics[metric])}:
            kept.append(min(values, key=values.__getitem__))
    return kept


def _longest(arms: Sequence[Arm]) -> str:
    """Return the setting with the most values, of equals that which readers ask for last; empty where none has two."""
    numbers = {key: number for key in reversed(varying(arms)) if (number := len(_in_order(arms, key))) > 1}
    return max(numbers, key=numbers.__getitem__, default="")


def _in_order(arms: Sequence[Arm], key: str) -> list[Any]:
    return sorted({arm.get(key) for arm in ways(arms) or arms}, key=place_of)


def _chosen(values: Sequence[Any], number: int, best: Sequence[Any]) -> list[Any]:
    """Return this many values, fewer than there are: the best ones, first and last, and others evenly chosen."""
    even = [values[place] for place in _evenly(len(values), number)]
    order = dict.fromkeys([*(value for value in best if value in values), even[0], even[-1], *even])
    return list(order)[: min(number, len(values) - 1)]


def _evenly(count: int, number: int) -> list[int]:
    """Return this many places of a list, the first and the last among them."""
    return [0] if number == 1 else sorted({round(place * (count - 1) / (number - 1)) for place in range(number)})
