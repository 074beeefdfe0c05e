"""Write a report into one folder: figures, their tables, the page and its Markdown."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dlbench import plugins
from dlbench.analysis.answer.answer import Doubt
from dlbench.analysis.arms import records
from dlbench.analysis.summary_tables import ARMS, SUMMARY, arm_table
from dlbench.analysis.summary_tables import summary as run_summary
from dlbench.errors import UserError, unwritable
from dlbench.records import files
from dlbench.report import references, summary, table
from dlbench.report.answers import answers_of, metrics_of
from dlbench.report.caption import Caption, caption
from dlbench.report.chart import Chart, Hues, MissingRowsError
from dlbench.report.data import ReportData
from dlbench.report.page import html
from dlbench.report.page.content import Content, RenderedFigure
from dlbench.report.page.machines import unsteady
from dlbench.report.rendering.pool import RenderPool, Task
from dlbench.report.thinning import takes_all, thinned

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

# The folder of a study's own report, inside it.
FOLDER = "report"
PAGE = "report.html"
MARKDOWN = "report.md"
FORMATS = ("png", "svg")
# Of what was seen of a machine before and after a study alone.
DISTURBED = 40


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


@dataclass(frozen=True)
class Figure:
    """A figure of this report: its plugin's name and line, its chart and caption."""

    name: str
    doc: str
    chart: Chart
    caption: Caption


def write_report(
    data: ReportData,
    request: ReportRequest,
    pool: RenderPool | None = None,
    progress: Callable[[int, int], None] | None = None,
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
    names, made, charted = _names(request), ReportFiles(), thinned(data)
    report_progress = progress or (lambda done, total: None)
    report_progress(0, len(names))
    figures = _figures(data, charted.data, names, made)
    if request.figures:
        figures = iter(list(figures))
        if made.left_out:
            name, reason = made.left_out[0]
            raise UserError(f"the figure {name} cannot be drawn: {reason}")
    try:
        files.make_folder(request.output)
        # While figures are rendered, the charts of others are made, and then the answer.
        pending = [(figure, _start(figure, request, pool or RenderPool(0))) for figure in figures]
        content = None if request.figures else _content(data, charted.note, made)
        shown = []
        for done, (figure, element) in enumerate(pending):
            report_progress(done, len(pending))
            shown.append(_shown(figure, request, element()))
            _write_table(figure, request, made)
        report_progress(len(pending), len(pending))
        if content is not None:
            _write_page(replace(content, drawn=tuple(shown)), request, made)
    except OSError as error:
        raise unwritable(error, request.output) from error
    return made


def picture(data: ReportData, name: str, style: str) -> "MatplotlibFigure":
    """Return one figure as matplotlib's.

    Raises:
        UserError: There is no such figure or style, or rows are lacking.
    """
    from dlbench.report.rendering import figure
    from dlbench.report.rendering.style import style_of

    plugin = plugins.load("figures", plugins.canonical(name))
    thin = thinned(data).data
    shown = data if takes_all(plugin, data) else thin
    try:
        return figure.picture(_hues(thin).applied(plugin.get("chart")(shown)), style_of(style))
    except MissingRowsError as lacking:
        raise UserError(f"the figure {name} cannot be drawn: {lacking}") from lacking


def _hues(data: ReportData) -> Hues:
    """Return colours in which every way to train has its own: that of the chart of training time, which has them all.

    So a figure that is asked for alone has the same colours as on the page.
    """
    hues = Hues()
    with contextlib.suppress(MissingRowsError):
        hues.applied(plugins.load("figures", "training_time").get("chart")(data))
    return hues


def _names(request: ReportRequest) -> list[str]:
    """Return the names of the figures in the report's order."""
    unknown = [name for name in request.formats if name not in FORMATS]
    if unknown or not request.formats:
        raise UserError(f"there is no format {', '.join(unknown) or 'at all'}; there are: {', '.join(FORMATS)}")
    asked = [plugins.canonical(name) for name in request.figures] or plugins.names("figures")
    loaded = {name: plugins.load("figures", name) for name in asked}
    return sorted(loaded, key=lambda name: (loaded[name].get("ORDER", 1000), name))


def _figures(whole: ReportData, thin: ReportData, names: Iterable[str], made: ReportFiles) -> Iterator[Figure]:
    hues = _hues(thin)
    for name in names:
        plugin = plugins.load("figures", name)
        data = whole if takes_all(plugin, whole) else thin
        try:
            chart = hues.applied(plugin.get("chart")(data))
        except MissingRowsError as lacking:
            made.left_out.append((name, str(lacking)))
            continue
        yield Figure(name, plugin.doc, chart, caption(chart, data))


def _start(figure: Figure, request: ReportRequest, pool: RenderPool) -> Callable[[], str]:
    """Begin to render a figure into its files, and as an element of the page where there is one."""
    paths, has_page = _pictures(figure, request), not request.figures
    return pool.submit(Task(figure.name, figure.chart, request.style, paths, figure.caption.text, has_page))


def _pictures(figure: Figure, request: ReportRequest) -> tuple[Path, ...]:
    return tuple(request.output / f"{figure.name}.{suffix}" for suffix in request.formats)


def _write_table(figure: Figure, request: ReportRequest, made: ReportFiles) -> None:
    """Write the numbers of a figure that is drawn, and note all its files."""
    path = request.output / f"{figure.name}.csv"
    table.write(path, figure.name, figure.chart)
    made.written += [*_pictures(figure, request), path]


def _content(data: ReportData, thinning: str, made: ReportFiles) -> Content:
    """Return the page but for its figures."""
    return Content(
        data=data,
        answers=answers_of(data).answers,
        metrics=metrics_of(data),
        disturbed=tuple(Doubt(text=text, weight=DISTURBED) for text in unsteady(data)),
        judged=references.verdicts(data),
        left_out=tuple(made.left_out),
        thinning=thinning,
    )


def _shown(figure: Figure, request: ReportRequest, svg: str) -> RenderedFigure:
    return RenderedFigure(
        name=figure.name,
        doc=figure.doc,
        title=figure.chart.title,
        svg=svg,
        caption=figure.caption.text,
        details=figure.caption.details,
        files=tuple(f"{figure.name}.{suffix}" for suffix in (*request.formats, "csv")),
    )


def _write_page(content: Content, request: ReportRequest, made: ReportFiles) -> None:
    data = content.data
    texts = {
        PAGE: html.render(content),
        MARKDOWN: summary.markdown(content),
        ARMS: arm_table(data.arms, data.settings),
        SUMMARY: run_summary(records(data.runs), data.settings),
    }
    for name, text in texts.items():
        files.write_text(request.output / name, text)
        made.written.append(request.output / name)
