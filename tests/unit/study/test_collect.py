import csv
import errno
import re

import numpy as np
import pyarrow.parquet
import pytest

from dlbench.analysis.metrics.rates import FIELD
from dlbench.errors import UserError
from dlbench.records import files, parquet
from dlbench.records.columns import names
from dlbench.records.outcome import Outcome, Status, write_outcome
from dlbench.records.tables import read_table
from dlbench.scenario.scenario import StepTable
from dlbench.study import collect
from dlbench.study.attempts import pending
from dlbench.study.collect import Collector, step_lines
from dlbench.study.folder import create, wall_times
from dlbench.study.runner import DiskFull, full_disk_reported
from dlbench.telemetry.messages import STEP_FIELDS, encode
from tests.unit.study.makers import ended, planned, runs


@pytest.fixture
def folder(tmp_path):
    return create(tmp_path, planned(asked=runs(40)))


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def read(folder, name: str) -> list[dict]:
    with (folder.path / files.table(name)).open(newline="") as file:
        return list(csv.DictReader(file))


def test_tables_hold_every_attempt_in_the_order_of_their_starts(folder):
    first, second, _ = runs()
    ended(folder, second, steps=2, at=1)
    ended(folder, first, steps=1, status=Status.FAILED, at=2)
    ended(folder, first, steps=4, at=3)
    Collector(folder).rebuild()
    assert [(row["run_id"], row["attempt"], row["status"]) for row in read(folder, "runs")] == [
        (second.run_id, "1", "completed"), (first.run_id, "1", "failed"), (first.run_id, "2", "completed"),
    ]  # fmt: skip
    assert [row["step"] for row in read(folder, "steps")] == list("1211234")
    assert [row["phase"] for row in read(folder, "steps")] == ["warm-up"] * 7
    assert [row["train_loss"] for row in read(folder, "epochs")] == ["0.5"] * 3
    assert [row["quantity"] for row in read(folder, "sensors")] == ["time_s"] * 3
    assert read(folder, "runs")[0]["model.hidden"] == "[8]"


def test_adding_one_by_one_gives_the_same_files_as_rebuilding_and_copies_steps_a_few_times_only(folder, monkeypatch):
    flushes = []
    original = Collector.flush
    monkeypatch.setattr(Collector, "flush", lambda self: flushes.append(1) or original(self))
    collector = Collector(folder)
    collector.rebuild()
    for index, run in enumerate(runs(40)):
        attempt = ended(folder, run, steps=5 + index, at=index)
        collector.add(attempt, attempt.outcome())
        assert len(read(folder, "runs")) == index + 1
    assert len(flushes) < 30
    collector.flush()
    texts = {path: path.read_bytes() for path in folder.path.glob("*.csv")}
    Collector(folder).rebuild()
    assert {path: path.read_bytes() for path in folder.path.glob("*.csv")} == texts
    assert len(texts) == 5


def test_a_full_disk_leaves_the_tables_as_they_were_and_loses_nothing(folder, monkeypatch):
    first, second, _ = runs()
    collector = Collector(folder)
    ended(folder, first, at=1)
    collector.rebuild()
    before = (folder.path / files.table("runs")).read_bytes()
    attempt = ended(folder, second, at=2)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(DiskFull, match="is full"), full_disk_reported(folder.path):
            collector.add(attempt, attempt.outcome())
    assert (folder.path / files.table("runs")).read_bytes() == before
    assert not list(folder.path.glob(".*csv*"))
    Collector(folder).rebuild()
    assert len(read(folder, "runs")) == 2


