"""Tables and durations as text: drawn by rich on a terminal, aligned with spaces in a pipe."""

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from dlbench.errors import spelled

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Cells = Sequence[str]
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
