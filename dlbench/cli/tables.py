"""Tables and durations as text: drawn by rich on a terminal, aligned with spaces in a pipe."""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from dlbench.errors import spelled

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dlbench.analysis.answer.answer import Answers
    from dlbench.scenario.metrics import Metric

Cells = Sequence[str]
# Letters before the text of an answer's line.
_LABEL = 10
# Wide enough for the table of arms where no terminal says how wide it is.
PLAIN_WIDTH = 200


def console() -> "Console":
    """Return what prints on standard output: with colours on a terminal, plain text elsewhere.

    It writes its own control sequences past `streams.PlainText`; those in the texts that it draws are spelled out.
    """
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

    class PlainConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            if isinstance(renderable, Text):  # before it is broken into lines
                renderable = renderable.copy()
                renderable.plain = spelled(renderable.plain)
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(spelled(segment.text), segment.style)

    stream = getattr(sys.stdout, "rich_proxied_file", sys.stdout)
    if sys.stdout.isatty():
        return PlainConsole(file=stream)
    return PlainConsole(file=stream, width=PLAIN_WIDTH, color_system=None, highlight=False)


def show(title: str, columns: Cells, rows: Sequence[Cells]) -> None:
    """Print a table: with lines and wrapping on a terminal, plain and whole where the output goes elsewhere."""
    if sys.stdout.isatty():
        console().print(drawn(title, columns, rows))
    else:
        click.echo(plain(columns, rows))


def plain(columns: Cells, rows: Sequence[Cells]) -> str:
    """Return a table as text, columns aligned by spaces."""
    from rich.cells import set_cell_size

    lines = [columns, *rows]
    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(set_cell_size, line, widths)).rstrip() for line in lines)


def answer_lines(found: "Answers", metrics: "Mapping[str, Metric]", screen: "Console") -> "Iterator[str]":
    """Yield answers: a heading and at most five lines each, no wider than a terminal.

    Doubts and commands that all of them share stand once, at the end.
    """
    from dlbench.analysis.answer.lines import heading, lines

    columns = screen.width if screen.is_terminal else None
    each = [lines(answer, metrics, columns and columns - _LABEL) for answer in found.answers]
    shared = [pair for pair in each[0] if all(pair in other for other in each)] if len(each) > 1 else []
    shared = [pair for pair in shared if pair[0] in ("doubt", "next")]
    heads = [heading(answer, is_one_of_several=len(each) > 1, width=columns) for answer in found.answers]
    blocks = list(zip(heads, ([pair for pair in pairs if pair not in shared] for pairs in each), strict=True))
    for head, pairs in [*blocks, *([("All answers:", shared)] if shared else [])]:
        yield head
        yield from (f"  {label:<{_LABEL - 2}}{text}" for label, text in pairs)


def width(text: str) -> int:
    """Return how many columns a text takes on a terminal: East Asian wide letters take two."""
    from rich.cells import cell_len

    return cell_len(text)


def drawn(title: str, columns: Cells, rows: Iterable[Cells], right: Collection[str] = ()) -> "Table":
    """Return a table as rich draws it; every text in it is text, never markup.

    Args:
        title: Stands above it; empty for none.
        columns: The heads of its columns.
        rows: A cell for each column.
        right: The columns whose cells stand on the right.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=escape(title) or None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in columns:
        table.add_column(escape(name), overflow="fold", justify="right" if name in right else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