def test_damaged_files_fail_their_attempt_alone(folder):
    second, lacks = "journal.jsonl:2: this line is damaged", "journal.jsonl: it lacks the last lines of worker 0"
    cases = (
        (files.JOURNAL, lambda lines: [lines[0], b"garbage\n", *lines[1:]], second),
        (files.JOURNAL, lambda lines: [lines[0], lines[1].replace(b"0.5", b"[1]"), *lines[2:]], second),
        (files.JOURNAL, lambda lines: [*lines[:2], lines[3]], "journal.jsonl:3: this line is damaged"),
        (files.JOURNAL, lambda lines: lines[:-1], lacks),
        (files.JOURNAL, lambda lines: [*lines[:-1], lines[-1][:-5]], lacks),
        (files.JOURNAL, lambda lines: [], lacks),
        (files.ASSIGNMENT, lambda lines: [b"[]"], "assignment.json: this file is damaged: "),
    )
    *damaged, sound = runs(len(cases) + 1)
    for run, (name, damage, _) in zip(damaged, cases, strict=True):
        path = ended(folder, run).folder / name
        path.write_bytes(b"".join(damage(path.read_bytes().splitlines(keepends=True))))
    ended(folder, sound)
    Collector(folder).rebuild()
    *failed, completed = read(folder, "runs")
    for row, (_, _, reason) in zip(failed, cases, strict=True):
        assert (row["status"], row["reason"].startswith(reason)) == ("failed", True), row["reason"]
    assert completed["status"] == "completed"
    assert {row["run_id"] for row in read(folder, "steps")} == {sound.run_id}
    assert pending(folder.path, (*damaged, sound)) == tuple(damaged), "a resumed study repeats them"
    ended(folder, damaged[0], at=3)
    Collector(folder).rebuild()
    assert read(folder, "runs")[-1]["status"] == "completed"


def number_at(line: bytes, number: int) -> bytes:
    return re.sub(rb'"seq":\s*\d+', b'"seq": %d' % number, line)


RESULT_OF_HUGE = {
    "steps": 60, "train_time_s": 0.0, "updates": 2**53, "samples_seen": 2**53, "staleness": [[2**53, 2**53]],
    "ready_at": -1e300, "flops_per_sample": 1e308,
    "segments": [{"opened_at_s": 1, "closed_at_s": 1, "steps": 60, "samples": 2**53, "simulated": True}],
}  # fmt: skip


def test_what_no_row_can_be_made_of_fails_its_run_alone(folder, monkeypatch):
    first, second, _ = runs()
    attempt = ended(folder, first, at=1)
    path = attempt.folder / files.JOURNAL
    lines = path.read_bytes().splitlines(keepends=True)
    huge = encode({"kind": "result", "worker": 0, "seq": 4, "result": RESULT_OF_HUGE})
    path.write_bytes(b"".join([*lines[:3], huge, number_at(lines[3], 5)]))
    collector, made = Collector(folder), collect.run_row
    collector.add(attempt, attempt.outcome())
    for error in (ZeroDivisionError("inside"), IndexError("inside"), MemoryError("inside"), OverflowError("inside")):
        attempt = ended(folder, second, at=2)

        def fails(*given, error=error):
            if given[3].steps:
                raise error
            return made(*given)

        with monkeypatch.context() as patch:
            patch.setattr(collect, "run_row", fails)
            row = collector.add(attempt, attempt.outcome())
        assert row["status"] == "failed", error
        assert row["reason"].endswith(f"({type(error).__name__}: inside)")
    attempt = ended(folder, second, at=3)
    assert collector.add(attempt, attempt.outcome())["status"] == "completed"
    collector.finish()


def test_a_reason_that_is_no_text_is_written_all_the_same(folder):
    attempt = ended(folder, runs()[0], at=1)
    outcome = Outcome(status=Status.FAILED, reason="ValueError: \udcff \x1b]0;title\x07")
    write_outcome(attempt.folder, outcome)
    Collector(folder).rebuild()
    assert read(folder, "runs")[0]["reason"] == "ValueError: \\udcff \\x1b]0;title\\x07"


@pytest.mark.parametrize("table", ["runs", "steps"])
def test_a_folder_in_the_place_of_a_table_stops_nothing(folder, table):
    (folder.path / files.table(table)).mkdir()
    collector = Collector(folder)
    collector.rebuild()
    attempt = ended(folder, runs()[0], at=1)
    assert collector.add(attempt, attempt.outcome())["status"] == "completed"
    collector.flush()
    assert collector.problem.startswith(f"{table}.csv cannot be written: it is a folder")
    assert not list(folder.path.glob(".*csv*"))


