"""Studies as a report reads them: whole ones, published ones, and folders that are none."""

import shutil
from pathlib import Path

import pytest

from dlbench.errors import UserError
from dlbench.records import files
from dlbench.records.tables import write_table
from dlbench.report.data import read
from tests.unit.report.figures.makers import report_data, run

ROOT = Path(__file__).parents[3]
FIXTURE = ROOT / "tests" / "fixtures" / "study-v3"
PUBLISHED = ROOT / "results" / "dividing"


def study(folder: Path, *rows: dict[str, object]) -> Path:
    folder.mkdir()
    full = [{"run_id": f"a-{number}-r0", "attempt": 1, "status": "completed"} | row for number, row in enumerate(rows)]
    write_table(folder / "runs.csv", "runs", full)
    return folder


def test_a_published_study_has_runs_and_epochs_and_its_scenario() -> None:
    report_data = read([PUBLISHED])
    (source,) = report_data.studies
    assert len(report_data.runs) == len(report_data.completed) == 60
    assert source.scenario is not None
    assert source.scenario.name == "dividing"
    assert source.machine["cpu"]["model"] == "Intel(R) Xeon(R) Processor"
    assert set(report_data.epochs["study"]) == {source.name}
    assert report_data.table("sensors").empty
    assert source.table("steps") is None
    assert {len({row["repeat"] for row in arm.rows}) for arm in report_data.arms} == {5}


def test_several_studies_are_joined_and_told_apart(tmp_path: Path) -> None:
    again = shutil.copytree(PUBLISHED, tmp_path / "again")
    rows = (again / "runs.csv").read_text(encoding="utf-8")
    (again / "runs.csv").write_text(rows.replace(",2026-11-24T", ",2026-11-25T"), encoding="utf-8")
    report_data = read([PUBLISHED, again, FIXTURE])
    names = [source.name for source in report_data.studies]
    assert len(set(names)) == 3
    assert names[1] == f"{names[0]} (2)"
    assert set(report_data.epochs["study"]) == set(names)


def test_only_the_last_attempt_counts_and_none_is_lost(tmp_path: Path) -> None:
    failed = {"run_id": "a-r0", "attempt": 1, "status": "failed", "reason": "no"}
    folder = study(tmp_path / "s", failed, {"run_id": "a-r0", "attempt": 2}, {"run_id": "b-r0", "status": "stalled"})
    epochs = [{"run_id": "a-r0", "attempt": attempt, "worker": 0, "epoch": 1} for attempt in (1, 2)]
    write_table(folder / "epochs.csv", "epochs", epochs)
    report_data = read([folder])
    assert [row["status"] for row in report_data.runs] == ["completed", "stalled"]
    assert [row["attempt"] for row in report_data.completed] == [2]
    assert len(report_data.attempts) == 3
    assert list(report_data.epochs["attempt"]) == [2]


def test_what_is_not_known_of_scenario_and_machine_stays_unknown(tmp_path: Path) -> None:
    folder = study(tmp_path / "s", {})
    for text in ("", "a: ["):
        (source,) = read([folder]).studies
        assert (source.name, source.scenario, source.machine, source.scenario_text) == ("s", None, {}, text)
        (folder / "scenario.yaml").write_text("a: [")
        (folder / "machine.json").write_text("[1")


def test_a_model_that_is_not_here_leaves_a_study_its_scenario(tmp_path: Path) -> None:
    folder = study(tmp_path / "s", {})
    text = "goal: throughput\nmatrix: {model: ['elsewhere:build']}\nbase: {model.width: 3}\n"
    (folder / "scenario.yaml").write_text(text)
    scenario = read([folder]).studies[0].scenario
    assert scenario is not None
    assert scenario.goal == "throughput"


def test_studies_made_for_tests_are_what_reading_their_files_gives(tmp_path: Path) -> None:
    options = ({"model.x": 1, "model.y": "[16]", "strategy.z": 0.5}, {"model.x": 2.5, "strategy.z": 1, "model.w": True})
    rows = [run(workers=2, repeat=n, momentum=1, tuned="a;b", **option) for n, option in enumerate(options)]
    rows += [run(status="failed", started_at=None, reason="one\ntwo, three"), run(phase="tune", batch_size=8)]
    folder = tmp_path / "study"
    folder.mkdir()
    write_table(
        folder / "runs.csv", "runs", rows, list(dict.fromkeys(key for row in rows for key in row if "." in key))
    )
    (source,), (made,) = read([folder]).studies, report_data(*rows, tmp_path=tmp_path).studies
    for found, expected in ((made.attempts, source.attempts), (made.others, source.others)):
        assert found == expected
        assert [list(map(type, row.values())) for row in found] == [list(map(type, row.values())) for row in expected]
        assert list(map(list, found)) == list(map(list, expected))


