"""Reading and writing the CSV files of a study (RFC 4180: CRLF, quotes doubled).

An unknown value is an empty cell. Floats are written with the fewest digits that give the same float of its type back
(float32 or float64), booleans as `true` and `false`, lists as JSON. Options of plugins follow the columns of
`records.columns` as dotted columns (`model.hidden`). Files are replaced as a whole.
"""

import json
import math
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from dlbench.errors import UserError, shorten, shown
from dlbench.records import files, parquet
from dlbench.records.columns import KEYS, TABLES, dtypes, names, require_width
from dlbench.records.files import replacing
from dlbench.regular_file import open_regular

if TYPE_CHECKING:
    import pandas as pd

END = "\r\n"
# Rows that are turned to text at once: enough to be fast, few enough to stay small in memory.
CHUNK_ROWS = 50_000
# Rows that are read at once.
READ_ROWS = 200_000
# Letters of a cell: tables of arms and charts repeat it.
MOST_CELL_LETTERS = 100_000
# Rows that are held in memory together.
MOST_ROWS = 10_000_000
_NO_SUCH = {"int": "no whole number", "float": "no number", "bool": "neither true nor false"}


def cell(value: object) -> str:
    """Return one value as the text of a cell, quoted where it must be."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping | list | tuple):
        return _quoted(json.dumps(value, ensure_ascii=False))
    return repr(value.item() if isinstance(value, np.generic) else value)


def line(values: Iterable[object]) -> str:
    """Return one row as a line with its end."""
    return ",".join(map(cell, values)) + END


def header(table: str, extra: Sequence[str] = ()) -> str:
    """Return the first line of `runs`, `epochs`, `steps` or `sensors`, with dotted columns appended."""
    return line((*names(table), *extra))


def lines_of(columns: Sequence[npt.NDArray[Any] | list[str] | str]) -> Iterator[str]:
    """Yield equally long columns as lines, in large pieces.

    NaN becomes an empty cell. Fast enough for steps: about 4 s for 1,000,000 rows.

    Args:
        columns: Arrays of numbers, lists of ready cells, or one ready cell that stands in every row.
    """
    length = next(len(column) for column in columns if not isinstance(column, str))
    for start in range(0, length, CHUNK_ROWS):
        stop = min(length, start + CHUNK_ROWS)
        texts = [_texts(column, start, stop) for column in columns]
        yield END.join(map(",".join, zip(*texts, strict=True))) + END


def whole_cells(values: npt.NDArray[np.float64]) -> list[str]:
    """Return whole numbers held as floats as cells without a point; NaN becomes an empty cell."""
    unknown = np.isnan(values)
    texts = list(map(repr, np.where(unknown, 0, values).astype(np.int64).tolist()))
    return _emptied(texts, unknown)


def narrowed(values: npt.NDArray[np.float64]) -> npt.NDArray[np.floating]:
    """Return numbers as float32 where each of them is one, so that they are written with a float32's digits."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return narrow if np.array_equal(narrow, values, equal_nan=True) else values


def write_table(path: Path, table: str, rows: Iterable[Mapping[str, Any]], extra: Sequence[str] = ()) -> None:
    """Replace a CSV file by rows given as mappings from column name to value; missing ones are unknown.

    Raises:
        OSError: The file cannot be written; it is then as it was.
    """
    columns = (*names(table), *extra)
    write_lines(path, table, (line(row.get(column) for column in columns) for row in rows), extra)


def write_lines(path: Path, table: str, lines: Iterable[str], extra: Sequence[str] = ()) -> None:
    """Replace a CSV file by lines that are ready."""
    with replacing(path) as file:
        file.write(header(table, extra))
        file.writelines(lines)