def test_a_folder_that_is_gone_and_other_errors_are_no_full_disk(tmp_path):
    with pytest.raises(UserError, match="the folder of the study is gone"), full_disk_reported(tmp_path / "s"):
        raise FileNotFoundError(errno.ENOENT, "No such file")
    with pytest.raises(PermissionError), full_disk_reported(tmp_path):
        raise PermissionError(errno.EACCES, "denied")


def test_wall_times_come_from_completed_runs(folder):
    ended(folder, runs()[0], at=1)
    ended(folder, runs()[1], status=Status.FAILED, at=2)
    Collector(folder).rebuild()
    assert wall_times(folder.path.parent, "시험 'x'") == {runs()[0].fingerprint: 2.0}
    assert wall_times(folder.path.parent, "another") == {}


def test_steps_have_the_digits_of_their_clock_and_of_their_loss(folder):
    attempt = ended(folder, runs()[0], steps=2, at=1)
    rows = np.zeros((2, len(STEP_FIELDS)))
    rows[:, FIELD["step_time_s"]] = 0.1 + 1e-9 + 3e-17, 1234567.1234567891
    rows[:, FIELD["loss"]] = np.float32(0.1), np.float32(1 / 3)
    cells = [line.split(",") for line in "".join(step_lines(attempt, 0, rows)).splitlines()]
    place = names("steps").index
    assert [row[place("step_time_s")] for row in cells] == ["0.100000001", "1234567.123456789"]
    assert [row[place("loss")] for row in cells] == ["0.1", "0.33333334"]
    rows[1, FIELD["loss"]] = 1 / 3
    assert str(1 / 3) in "".join(step_lines(attempt, 0, rows))


def steps_of(folder):
    return read_table(files.table_path(folder.path, "steps"))


def test_steps_in_parquet_are_those_of_the_csv(folder, monkeypatch):
    """Chosen, or because the CSV is large: the same rows with the same values; a study that goes on begins with CSV."""
    monkeypatch.setattr(collect, "MOST_CSV_BYTES", 5_000)
    monkeypatch.setattr(parquet, "GROUP_BYTES", 3_000)
    collector = Collector(folder)
    for index, run in enumerate(runs(40)):
        attempt = ended(folder, run, steps=5 + index, at=index)
        collector.add(attempt, attempt.outcome())
    collector.flush()
    written = steps_of(folder)
    for step_table, name in ((StepTable.AUTO, "parquet"), (StepTable.PARQUET, "parquet"), (StepTable.CSV, "csv")):
        collector = Collector(folder, step_table)
        collector.rebuild()
        assert not (folder.path / "steps.parquet").exists()
        collector.finish()
        assert [path.name for path in folder.path.glob("steps.*")] == [f"steps.{name}"]
        assert steps_of(folder).equals(written)
        assert steps_of(folder).dtypes.equals(written.dtypes)


def test_without_pyarrow_steps_stay_csv_which_is_said(folder, monkeypatch):
    monkeypatch.setattr(collect, "MOST_CSV_BYTES", 0)
    monkeypatch.setattr(parquet, "is_installed", lambda: False)
    said = []
    collector = Collector(folder, say=said.append)
    ended(folder, runs()[0], at=1)
    collector.rebuild()
    collector.finish()
    (line,) = said
    assert "pip install pyarrow" in line
    assert len(read(folder, "steps")) == len(steps_of(folder)) > 0


def test_a_full_disk_leaves_the_csv_table_as_it_was(folder, monkeypatch):
    collector = Collector(folder, StepTable.PARQUET)
    ended(folder, runs()[0], at=1)
    collector.rebuild()
    before = (folder.path / "steps.csv").read_bytes()
    monkeypatch.setattr(pyarrow.parquet.ParquetWriter, "write_batch", full)
    with pytest.raises(OSError, match="No space left"):
        collector.finish()
    assert [path.name for path in folder.path.glob("*steps*")] == ["steps.csv"]
    assert (folder.path / "steps.csv").read_bytes() == before
