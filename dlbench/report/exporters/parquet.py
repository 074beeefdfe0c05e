"""Parquet: every table of the study with its types, and the arms; unknown cells are null, times UTC."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from dlbench.analysis.summary_tables import arms_frame
from dlbench.records.columns import TABLES, names
from dlbench.records.files import replacing
from dlbench.report.data import ReportData

if TYPE_CHECKING:
    import pandas as pd

PACKAGE = "pyarrow"


def export(data: ReportData, output: Path) -> list[Path]:
    """Write each table of a study, with all attempts of measured runs, and `arms`: a row for each metric of an arm."""
    import pandas as pd
    import pyarrow
    import pyarrow.parquet

    runs = pd.concat([study.table("runs") for study in data.studies], ignore_index=True)
    arms = arms_frame(data.arms, data.settings)
    tables = {name: _pieces(data, name) for name in TABLES} | {"runs": iter([runs]), "arms": iter([arms])}
    written = []
    for name, pieces in tables.items():
        first = next(pieces, None)
        if first is not None:
            written.append(path := output / f"{name}.parquet")
            schema = pyarrow.Schema.from_pandas(first, preserve_index=False)
            with replacing(path, "wb") as file, pyarrow.parquet.ParquetWriter(file, schema) as writer:
                for piece in chain([first], pieces):
                    writer.write_table(pyarrow.Table.from_pandas(piece, preserve_index=False))
    return written


def _pieces(data: ReportData, name: str) -> "Iterator[pd.DataFrame]":
    """Yield the rows of a table of all studies, with dlbench's own columns alone: those of runs have the options."""
    for study in data.studies:
        yield from (piece[["study", *names(name)]] for piece in study.pieces(name))