def read_table(path: Path, only: Collection[str] | None = None) -> "pd.DataFrame":
    """Read a table, as CSV or Parquet by its suffix; unknown cells become missing values.

    Columns have the names and kinds of `records.columns`, whatever an older version called them; those that it lacks
    are there and empty. Columns of plugin options get the narrowest kind that holds all their cells.

    Args:
        path: The file.
        only: run_ids of the rows that are wanted; default: all.

    Raises:
        UserError: The file is absent or is not such a table, a row does not say which it is, or it is too large.
    """
    import pandas as pd

    parts, rows = [], 0
    for piece in pieces(path, only):
        parts.append(piece)
        rows += len(piece)
        if rows > MOST_ROWS:
            raise UserError(
                f"has more than {MOST_ROWS:,} rows, the most that are held in memory",
                where=str(path),
                hint="read it in pieces, with `pyarrow.parquet` or `pandas.read_csv(..., chunksize=...)`",
            )
    table = pd.concat(parts, ignore_index=True)
    for name in table.columns.difference(list(names(path.stem))):
        table[name] = _narrowed(table[name])
    return table


def remedy(study: Path) -> str:
    """Return what writes a study's tables anew from what its runs have recorded; an empty string where nothing can."""
    can_be_made = (study / files.STUDY).exists() and (study / files.RUNS_FOLDER).exists()
    return f"`dlbench run --study {shlex.quote(str(study))}` writes the tables anew" * can_be_made


def pieces(path: Path, only: Collection[str] | None = None) -> "Iterator[pd.DataFrame]":
    """Yield a table as `read_table` returns it in pieces of at most `READ_ROWS` rows, one or more; options as text.

    Raises:
        UserError: See `read_table`.
    """
    table = path.stem
    if table not in TABLES:
        raise UserError(f"{path.name!r} is none of {', '.join(name + '.csv' for name in TABLES)}")
    source = parquet.pieces(path, table, READ_ROWS) if path.suffix == parquet.SUFFIX else _csv_pieces(path, table)
    try:
        for piece in source:
            yield _completed(_wanted(piece, table, only), table)
    except FileNotFoundError:
        raise UserError(f"there is no {path.name} in {path.parent}", hint=remedy(path.parent)) from None
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror or error}", where=str(path)) from error
    except (ValueError, TypeError, OverflowError) as error:
        cause = _wrong_cell(path, table) or str(error).removeprefix("Error tokenizing data. C error: ").strip()
        message = f"this is not a table of dlbench: {shorten(cause)}"
        raise UserError(message, hint=remedy(path.parent), where=str(path)) from error


def _csv_pieces(path: Path, table: str) -> "Iterator[pd.DataFrame]":
    import pandas as pd

    # Columns that are not in `records.columns` come as text.
    kinds = defaultdict(lambda: "string", dtypes(table))
    # A count that is no whole number is refused; that its cast is invalid need not be said as well.
    with open_regular(path) as file, np.errstate(invalid="ignore"):
        first = pd.read_csv(file, dtype=str, nrows=1)
        if len(first.columns) == 1 and (marks := {";", "\t"} & set(first.columns[0])):
            raise ValueError(f"its cells are separated by {marks.pop()!r}, not by commas: a spreadsheet has saved it")
        if not isinstance(first.index, pd.RangeIndex):
            raise ValueError("row 1 has more cells than the header")
        require_width(first.columns, table)
        file.seek(0)
        yield from pd.read_csv(file, dtype=kinds, keep_default_na=False, na_values=[""], true_values=["true"],
                               false_values=["false"], chunksize=READ_ROWS)  # fmt: skip


