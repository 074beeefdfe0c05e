"""Tables on a terminal and in a pipe: the same cells, drawn by rich or aligned with spaces."""

import sys
import unicodedata
from collections.abc import Sequence

import click

Row = Sequence[str]


def show(title: str, columns: Row, rows: Sequence[Row]) -> None:
    """Print a table: with lines and wrapping on a terminal, plain and whole where the output goes elsewhere."""
    if sys.stdout.isatty():
        _draw(title, columns, rows)
    else:
        click.echo(plain(columns, rows))


def plain(columns: Row, rows: Sequence[Row]) -> str:
    """Return a table as text, columns aligned by spaces."""
    lines = [columns, *rows]
    widths = [max(width(line[index]) for line in lines) for index in range(len(columns))]
    return "\n".join("  ".join(_padded(cell, widths[i]) for i, cell in enumerate(line)).rstrip() for line in lines)


def width(text: str) -> int:
    """Return how many columns a text takes on a terminal: East Asian wide letters take two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _padded(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))


def _draw(title: str, columns: Row, rows: Sequence[Row]) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    Console().print(table)
