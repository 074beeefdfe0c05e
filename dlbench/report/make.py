"""Everything a report is made of, in one folder: figures, their tables, the page and its Markdown."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dlbench import plugins
from dlbench.analysis.answer import Statement, answers
from dlbench.errors import UserError
from dlbench.records import files
from dlbench.report import arms_table, page, references, summary, table
from dlbench.report.caption import caption
from dlbench.report.chart import Chart, Lacking
from dlbench.report.evidence import Evidence
from dlbench.report.machines import unsteady
from dlbench.report.pen import Result, Task
from dlbench.report.pens import Pens, count_for
from dlbench.report.style import style_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

# The folder of a study's own report, inside it.
FOLDER = "report"
PAGE = "report.html"
MARKDOWN = "report.md"
ARMS = "arms.csv"
FORMATS = ("png", "svg")
PAGE_STYLE = "page"


@dataclass(frozen=True)
class Wish:
    """What is asked for.

    Attributes:
        output: The folder; made where it is absent, files of the same names are replaced, others stay.
        figures: Names of figures; all, with page and summary, where it is empty.
        formats: Of the pictures, among FORMATS.
        style: Of the pictures: see `dlbench.report.style`.
    """

    output: Path
    figures: tuple[str, ...] = ()
    formats: tuple[str, ...] = FORMATS
    style: str = "light"


@dataclass
class Made:
    """What was made: files in the order they were written, and figures that lack rows, with the reason."""

    written: list[Path] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Figure:
    """A figure of this report: its plugin's name and line, its chart and caption."""

    name: str
    doc: str
    chart: Chart
    caption: str


@dataclass(frozen=True)
class Begun:
    """A figure that is being drawn: into its files, and as an element of the page where there is one."""

    figure: Figure
    files: Future[Result]
    element: Future[Result] | None


def make(evidence: Evidence, wish: Wish, pens: Pens | None = None) -> Made:
    """Write a report.

    Args:
        evidence: The rows.
        wish: What is asked for.
        pens: Who draws, already at the ready; default: processes of its own.

    Raises:
        UserError: There is no such figure, format or style, a figure that was asked for lacks rows, or the folder
            cannot be written.
    """
    style_of(wish.style)
    names, made = _names(wish), Made()
    figures = _figures(evidence, names, made)
    if wish.figures:
        figures = iter(list(figures))
        if made.left_out:
            name, reason = made.left_out[0]
            raise UserError(f"the figure {name} cannot be drawn: {reason}")
    try:
        wish.output.mkdir(parents=True, exist_ok=True)
        with Pens(count_for(wish.figures)) if pens is None else nullcontext(pens) as ready:
            # While figures are drawn, the charts of others are made, and then the answer.
            drawn = [_begun(figure, wish, ready) for figure in figures]
            content = None if wish.figures else _content(evidence, made)
            for one in drawn:
                one.files.result().get()
                _write_table(one.figure, wish, made)
            if content is not None:
                shown = tuple(_shown(one.figure, wish, one.element.result().get()) for one in drawn if one.element)
                _write_page(replace(content, drawn=shown), wish, made)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror or error}", where=str(wish.output)) from error
    return made


def picture(evidence: Evidence, name: str, style: str) -> "MatplotlibFigure":
    """Return one figure as matplotlib's.

    Raises:
        UserError: There is no such figure or style, or rows are lacking.
    """
    from dlbench.report import draw

    plugin = plugins.load("figures", plugins.canonical(name))
    try:
        return draw.picture(plugin.get("chart")(evidence), style_of(style))
    except Lacking as lacking:
        raise UserError(f"the figure {name} cannot be drawn: {lacking}") from lacking


def _names(wish: Wish) -> list[str]:
    """Return the names of the figures in the report's order."""
    unknown = [name for name in wish.formats if name not in FORMATS]
    if unknown or not wish.formats:
        raise UserError(f"there is no format {', '.join(unknown) or 'at all'}; there are: {', '.join(FORMATS)}")
    asked = [plugins.canonical(name) for name in wish.figures] or plugins.names("figures")
    loaded = {name: plugins.load("figures", name) for name in asked}
    return sorted(loaded, key=lambda name: (loaded[name].get("ORDER", 1000), name))


def _figures(evidence: Evidence, names: Iterable[str], made: Made) -> Iterator[Figure]:
    for name in names:
        plugin = plugins.load("figures", name)
        try:
            chart = plugin.get("chart")(evidence)
        except Lacking as lacking:
            made.left_out.append((name, str(lacking)))
            continue
        yield Figure(name, plugin.doc, chart, caption(chart, evidence))


def _begun(figure: Figure, wish: Wish, pens: Pens) -> Begun:
    pictures = Task(figure.name, figure.chart, wish.style, _pictures(figure, wish), figure.caption)
    element = None if wish.figures else pens.draw(Task(figure.name, figure.chart, PAGE_STYLE))
    return Begun(figure, pens.draw(pictures), element)


def _pictures(figure: Figure, wish: Wish) -> tuple[Path, ...]:
    return tuple(wish.output / f"{figure.name}.{suffix}" for suffix in wish.formats)


def _write_table(figure: Figure, wish: Wish, made: Made) -> None:
    """Write the numbers of a figure that is drawn, and note all its files."""
    path = wish.output / f"{figure.name}.csv"
    table.write(path, figure.name, figure.chart)
    made.written += [*_pictures(figure, wish), path]


def _content(evidence: Evidence, made: Made) -> page.Content:
    """Return the page but for its figures."""
    return page.Content(
        evidence=evidence,
        statements=(*answers(evidence.runs), *(Statement(text, "doubt") for text in unsteady(evidence))),
        judged=references.verdicts(evidence),
        left_out=tuple(made.left_out),
    )


def _shown(figure: Figure, wish: Wish, svg: str) -> page.Drawn:
    return page.Drawn(
        name=figure.name,
        doc=figure.doc,
        title=figure.chart.title,
        svg=svg,
        caption=figure.caption,
        files=tuple(f"{figure.name}.{suffix}" for suffix in (*wish.formats, "csv")),
    )


def _write_page(content: page.Content, wish: Wish, made: Made) -> None:
    texts = {PAGE: page.render(content), MARKDOWN: summary.markdown(content), ARMS: arms_table.text(content.evidence)}
    for name, text in texts.items():
        files.write_text(wish.output / name, text)
        made.written.append(wish.output / name)
