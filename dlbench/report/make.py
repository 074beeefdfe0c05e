"""Everything a report is made of, in one folder: figures, their tables, the page and its Markdown."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dlbench import plugins
from dlbench.analysis.answer import answers
from dlbench.errors import UserError
from dlbench.records import files
from dlbench.report import arms_table, draw, page, references, summary, table
from dlbench.report.caption import caption
from dlbench.report.chart import Chart, Lacking
from dlbench.report.evidence import Evidence
from dlbench.report.style import Style, style_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

# The folder of a study's own report, inside it.
FOLDER = "report"
PAGE = "report.html"
MARKDOWN = "report.md"
ARMS = "arms.csv"
FORMATS = ("png", "svg")


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


def make(evidence: Evidence, wish: Wish, say: Callable[[str], None] = lambda line: None) -> Made:
    """Write a report.

    Raises:
        UserError: There is no such figure, format or style, a figure that was asked for lacks rows, or the folder
            cannot be written.
    """
    style, names = style_of(wish.style), _names(wish)
    made = Made()
    figures = list(_figures(evidence, names, made))
    if wish.figures and made.left_out:
        name, reason = made.left_out[0]
        raise UserError(f"the figure {name} cannot be drawn: {reason}")
    try:
        wish.output.mkdir(parents=True, exist_ok=True)
        for figure in figures:
            say(figure.name)
            _write_figure(figure, wish, style, made)
        if not wish.figures:
            _write_page(evidence, figures, wish, made)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror or error}", where=str(wish.output)) from error
    return made


def picture(evidence: Evidence, name: str, style: str) -> "MatplotlibFigure":
    """Return one figure as matplotlib's.

    Raises:
        UserError: There is no such figure or style, or rows are lacking.
    """
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


def _write_figure(figure: Figure, wish: Wish, style: Style, made: Made) -> None:
    paths = [wish.output / f"{figure.name}.{suffix}" for suffix in wish.formats]
    draw.save_all(figure.chart, figure.caption, paths, style)
    made.written += paths
    path = wish.output / f"{figure.name}.csv"
    table.write(path, figure.name, figure.chart)
    made.written.append(path)


def _write_page(evidence: Evidence, figures: Sequence[Figure], wish: Wish, made: Made) -> None:
    inline = style_of("page")
    drawn = tuple(
        page.Drawn(
            name=figure.name,
            doc=figure.doc,
            title=figure.chart.title,
            svg=draw.svg(figure.chart, inline, figure.name),
            caption=figure.caption,
            files=tuple(f"{figure.name}.{suffix}" for suffix in (*wish.formats, "csv")),
        )
        for figure in figures
    )
    content = page.Content(
        evidence=evidence,
        statements=answers(evidence.runs),
        judged=references.verdicts(evidence),
        drawn=drawn,
        left_out=tuple(made.left_out),
    )
    texts = {PAGE: page.render(content), MARKDOWN: summary.markdown(content), ARMS: arms_table.text(evidence)}
    for name, text in texts.items():
        files.write_text(wish.output / name, text)
        made.written.append(wish.output / name)
