"""Old studies stay readable: one small study of every schema version, as the dlbench of its time wrote it.

Never replace these files. A version whose columns change in meaning gets a fixture of its own beside them; while it is
in no release, `python -m tests.fixtures.newest` makes that one again for a further column.
"""

import csv
import json
from pathlib import Path

import pytest

from dlbench.records import files, machine
from dlbench.records.columns import SCHEMA_VERSION, TABLES, names
from dlbench.records.outcome import Status
from dlbench.records.tables import DTYPES, read_table
from dlbench.scenario.settings import RENAMED
from dlbench.study import folder

FIXTURES = Path(__file__).parents[2] / "fixtures"
STUDIES = sorted(FIXTURES.glob("study-v*"))
EVERY_TABLE = [
    pytest.param(study / files.table(name), id=f"{study.name}-{name}")
    for study in STUDIES
    for name in TABLES
    # Tables that came later.
    if (study / files.table(name)).exists()
]
V1 = FIXTURES / "study-v1"

every_study = pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
every_table = pytest.mark.parametrize("path", EVERY_TABLE)


def cells(path):
    """Return the rows of a CSV file as they stand in it."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_no_table_of_the_first_studies_is_passed_over():
    assert {parameter.id.removeprefix("study-v1-") for parameter in EVERY_TABLE} >= {
        "runs", "epochs", "steps", "sensors",
    }  # fmt: skip


def test_every_schema_version_has_a_study():
    assert [study.name for study in STUDIES] == [f"study-v{version + 1}" for version in range(SCHEMA_VERSION)]


def test_the_newest_study_has_the_columns_of_today():
    for name in TABLES:
        with (STUDIES[-1] / files.table(name)).open(newline="", encoding="utf-8") as file:
            found = next(csv.reader(file))
        assert [column for column in found if "." not in column] == list(names(name)), name


@every_table
def test_every_cell_that_was_written_is_read(path):
    found = read_table(path)
    written = cells(path)
    assert len(found) == len(written) > 0
    for name in written[0]:
        empty = [row[name] == "" for row in written]
        assert found[RENAMED.get(name, name)].isna().tolist() == empty, name


@every_table
def test_every_column_of_today_is_there_and_has_its_kind(path):
    found = read_table(path)
    for column in TABLES[path.stem]:
        if column.kind == "time":
            assert str(found[column.name].dt.tz) == "UTC"
        else:
            assert found[column.name].dtype == DTYPES[column.kind], column.name


@every_table
def test_numbers_are_read_as_they_were_written(path):
    found = read_table(path)
    numbers = [column.name for column in TABLES[path.stem] if column.kind in ("int", "float")]
    for row, values in zip(cells(path), found[numbers].to_dict("records"), strict=True):
        for name in numbers:
            if row.get(name):
                assert float(row[name]) == float(values[name])


@every_study
def test_the_rows_of_a_study_belong_together(study):
    runs = read_table(study / files.table("runs"))
    known = set(zip(runs["run_id"], runs["attempt"], strict=True))
    assert set(runs["status"]) <= set(Status)
    assert set(runs["schema_version"]) == {int(study.name.removeprefix("study-v"))}
    for name in ("epochs", "steps", "sensors"):
        rows = read_table(study / files.table(name))
        assert set(zip(rows["run_id"], rows["attempt"], strict=True)) <= known


@every_study
def test_the_study_itself_is_read(study):
    found = folder.open_study(study)
    runs = read_table(study / files.table("runs"))
    assert {run.run_id for run in found.record.runs} == set(runs["run_id"])
    assert folder.scenario_of(found).name == found.record.scenario == runs["scenario"].unique().item()


@every_study
def test_its_machine_can_be_compared_with_this_one(study):
    before = json.loads((study / files.MACHINE).read_text(encoding="utf-8"))
    assert machine.differences(before, before) == []
    assert all(isinstance(line, str) for line in machine.differences(before, machine.describe()))
    assert None not in (machine.fingerprint(before)["CPU model"], machine.fingerprint(before)["memory"])


# What stands in the study of version 1, seen by eye when it was written.


@pytest.fixture(scope="module")
def runs_v1():
    return read_table(V1 / "runs.csv").set_index("run_id")


def test_arms_of_version_1(runs_v1):
    arms = [
        (row["strategy"], row["workers"], row["baseline"], row["status"], row["model.hidden"], row["steps"])
        for _, row in runs_v1.fillna({"steps": 0}).iterrows()
    ]
    assert arms == [
        ("single", 1, True, "diverged", "[32, 32, 32, 32]", 0),
        ("single", 1, True, "completed", "[16]", 20),
        ("mpi", 2, False, "diverged", "[32, 32, 32, 32]", 0),
        ("mpi", 1, False, "completed", "[16]", 20),
        ("mpi", 2, False, "completed", "[16]", 20),
    ]


def test_what_version_1_did_not_know_is_missing_and_not_zero(runs_v1):
    diverged = runs_v1.iloc[0]
    assert diverged["reason"] == "worker 0: Diverged: the loss is nan in step 3 (epoch 1)"
    assert runs_v1["reason"].isna().sum() == 3
    for name in ("validation_accuracy", "samples_per_s", "energy_j", "workers_agree", "bytes_sent"):
        assert runs_v1.isna().iloc[0][name], name
    assert runs_v1.iloc[1]["bytes_sent"] == 0


def test_numbers_of_version_1(runs_v1):
    two = runs_v1.iloc[4]
    # The ring of two sends every byte once: 1210 float32 parameters x 20 steps x 2 workers.
    assert two["bytes_sent"] == 1210 * 4 * 20 * 2
    assert two["validation_accuracy"] == 0.7799442896935933
    assert two["workers_agree"] == "exact"
    assert two["started_at"].isoformat() == "2026-11-21T02:50:35.313000+00:00"
    steps = read_table(V1 / "steps.csv")
    assert len(steps[steps["run_id"] == two.name]) == two["steps"] * two["workers"]
    # A loss that is not finite is an empty cell.
    assert steps[steps["run_id"] == runs_v1.index[0]]["loss"].isna().tolist() == [False, False, True]
    sensors = read_table(V1 / "sensors.csv")
    assert set(sensors["sensor"]) == {"cpu", "host", "memory", "network"}
    assert sensors["at_s"].min() < 0 < sensors["at_s"].max()
