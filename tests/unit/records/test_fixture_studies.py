"""Studies stay readable: a small one of the schema version, as dlbench wrote it.

`python -m tests.fixtures.newest` makes it again for a further column, while no release has the version.
"""

import csv
import json
from pathlib import Path

import pytest

from dlbench.records import files, machine
from dlbench.records.columns import DTYPES, SCHEMA_VERSION, TABLES, names
from dlbench.records.outcome import Status
from dlbench.records.tables import read_table
from dlbench.study import folder

FIXTURES = Path(__file__).parents[2] / "fixtures"
STUDY = FIXTURES / f"study-v{SCHEMA_VERSION}"


def cells(path):
    """Return the rows of a CSV file as they stand in it."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("table", TABLES)
def test_every_column_of_today_is_there_and_every_cell_is_read_as_it_was_written(table):
    path = STUDY / files.table(table)
    found, written = read_table(path), cells(path)
    assert len(found) == len(written) > 0
    assert [column for column in written[0] if "." not in column] == list(names(table))
    for name in written[0]:
        assert found[name].isna().tolist() == [row[name] == "" for row in written], name
    for column in TABLES[path.stem]:
        if column.kind == "time":
            assert str(found[column.name].dt.tz) == "UTC"
        else:
            assert found[column.name].dtype == DTYPES[column.kind], column.name
    numbers = [column.name for column in TABLES[path.stem] if column.kind in ("int", "float")]
    for row, values in zip(written, found[numbers].to_dict("records"), strict=True):
        assert all(float(row[name]) == float(values[name]) for name in numbers if row.get(name))


def test_the_rows_of_a_study_belong_together():
    runs = read_table(STUDY / files.table("runs"))
    known = set(zip(runs["run_id"], runs["attempt"], strict=True))
    assert set(runs["status"]) <= set(Status)
    assert set(runs["schema_version"]) == {SCHEMA_VERSION}
    for name in ("epochs", "steps", "sensors"):
        rows = read_table(STUDY / files.table(name))
        assert set(zip(rows["run_id"], rows["attempt"], strict=True)) <= known


def test_the_study_itself_is_read():
    found = folder.open_study(STUDY)
    runs = read_table(STUDY / files.table("runs"))
    assert {run.run_id for run in found.record.runs} == set(runs["run_id"])
    assert folder.scenario_of(found).name == found.record.scenario == runs["scenario"].unique().item()


def test_its_machine_can_be_compared_with_this_one():
    before = json.loads((STUDY / files.MACHINE).read_text(encoding="utf-8"))
    assert machine.differences(before, before) == []
    assert all(isinstance(line, str) for line in machine.differences(before, machine.describe()))
    assert None not in (machine.fingerprint(before)["CPU model"], machine.fingerprint(before)["memory"])
