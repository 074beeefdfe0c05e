import csv
import errno

import numpy as np
import pytest

from dlbench.analysis.metrics.rates import FIELD
from dlbench.records import files
from dlbench.records.columns import names
from dlbench.records.outcome import Status
from dlbench.study import collect
from dlbench.study.collect import Collector, step_lines
from dlbench.study.folder import create, wall_times
from dlbench.study.runner import DiskFull, full_disk_reported
from dlbench.telemetry.messages import STEP_FIELDS
from tests.unit.study.makers import ended, planned, runs


@pytest.fixture
def folder(tmp_path):
    return create(tmp_path, planned(asked=runs(40)))


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


def test_adding_one_by_one_gives_the_same_files_as_rebuilding(folder):
    collector = Collector(folder)
    collector.rebuild()
    for index, run in enumerate(runs(40)):
        attempt = ended(folder, run, steps=5 + index, at=index)
        collector.add(attempt, attempt.outcome())
        assert len(read(folder, "runs")) == index + 1
    collector.flush()
    texts = [(folder.path / files.table(name)).read_bytes() for name in ("runs", "epochs", "steps", "sensors")]
    Collector(folder).rebuild()
    assert [(folder.path / files.table(name)).read_bytes() for name in ("runs", "epochs", "steps", "sensors")] == texts


def test_steps_are_copied_a_few_times_only(folder, monkeypatch):
    read_journals = []
    original = collect.Collector.flush
    monkeypatch.setattr(collect.Collector, "flush", lambda self: read_journals.append(1) or original(self))
    collector = Collector(folder)
    collector.rebuild()
    for index, run in enumerate(runs(40)):
        attempt = ended(folder, run, at=index)
        collector.add(attempt, attempt.outcome())
    assert len(read_journals) < 30


def test_a_full_disk_leaves_the_tables_as_they_were_and_loses_nothing(folder, monkeypatch):
    first, second, _ = runs()
    collector = Collector(folder)
    ended(folder, first, at=1)
    collector.rebuild()
    before = (folder.path / files.table("runs")).read_bytes()
    attempt = ended(folder, second, at=2)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def add():
        with full_disk_reported(folder.path):
            collector.add(attempt, attempt.outcome())

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(DiskFull, match=r"is full.*no row that was received is lost"):
            add()
    assert (folder.path / files.table("runs")).read_bytes() == before
    assert not list(folder.path.glob(".*csv*"))
    Collector(folder).rebuild()
    assert len(read(folder, "runs")) == 2


def test_another_error_is_no_full_disk(tmp_path):
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
    last = "".join(step_lines(attempt, 0, rows)).splitlines()[1].split(",")
    assert float(last[place("loss")]) == 1 / 3