def _wrong_cell(path: Path, table: str) -> str:
    """Return the first cell that its column cannot hold, as a message; an empty string where none is."""
    import pandas as pd

    kinds = {column.name: column.kind for column in TABLES[table] if column.kind in _NO_SUCH}
    # Where rows have more cells than the header, pandas takes the first ones for labels.
    with suppress(ValueError, OSError, TypeError), open_regular(path) as file:
        for piece in pd.read_csv(file, dtype=str, usecols=kinds.__contains__, na_filter=False, chunksize=READ_ROWS):
            for name, cells in piece.items():
                kind = kinds[str(name)]
                plain = cells.str.lower().replace(["true", "false"], "1") if kind == "bool" else cells
                numbers = pd.to_numeric(plain, errors="coerce")
                is_wrong = numbers.isna() if kind == "float" else (numbers % 1 != 0) | (numbers.abs() >= 2.0**63)
                for row, text in cells[is_wrong & (cells != "")].items():
                    return f"row {cast('int', row) + 1}: {name} is {shown(text)}, which is {_NO_SUCH[kind]}"
    return ""


def _wanted(piece: "pd.DataFrame", table: str, only: Collection[str] | None) -> "pd.DataFrame":
    """Return the rows of some runs.

    Raises:
        ValueError: A column or a cell of the table's keys is missing, or a cell is too long.
    """
    for key in KEYS[table]:
        if key not in piece.columns:
            raise ValueError(f"it has no column {key!r}")
        if (lacking := piece[key].isna()).any():
            raise ValueError(f"row {cast('int', lacking.idxmax()) + 1} has no {key}")
    for name, cells in piece.items():
        if cells.dtype != "string" or cells.memory_usage(index=False, deep=True) <= MOST_CELL_LETTERS:
            continue
        if cells.str.len().gt(MOST_CELL_LETTERS).any():
            raise ValueError(f"a cell of {shorten(str(name), 60)} has more than {MOST_CELL_LETTERS:,} letters")
    return piece if only is None else piece[piece["run_id"].isin(only)]


def _completed(rows: "pd.DataFrame", table: str) -> "pd.DataFrame":
    import pandas as pd

    extra = rows.columns.difference(list(names(table)), sort=False)
    kinds = dtypes(table)
    blank = {kind: pd.array([None] * len(rows), dtype=kind) for kind in set(kinds.values())}
    absent = {name: blank[kind] for name, kind in kinds.items() if name not in rows}
    rows = pd.concat([rows, pd.DataFrame(absent, index=rows.index)], axis="columns")[[*names(table), *extra]]
    for column in TABLES[table]:
        if column.kind == "time":
            times = pd.to_datetime(rows[column.name], utc=True, format="ISO8601", errors="coerce")
            for no_time in rows.loc[times.isna(), column.name].dropna().head(1):
                raise ValueError(f"{column.name} is {shown(no_time)}, which is no time (ISO 8601)")
            rows[column.name] = times
    return rows


def _narrowed(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a text column as booleans, integers or floats where all its cells are."""
    import pandas as pd

    cells = column.dropna()
    if cells.empty:
        return column
    if cells.isin(["true", "false"]).all():
        return column.map({"true": True, "false": False}).astype("boolean")
    try:
        numbers = pd.to_numeric(cells.astype(object))
    except (ValueError, TypeError):
        return column
    return numbers.reindex(column.index).astype("Int64" if numbers.dtype.kind == "i" else "float64")


def _quoted(text: str) -> str:
    if any(mark in text for mark in ',"\r\n') or text != text.strip(" "):
        return '"' + text.replace('"', '""') + '"'
    return text


def _texts(column: npt.NDArray[Any] | list[str] | str, start: int, stop: int) -> list[str]:
    if isinstance(column, str):
        return [column] * (stop - start)
    if isinstance(column, list):
        return column[start:stop]
    part = column[start:stop]
    unknown = np.isnan(part)
    if unknown.all():
        return [""] * len(part)
    # The text of a NumPy number has the fewest digits that identify it among those of its type.
    texts = map(str, part) if part.dtype == np.float32 else map(repr, part.tolist())
    return _emptied(list(texts), unknown)


def _emptied(texts: list[str], unknown: npt.NDArray[np.bool_]) -> list[str]:
    for index in np.flatnonzero(unknown).tolist():
        texts[index] = ""
    return texts
