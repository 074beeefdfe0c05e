import json
import signal
import subprocess

import pytest

from tests.functional.small_disk import small_disk
from tests.functional.studies import Bench, wait_for


@pytest.fixture
def work(tmp_path):
    with Bench(tmp_path) as found:
        yield found


def must_be_complete(work, runs: int) -> None:
    """Every run has a completed last attempt, every attempt is a row, every row that was received is there."""
    rows = work.rows()
    assert len(rows) == len(work.attempts())
    last = {row["run_id"]: row for row in rows}
    assert [row["status"] for row in last.values()] == ["completed"] * runs
    assert {row["status"] for row in rows} <= {"completed", "interrupted", "failed"}
    assert len(work.rows("steps")) == work.num_rows()
    assert work.left_running() == []


def test_a_run_that_was_killed_is_repeated_and_the_old_attempt_stays(work):
    # Its worker does not end by itself before it is looked for.
    path = work.scenario(epochs=100_000, batch_sizes="64", orphan_timeout_s=100)
    with work.start(path) as process:
        wait_for(process, lambda: work.num_rows() > 0)
        process.send_signal(signal.SIGKILL)
    assert work.left_running() != []
    record = work.study() / "study.json"
    # The same run, but short, so that the second attempt ends.
    for file in (record, work.study() / "scenario.yaml", path):
        text = file.read_text()
        file.write_text(text.replace('"epochs": 100000', '"epochs": 1').replace("epochs: 100000", "epochs: 1"))
    rename_the_run(work, json.loads(record.read_text())["runs"][0])
    work.call(path, "--resume")
    first, second = work.rows()
    assert (first["status"], first["reason"]) == ("interrupted", "dlbench itself was ended while this attempt ran")
    assert (second["status"], second["attempt"]) == ("completed", "2")
    assert first["run_id"] == second["run_id"]
    must_be_complete(work, 1)


def rename_the_run(work, specification: dict) -> None:
    from dlbench.scenario.run_spec import RunSpec

    (folder,) = (work.study() / "runs").iterdir()
    folder.rename(folder.with_name(RunSpec.model_validate(specification).run_id))


def test_resume_makes_only_what_is_missing_and_refuses_an_edited_scenario(work):
    path = work.scenario(epochs=1, batch_sizes="16, 32")
    work.call(path, "--only", "batch_size=32")
    assert [row["batch_size"] for row in work.rows()] == ["32"]
    work.call(path, "--resume")
    assert sorted(row["batch_size"] for row in work.rows()) == ["16", "32"]
    output = work.call("--study", work.study())
    assert "0 runs to make" in output
    must_be_complete(work, 2)
    work.scenario(epochs=2)
    output = work.call(path, "--resume", code=2)
    assert "-base:" in output
    assert "epochs: 2," in output


def test_a_full_disk_is_reported_and_resume_completes(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    with small_disk(small, "400k"), Bench(tmp_path) as work:
        # There is room for the rows of the first run, not for those of the second.
        path = work.scenario(epochs=20, batch_sizes="64, 8, 32")
        (tmp_path / "studies").symlink_to(small)
        output = work.call(path, code=1)
        assert "full" in output
        assert "Traceback" not in output
        assert work.left_running() == []
        assert len(work.attempts()) == 2
        reasons = [attempt.outcome.reason for attempt in work.attempts()]
        assert "the journal cannot be written: No space left on device" in reasons
        before = work.num_rows()
        assert before >= 400
        subprocess.run(["mount", "-o", "remount,size=100m", str(small)], check=True)
        work.call(path, "--resume")
        assert work.num_rows() > before
        must_be_complete(work, 3)
