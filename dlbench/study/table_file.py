"""A table from elsewhere as it is in its file: the header, and the cells of each line."""

import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlbench.errors import UserError, shown
from dlbench.regular_file import read_regular

MOST_BYTES = 2**26


@dataclass(frozen=True)
class Table:
    """A header, and lines with a cell for each of its columns.

    Attributes:
        path: The file.
        header: The columns' names.
        lines: Each line's number in the file, and its cells.
        delimiter: What separates cells.
    """

    path: Path
    header: list[str]
    lines: list[tuple[int, list[str]]]
    delimiter: str

    def where(self, number: int | None = None) -> str:
        """Return the file, or a line of it, as errors say it."""
        return str(self.path) if number is None else f"{self.path}:{number}"

    def columns(self) -> Iterator[list[str]]:
        """Yield the cells of each column."""
        yield from map(list, zip(*(cells for _, cells in self.lines), strict=True))


def read_table(path: Path) -> Table:
    """Read a CSV file; commas, semicolons or tabs separate its cells.

    Raises:
        UserError: It cannot be read, or is no table.
    """
    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise UserError("is no text in UTF-8", where=str(path)) from error
    texts = text.splitlines()
    # Excel names the delimiter so.
    separator = re.fullmatch('"?sep=(.)"?', texts[0]) if texts else None
    delimiter = separator[1] if separator else max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.reader(texts[bool(separator) :], delimiter=delimiter)
    rows = [
        (reader.line_num + bool(separator), [cell.strip() for cell in cells])
        for cells in reader
        if any(map(str.strip, cells))
    ]
    if len(rows) < 2:
        raise UserError("holds no rows: a header, and a line for each run", where=str(path))
    (first, header), lines = rows[0], rows[1:]
    where = f"{path}:{first}"
    if len([*filter(None, header)]) == 1 < max(len([*filter(None, cells)]) for _, cells in lines):
        hint = "begin the file with the names of columns; delete titles above them"
        raise UserError(f"{shown(''.join(header))} is no header", where=where, hint=hint)
    if repeated := [name for name, count in Counter(header).items() if count > 1]:
        raise UserError(f"the column {shown(repeated[0])} is there twice", where=where)
    for number, cells in lines:
        if len(cells) != len(header):
            raise UserError(f"has {len(cells)} cells, and the header {len(header)}", where=f"{path}:{number}")
    return Table(path, header, lines, delimiter)
