"""Parquet: every table of the study with its types, and the arms; unknown cells are null, times UTC."""

from pathlib import Path
from typing import TYPE_CHECKING

from dlbench.plugins import Options
from dlbench.records.columns import TABLES
from dlbench.records.files import replacing
from dlbench.report.data import ReportData

if TYPE_CHECKING:
    import pandas as pd

OPTIONS = Options
PACKAGE = "pyarrow"


def export(data: ReportData, output: Path) -> list[Path]:
    """Write a file for each table that a study has, with all attempts, and `arms`: a row for each metric of an arm."""
    import pandas as pd

    found = {name: [own for study in data.studies if (own := study.table(name)) is not None] for name in TABLES}
    tables = {name: pd.concat(own, ignore_index=True) for name, own in found.items() if own}
    tables = {name: table[["study", *table.columns.drop("study")]] for name, table in tables.items()}
    return [_write(table, output / f"{name}.parquet") for name, table in {**tables, "arms": data.arm_rows}.items()]


def _write(table: "pd.DataFrame", path: Path) -> Path:
    import pyarrow
    import pyarrow.parquet

    with replacing(path, "wb") as file:
        pyarrow.parquet.write_table(pyarrow.Table.from_pandas(table, preserve_index=False), file)
    return path