def test_studies_may_share_failed_attempts_and_runs_of_an_unknown_time(tmp_path: Path) -> None:
    failed = {"run_id": "a-r0", "status": "failed", "started_at": "2026-11-24T06:31:33.177+00:00"}
    again = {"run_id": "a-r0", "attempt": 2, "started_at": "2026-11-25T06:31:33.177+00:00"}
    one, two = study(tmp_path / "one", failed, {}), study(tmp_path / "two", failed, {}, again)
    assert len(read([one, two]).runs) == 4


def test_folders_that_are_no_studies_or_one_twice(tmp_path: Path) -> None:
    folder, copy = study(tmp_path / "one", {}), shutil.copytree(PUBLISHED, tmp_path / "copy")
    lines = (copy / "runs.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (copy / "runs.csv").write_text("".join(lines[:19]), encoding="utf-8")
    (tmp_path / "empty").mkdir()
    (tmp_path / "lost" / files.RUNS_FOLDER).mkdir(parents=True)
    (tmp_path / "lost" / files.STUDY).touch()
    for paths, words in (
        ([], "no study is given"),
        ([tmp_path / "absent"], "not a study folder"),
        ([tmp_path / "empty"], r"it has no runs\.csv"),
        ([tmp_path / "lost"], r"lost has no runs\.csv.*\n.*`dlbench run --study"),
        ([tmp_path], "there are studies: copy, one"),
        ([folder, tmp_path / "." / "one"], "given twice"),
        ([folder, copy, PUBLISHED], "copy and .*dividing share 18 runs"),
        ([PUBLISHED, folder, copy], "dividing and .*copy share 18 runs"),
    ):
        with pytest.raises(UserError, match=words):
            read(paths)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "holds no run yet"),
        ([{"status": None}], "without status"),
        ([{"status": "fine"}], "unknown status 'fine'"),
        ([{"batch_scope": "scale-out"}], "unknown batch_scope 'scale-out'"),
        ([{"workers": 0}], "workers is 0"),
        ([{}, {"run_id": "b-r0", "batch_size_global": -8}], "batch_size_global is -8"),
        ([{"run_id": None}], r"row 1 has no run_id"),
        ([{"run_id": "a-r0"}, {"run_id": "a-r0"}], "two rows of a-r0, attempt 1"),
        ([{"schema_version": 999}], "schema version 999"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path: Path, rows: list[dict[str, object]], words: str) -> None:
    folder = study(tmp_path / "s", *rows)
    (folder / files.STUDY).touch()
    (folder / files.RUNS_FOLDER).mkdir()
    with pytest.raises(UserError, match=words) as caught:
        read([folder])
    assert ("dlbench run --study" in caught.value.hint) == ("schema version" not in words)


def test_a_table_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_bytes(b"\x00\xff\xfe")
    with pytest.raises(UserError, match=r"runs\.csv"):
        read([tmp_path])
    folder = study(tmp_path / "s", {})
    (folder / "epochs.csv").write_text("run_id,attempt\r\na,b\r\n")
    with pytest.raises(UserError, match=r"epochs\.csv"):
        _ = read([folder]).epochs


def test_text_in_the_column_of_a_declared_metric_is_refused(tmp_path: Path) -> None:
    folder = study(tmp_path / "s", {}, {})
    text = "base: {command: python x.py, strategy: single}\nmetrics: {bleu: {better: higher, matters: 1}}\n"
    (folder / "scenario.yaml").write_text(text, encoding="utf-8")
    assert read([folder]).studies[0].scenario is not None
    write_table(folder / "runs.csv", "runs", [run | {"bleu": "low"} for run in read([folder]).runs], ["bleu"])
    with pytest.raises(UserError, match="has text in bleu, a metric of its scenario"):
        read([folder])


def test_a_study_that_has_only_searched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no measured run yet, only runs of a search"):
        read([study(tmp_path / "s", {"phase": "tune"})])
