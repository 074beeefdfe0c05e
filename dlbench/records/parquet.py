"""Tables as Parquet in place of CSV: compact, typed, and with the same values, for they are made of the same lines.

pyarrow is optional (`pip install pyarrow`); it is imported when a table is written or read.
"""

import contextlib
import io
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dlbench.errors import UserError
from dlbench.records.columns import DTYPES, TABLES, Kind, require_width
from dlbench.records.files import replacing
from dlbench.regular_file import open_regular

if TYPE_CHECKING:
    import pandas as pd

SUFFIX = ".parquet"
# The most that texts of one piece take: a file holds a text once, however many rows have it.
MOST_TEXT_BYTES = 1 << 28
# Text that becomes one row group: about 100,000 rows of steps.
GROUP_BYTES = 1 << 24
_COPY_BYTES = 1 << 20
_TYPES: dict[Kind, str] = {"text": "string", "int": "int64", "float": "float64", "bool": "bool", "time": "string"}


def is_installed() -> bool:
    """Whether pyarrow is here."""
    return find_spec("pyarrow") is not None


class ParquetLines:
    """Takes the lines of a CSV table and writes them as Parquet.

    Args:
        table: One of `records.columns.TABLES`.
        file: Takes the bytes.
    """

    def __init__(self, table: str, file: Any) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._names = [column.name for column in TABLES[table]]
        types = {column.name: pa.type_for_alias(_TYPES[column.kind]) for column in TABLES[table]}
        # A run's name and a phase stand in thousands of rows.
        self._types = {
            name: pa.dictionary(pa.int32(), kind) if kind == "string" else kind for name, kind in types.items()
        }
        self._writer = pq.ParquetWriter(file, pa.schema(self._types), compression="zstd")
        self._text: list[str] = []
        self._size = 0

    def writelines(self, lines: Iterable[str]) -> None:
        """Take lines, or pieces of several; each ends with its last line's end."""
        for text in lines:
            self._text.append(text)
            self._size += len(text)
            if self._size >= GROUP_BYTES:
                self._flush()

    def copy(self, path: Path) -> None:
        """Take the rows of a table that was written before, as CSV or as Parquet."""
        import pyarrow.parquet as pq

        if path.suffix == SUFFIX:
            with pq.ParquetFile(path) as old:
                for group in range(old.num_row_groups):
                    self._writer.write_table(old.read_row_group(group).cast(self._writer.schema))
            return
        with path.open(encoding="utf-8", newline="") as file:
            file.readline()
            while pieces := file.readlines(_COPY_BYTES):
                self.writelines(pieces)

    def close(self) -> None:
        """Write what is left, and the end of the file."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        from pyarrow import csv

        if not self._text:
            return
        text = "".join(self._text).encode()
        self._text, self._size = [], 0
        convert = csv.ConvertOptions(column_types=self._types, null_values=[""], strings_can_be_null=True)
        parse = csv.ParseOptions(newlines_in_values=True)
        read = csv.ReadOptions(column_names=self._names, use_threads=False)
        self._writer.write_table(csv.read_csv(io.BytesIO(text), read, parse, convert))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            with contextlib.suppress(Exception):  # the file is thrown away; what happened is known
                self._writer.close()


@contextlib.contextmanager
def writing(path: Path, table: str) -> Iterator[ParquetLines]:
    """Open a Parquet file that replaces `path` as a whole when the block ends without an error.

    Raises:
        OSError: The disk is full or the folder cannot be written; `path` is then as it was.
    """
    with replacing(path, "wb") as file, ParquetLines(table, file) as lines:
        yield lines


def pieces(path: Path, table: str, rows: int, columns: Sequence[str] | None = None) -> "Iterator[pd.DataFrame]":
    """Yield a table's rows in their order, some at a time and none at first; a file may hold far more than its size.

    Args:
        path: The file.
        table: One of `records.columns.TABLES`.
        rows: Of a piece, at most.
        columns: Those that are read; default: all.

    Raises:
        OSError: It cannot be read.
        UserError: pyarrow is missing.
        ValueError: It is no Parquet file, lacks a column, or a value is not of its column's kind.
    """
    if not is_installed():
        raise UserError(
            f"{path.name} is a Parquet file, which needs pyarrow", where=str(path), hint="pip install pyarrow"
        )
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {column.name: DTYPES[column.kind] for column in TABLES[table]}
    try:
        with open_regular(path) as file:
            names = pq.read_schema(file).names
            require_width(names, table)
            if absent := set(columns or ()).difference(names):
                raise ValueError(f"it has no column {min(absent)!r}")
            # Each text once, however often it stands there.
            texts = [name for name in names if kinds.get(name) == "string"]
            source = pq.ParquetFile(file, read_dictionary=texts)
            empty = source.schema_arrow.empty_table().select(columns or names)
            start = 0
            for batch in chain([empty], source.iter_batches(rows, columns=columns)):
                if _text_bytes(batch) > MOST_TEXT_BYTES:
                    raise ValueError(f"texts of {rows:,} rows take more than {MOST_TEXT_BYTES:,} bytes")
                frame = batch.to_pandas()
                frame.index += start
                start += len(frame)
                yield frame.astype({name: kind for name, kind in kinds.items() if name in frame})
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error


def _text_bytes(batch: Any) -> int:
    """Return how many bytes the texts of a batch take when each cell has its own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = (column for column in batch.columns if pa.types.is_dictionary(column.type))
    chunks = (chunk for column in columns for chunk in getattr(column, "chunks", [column]))
    return sum(pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0 for chunk in chunks)
