"""A table from elsewhere as it is in its file: the header, and the cells of each line."""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
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
        text: The file as it is.
    """

    path: Path
    header: list[str]
    lines: list[tuple[int, list[str]]]
    delimiter: str
    text: str

    def where(self, number: int | None = None) -> str:
        """Return the file, or a line of it, as errors say it."""
        return str(self.path) if number is None else f"{self.path}:{number}"

    def columns(self) -> Iterator[list[str]]:
        """Yield the cells of each column."""
        yield from map(list, zip(*(cells for _, cells in self.lines), strict=True))


def read_table(path: Path) -> Table:
    """Read a CSV file, or a table of Markdown; commas, semicolons, tabs or bars separate its cells.

    Raises:
        UserError: It cannot be read, or is no table.
    """
    text = _text(path)
    # Excel names the delimiter so.
    separator = re.match('"?sep=(.)"?\r?\n', text)
    lined = text[separator.end() :] if separator else text
    delimiter = separator[1] if separator else _delimiter(lined)
    # Of Markdown: what is bold or code, the line below the headings, and what takes the meaning from a bar.
    marks, line, escape = (r"\*\*|`", " *:?-+:? *", "\\") if delimiter == "|" else ("(?!)", " *:?-{2,}:? *", None)
    # Strict: a quote that is never closed would take the rest of the file for one cell.
    reader = csv.reader(io.StringIO(lined, newline=""), delimiter=delimiter, escapechar=escape, strict=True)
    try:
        rows = [
            (reader.line_num + bool(separator), [" ".join(re.sub(marks, "", cell).split()) for cell in cells])
            for cells in reader
            if any(cell.strip() and not re.fullmatch(line, cell) for cell in cells)
        ]
    except csv.Error as error:
        where = f"{path}:{reader.line_num + bool(separator)}"
        hint = "write a CSV file" if lined.lstrip()[:1] in "{[" else "is a quote never closed?"
        raise UserError(f"is no table: {error}", where=where, hint=hint) from error
    # Files that were joined repeat the header.
    rows = [row for place, row in enumerate(rows) if place == 0 or row[1] != rows[0][1]]
    if len(rows) < 2:
        raise UserError("holds no rows: a header, and a line for each run", where=str(path))
    # Spreadsheets end lines with cells that hold nothing, Markdown begins them so.
    start, width = int(not any(cells[0] for _, cells in rows)), max(_width(cells) for _, cells in rows)
    rows = [(number, cells[start:width]) for number, cells in rows]
    (first, header), lines = rows[0], rows[1:]
    where = f"{path}:{first}"
    if len([*filter(None, header)]) == 1 < max(len([*filter(None, cells)]) for _, cells in lines):
        hint = "begin the file with the names of columns; delete titles above them"
        raise UserError(f"{shown(''.join(header))} is no header", where=where, hint=hint)
    if repeated := [name for name, count in Counter(header).items() if count > 1]:
        hint = "rename one; each run has a line, not a column"
        raise UserError(f"the column {shown(repeated[0])} is there twice", where=where, hint=hint)
    for number, cells in lines:
        if len(cells) != len(header):
            message = f"has {len(cells)} cells, and the header {len(header) - (delimiter == '|' and not header[0])}"
            raise UserError(message, where=f"{path}:{number}", hint="delete what is no line of the table")
    return Table(path, header, lines, delimiter, text)


def _text(path: Path) -> str:
    try:
        content = read_regular(path, MOST_BYTES)
        is_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        return content.decode("utf-16" if is_utf_16 else "utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise UserError("is no text in UTF-8", where=str(path), hint="save it as CSV UTF-8") from error


def _delimiter(text: str) -> str:
    """Return the sign that splits all lines alike, into most cells; else the one that splits the header.

    Of equal ones the comma, which may be that of decimals, and the bar are last. Markdown has bars.
    """
    if re.match(r"\s*\|.*\||.*\|.*\n[ |:]*-[\s|:-]*\n", text):
        return "|"
    alike, num_cells = {}, {}
    for sign in ";\t,|":
        with suppress(csv.Error):
            reader = csv.reader(io.StringIO(text, newline=""), delimiter=sign)
            rows = [cells for cells in reader if any(map(str.strip, cells))] or [[]]
            num_cells[sign], width = len(rows[0]), _width(rows[0])
            if width > 1 and all(_width(cells) <= width <= len(cells) for cells in rows):
                alike[sign] = width
    return max(alike or ",;\t|", key=lambda sign: (alike or num_cells).get(sign, 0))


def _width(cells: Sequence[str]) -> int:
    """Return the number of cells but those at the end that hold nothing, as spreadsheets write them."""
    return max((place for place, cell in enumerate(cells, 1) if cell.strip()), default=0)
