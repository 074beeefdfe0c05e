"""Tables as Parquet in place of CSV: compact, typed, and with the same values, for they are made of that file.

pyarrow is optional (`pip install pyarrow`); it is imported when a table is written or read.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbench.errors import UserError
from dlbench.records.columns import TABLES, Kind, dtypes, require_width
from dlbench.records.files import replacing
from dlbench.regular_file import open_regular

if TYPE_CHECKING:
    import pandas as pd

SUFFIX = ".parquet"
# The most that texts of one piece take: a file holds a text once, however many rows have it.
MOST_TEXT_BYTES = 1 << 28
# Text that becomes one row group: about 100,000 rows of steps.
GROUP_BYTES = 1 << 24
_TYPES: dict[Kind, str] = {"text": "string", "int": "int64", "float": "float64", "bool": "bool", "time": "string"}


def is_installed() -> bool:
    """Whether pyarrow is here."""
    return find_spec("pyarrow") is not None


def convert(path: Path, table: str) -> None:
    """Replace a CSV table by a Parquet file of its name; the CSV file is there until the other one is.

    Raises:
        OSError: The disk is full or the folder cannot be written; the CSV file is as it was.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    types = {column.name: pa.type_for_alias(_TYPES[column.kind]) for column in TABLES[table]}
    # A run's name and a phase stand in thousands of rows.
    types = {name: pa.dictionary(pa.int32(), kind) if kind == "string" else kind for name, kind in types.items()}
    options = csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)
    parse = csv.ParseOptions(newlines_in_values=True)
    read = csv.ReadOptions(block_size=GROUP_BYTES, use_threads=False)
    with (
        csv.open_csv(path, read, parse, options) as rows,
        replacing(path.with_suffix(SUFFIX), "wb") as file,
        pq.ParquetWriter(file, rows.schema, compression="zstd") as writer,
    ):
        for batch in rows:
            writer.write_batch(batch)
    path.unlink()


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

    kinds = dtypes(table)
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
