"""`dlbench export`: what is written is read by the tools it is for, and says what the study says."""

import csv
import functools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xmlschema
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator
from mlperf_logging.compliance_checker import mlp_compliance

from dlbench import plugins
from dlbench.analysis.arms import records
from dlbench.cli import group
from dlbench.records.columns import TABLES
from dlbench.records.tables import read_table
from dlbench.report.data import ReportData, read
from dlbench.report.exporters._runs import distinct_name

ROOT = Path(__file__).parents[2]
XSD = ROOT / "tests" / "fixtures" / "junit" / "JUnit.xsd"
# One study with a target, one with failures and hostile texts.
STUDIES = (ROOT / "results" / "strategies", ROOT / "tests" / "fixtures" / "study-v3")


def export(study: Path, form: str, output: Path, code: int = 0) -> Result:
    done = CliRunner().invoke(group, ["export", str(study), "--to", form, "--output", str(output)])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def strategies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the first study with all runs of every tenth arm, and those of the first that diverged."""
    folder = Path(shutil.copytree(STUDIES[0], tmp_path_factory.mktemp("export") / STUDIES[0].name))
    path = folder / "runs.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    arms = dict.fromkeys(row["run_id"].rpartition("-r")[0] for row in rows)
    diverged = next(row["run_id"] for row in rows if row["status"] == "diverged")
    kept = {*list(arms)[::10], diverged.rpartition("-r")[0]}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(row for row in rows if row["run_id"].rpartition("-r")[0] in kept)
    return folder


@pytest.fixture(params=STUDIES, ids=lambda path: path.name)
def study(request: pytest.FixtureRequest, strategies: Path) -> Path:
    return strategies if request.param == STUDIES[0] else request.param


@functools.cache
def found(study: Path) -> ReportData:
    return read([study])


def test_json_follows_its_schema_and_holds_every_run_and_arm(study: Path, tmp_path: Path) -> None:
    export(study, "json", tmp_path)
    document = json.loads((tmp_path / "export.json").read_text())
    schema = json.loads((tmp_path / "export.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(document)
    (written,), data = document["studies"], found(study)
    assert [run["run_id"] for run in written["runs"]] == [row["run_id"] for row in data.runs]
    for arm, own in zip(written["arms"], [arm for arm in data.arms if arm.completed], strict=True):
        assert (arm["name"], arm["completed"]) == (own.name, own.n)
        times = own.values("time_to_target_s")
        assert arm["reached"] == (len(times) if own.get("target_value") is not None else None)
        median = own.metrics["train_time_s"]
        assert arm["metrics"].get("train_time_s", {}).get("median") == (median.value if median else None)
    assert None not in [value for run in written["runs"] for value in run.values()]


def test_junit_follows_the_published_schema_and_counts_runs(study: Path, tmp_path: Path) -> None:
    export(study, "junit", tmp_path)
    xmlschema.XMLSchema(str(XSD)).validate(str(tmp_path / "junit.xml"))
    suite = xmlschema.XMLSchema(str(XSD)).to_dict(str(tmp_path / "junit.xml"))["testsuite"][0]
    data = found(study)
    bad = len(data.runs) - len(data.completed)
    assert (suite["@tests"], suite["@errors"]) == (len(data.runs), bad)
    assert sum("error" in case for case in suite["testcase"]) == bad
    assert len(suite["system-out"].splitlines()) == len(data.completed)


def test_hostile_texts_are_valid_xml(tmp_path: Path) -> None:
    junit = plugins.load("exporters", "junit")
    data = found(STUDIES[1])
    study = data.studies[0]
    reason, label = "\x00\x1b[31m <&>\ufffe\nsecond ]]>", "<b>'\"\u202e"
    odd = {"study": "<odd> & name", "status": "failed", "reason": reason, "label": label}
    attempts = tuple({**row, **odd} for row in study.attempts)
    hostile = ReportData((replace(study, name="<odd> & name", attempts=attempts),))
    junit.get("export")(hostile, tmp_path)
    xmlschema.XMLSchema(str(XSD)).validate(str(tmp_path / "junit.xml"))
    assert "second ]]&gt;" in (tmp_path / "junit.xml").read_text()


def test_tensorboard_reads_the_curves_and_the_settings(study: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata

    export(study, "tensorboard", tmp_path)
    data = found(study)
    completed = data.completed
    for row in completed[:: max(1, len(completed) // 8)]:
        folder = tmp_path / row["study"] / row["run_id"]
        events = EventAccumulator(str(folder))
        events.Reload()
        scalars = {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}
        (loss,) = scalars["result/validation_loss"]
        assert loss.value == pytest.approx(row["validation_loss"], rel=1e-6)
        own = data.epochs
        if len(own):
            own = own[(own["run_id"] == row["run_id"]) & (own["worker"] == 0)].dropna(subset=["validation_loss"])
            assert [one.step for one in scalars.get("validation_loss", [])] == own["epoch"].tolist()
            assert [one.value for one in scalars.get("validation_loss", [])] == pytest.approx(
                own["validation_loss"], rel=1e-6
            )
        (start,) = [
            metadata.parse_session_start_info_plugin_data(content)
            for tag, content in events.summary_metadata.items()
            if tag == metadata.SESSION_START_INFO_TAG
            for content in [content.plugin_data.content]
        ]
        if study.name == "strategies":
            assert start.hparams["strategy"].string_value == row["strategy"]
    assert len(list(tmp_path.glob("*/*"))) == len(completed)


def test_parquet_has_every_table_with_its_types_and_the_arms_of_the_json(study: Path, tmp_path: Path) -> None:
    export(study, "parquet", tmp_path)
    tables = {path.stem for path in study.glob("*.csv")}
    assert {path.stem for path in tmp_path.iterdir()} == tables | {"arms"}
    (data,) = found(study).studies
    for table in sorted(tables):
        path = tmp_path / f"{table}.parquet"
        own = read_table(study / f"{table}.csv").assign(study=data.name).astype({"study": "string"})
        # Runs of searches are no results.
        own = own[own["run_id"].isin({row["run_id"] for row in data.attempts})].reset_index(drop=True)
        written = pq.read_table(path)
        for column in TABLES[table]:
            types = {
                "text": pa.types.is_large_string, "int": pa.types.is_int64, "float": pa.types.is_float64,
                "bool": pa.types.is_boolean, "time": lambda kind: pa.types.is_timestamp(kind) and kind.tz == "UTC",
            }  # fmt: skip
            assert types[column.kind](written.schema.field(column.name).type), f"{table}.{column.name}"
            assert written[column.name].null_count == own[column.name].isna().sum(), f"{table}.{column.name}"
        assert written.column_names[0] == "study"
        read_back = pd.read_parquet(path)[own.columns].astype(own.dtypes.to_dict())
        pd.testing.assert_frame_equal(read_back, own)
    export(study, "json", tmp_path)
    written = pd.read_parquet(tmp_path / "arms.parquet")
    (document,) = json.loads((tmp_path / "export.json").read_text())["studies"]
    expected = {
        (arm["name"], metric): (spread["median"], spread["n"])
        for arm in document["arms"]
        for metric, spread in arm["metrics"].items()
        if spread["median"] is not None
    }
    rows = written[["arm", "metric", "median", "n"]].itertuples(index=False)
    assert {(row.arm, row.metric): (row.median, row.n) for row in rows} == expected
    assert len(written) == len(expected)


# Prints by how many bytes the largest memory of the process grew, in an export of a study's tables as Parquet.
PEAK = """
import resource, sys
from pathlib import Path
import pandas, pyarrow.parquet
from dlbench import plugins
from dlbench.report.data import read
data, peak = read([Path(sys.argv[1])]), lambda: 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
plugins.load("exporters", "parquet").get("export")(data, Path(sys.argv[2]))
print(peak() - before)
"""


def test_parquet_is_exported_in_pieces_whatever_a_small_file_holds(tmp_path: Path) -> None:
    """A million rows of one value take some 100 kB on disk, and held at once more than 250 MB."""
    study = Path(shutil.copytree(STUDIES[1], tmp_path / "study"))
    (study / "steps.csv").unlink()
    count = 1_000_000
    values = {"text": pa.scalar(found(study).runs[0]["run_id"]), "int": pa.scalar(1), "float": pa.scalar(1.0)}
    columns = {
        column.name: pa.repeat(values[column.kind], count).dictionary_encode()
        if column.kind == "text"
        else pa.repeat(values[column.kind], count)
        for column in TABLES["steps"]
    }
    pq.write_table(pa.table(columns), study / "steps.parquet", row_group_size=count)
    assert (study / "steps.parquet").stat().st_size < 1e6
    (tmp_path / "out").mkdir()
    argv = [sys.executable, "-c", PEAK, str(study), str(tmp_path / "out")]
    grown = int(subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120).stdout)
    assert pq.ParquetFile(tmp_path / "out" / "steps.parquet").metadata.num_rows == count
    assert grown < 175e6


# What MLPerf asks of a submission and no study knows; `init_stop` is judged by the division's limit, 0 without one.
NOT_A_SUBMISSION = {"submission_org", "submission_division", "init_stop"}
NOT_RECORDED = {f"lowest_numerical_precision_in_{part}" for part in ("linear", "attn", "comm")}


def check_mlperf(path: Path) -> tuple[set[str], set[frozenset[str]]]:
    """Return the keys that MLPerf's own checker complains of, and groups of keys of which one is missing."""
    checker = mlp_compliance.make_checker("training", "6.1.0", quiet=True, werror=False)
    checker.check_file(str(path), "training_6.1.0/common.yaml")
    return set(checker.overwritable), {frozenset(re.findall(r"'(\w+)'", text)) for text in checker.not_overwritable}


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in path.read_text().splitlines()]


def logged(study: Path, output: Path) -> Iterator[tuple[Path, list[dict[str, Any]], dict[str, Any]]]:
    """Yield each MLPerf log of a study with its events and the row of its run."""
    export(study, "mlperf", output)
    rows = {row["run_id"]: row for row in found(study).completed}
    written = sorted(output.glob("*/results/*/*/result_*.txt"))
    assert len(written) == len(rows)
    for path in written:
        events = events_of(path)
        (start,) = [event["metadata"] for event in events if event["key"] == "run_start"]
        assert path.parents[1].name == start["run_id"].rsplit("-r", 1)[0]
        yield path, events, rows[start["run_id"]]


def test_mlperf_logs_break_no_rules_but_those_of_a_submission(study: Path, tmp_path: Path) -> None:
    has_epochs = len(found(study).epochs) > 0
    for path, _, row in list(logged(study, tmp_path))[:: 4 if study.name == STUDIES[0].name else 1]:
        expected = NOT_A_SUBMISSION | NOT_RECORDED
        expected |= set() if has_epochs else {"run_stop", "eval_accuracy"}
        is_steady = row.get("batch_policy") in (None, "fixed") and row["batch_size_global"] % row["workers"] == 0
        expected |= set() if is_steady else {"micro_batch_size"}
        keys, either = check_mlperf(path)
        assert keys == expected, path
        evaluated = {frozenset({f"eval_{end}", f"block_{end}"}) for end in ("start", "stop")}
        trained = {frozenset({f"epoch_{end}", f"block_{end}"}) for end in ("start", "stop")}
        is_timed = has_epochs and row.get("updates") is None and row.get("emulated") != "simulated"
        assert either == (set() if is_timed else evaluated) | (set() if has_epochs else trained), path


def test_mlperf_stops_at_a_benchmark_that_is_not_its_own(tmp_path: Path) -> None:
    path, *_ = next(logged(STUDIES[1], tmp_path))
    first, *lines = path.read_text().splitlines()
    added = [
        first.replace('"cache_clear"', f'"{key}"').replace("false", f'"{value}"')
        for key, value in (("submission_org", "us"), ("submission_division", "open"))
    ]
    path.write_text("\n".join([*added, first, *lines]))
    with pytest.raises(FileNotFoundError, match=r"open_mlp\.yaml"):
        check_mlperf(path)


def test_mlperf_times_are_those_of_the_rows(tmp_path: Path) -> None:
    data = found(STUDIES[1])
    for path, events, row in logged(STUDIES[1], tmp_path):
        times = {event["key"]: event["time_ms"] / 1000 for event in events if "epoch_num" not in event["metadata"]}
        epochs = [one for one in records(data.epochs) if one["run_id"] == row["run_id"] and one["worker"] == 0]
        began = row["started_at"].timestamp()
        assert times["init_start"] == pytest.approx(began, abs=1e-3)
        assert times["run_start"] == times["init_stop"] == pytest.approx(began + row["startup_time_s"], abs=1e-3)
        ends = [event["time_ms"] / 1000 - times["run_start"] for event in events if event["key"] == "epoch_stop"]
        assert ends == pytest.approx([one["ended_at_s"] for one in epochs], abs=2e-3)
        assert times["run_stop"] - times["run_start"] == pytest.approx(
            epochs[-1]["ended_at_s"] + (0 if row.get("updates") else epochs[-1].get("evaluation_time_s") or 0), abs=2e-3
        )
        ordered = [event["time_ms"] for event in events]
        assert ordered == sorted(ordered)
        accuracies = [event["value"] for event in events if event["key"] == "eval_accuracy"]
        assert accuracies == [one["validation_accuracy"] for one in epochs]
        (stop,) = [event["metadata"] for event in events if event["key"] == "run_stop"]
        assert (stop["status"] == "success") == (row.get("time_to_target_s") is not None)
        assert str(ROOT) not in path.read_text()


def test_mlperf_has_the_rate_after_warm_up_and_the_score_of_the_target(tmp_path: Path) -> None:
    study = found(STUDIES[1]).studies[0]
    for target, score in (("validation_loss", "loss"), ("train_loss", "accuracy")):
        aimed = {"target_metric": target, "learning_rate": 0.32, "learning_rate_base": 0.02}
        made = ReportData((replace(study, attempts=({**study.attempts[0], **aimed},)),))
        (path,) = plugins.load("exporters", "mlperf").get("export")(made, tmp_path / target)
        logged = {event["key"]: event["value"] for event in events_of(path)}
        assert logged["opt_base_learning_rate"] == 0.32
        scores = {key: value for key, value in logged.items() if key in ("eval_loss", "eval_accuracy")}
        *_, last = (one for one in records(made.epochs) if one["run_id"] == study.attempts[0]["run_id"])
        assert scores == {f"eval_{score}": last[f"validation_{score}"]}


def test_mlperf_leaves_out_what_has_no_time(tmp_path: Path) -> None:
    """A run without `started_at` has no log; without a start-up time it has an `init_start` and no more."""
    study = found(STUDIES[1]).studies[0]
    attempts = [{**row, "startup_time_s": None} for row in study.attempts]
    attempts[0]["started_at"] = None
    attempts[1]["startup_time_s"] = 1e308
    made = ReportData((replace(study, attempts=tuple(attempts)),))
    written = plugins.load("exporters", "mlperf").get("export")(made, tmp_path)
    assert len(written) == len(made.completed) - 1
    for path in written:
        keys = [event["key"] for event in events_of(path)]
        assert "init_start" in keys
        assert not {"init_stop", "run_start", "run_stop", "epoch_stop", "eval_accuracy"} & set(keys)


def test_a_study_is_never_written_over_and_names_in_cells_lead_nowhere(tmp_path: Path) -> None:
    inside = tmp_path / "copy"
    inside.mkdir()
    (inside / "runs.csv").write_bytes((STUDIES[1] / "runs.csv").read_bytes())
    assert "is a study" in export(inside, "json", inside, code=2).output
    study = found(STUDIES[1]).studies[0]
    odd = tuple({**row, "study": f"{tmp_path}/escaped/../elsewhere"} for row in study.attempts)
    data = ReportData((replace(study, name="odd", attempts=odd),))
    plugins.load("exporters", "tensorboard").get("export")(data, tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"copy", "out"}


def test_no_two_runs_share_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs whose names differ in what no folder's name can hold, or beyond what a tool takes, stay apart."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    names = ["x/y", "x-y", "x\\y", "x:y", ".x-y", " x-y", "k" * 128 + "1", "k" * 128 + "2", "x-y-", "/"]
    names = [f"{name}-r0" for name in [*names, distinct_name("x/y-r0").removesuffix("-r0")]]
    names.append(distinct_name("x/y-r0"))
    study = found(STUDIES[1]).studies[0]
    row = next(row for row in study.attempts if row["status"] == "completed")
    rows = tuple({**row, "run_id": name, "label": "same", "repeat": 0} for name in names)
    data = ReportData((replace(study, attempts=rows),))
    for form, pattern in {
        "tensorboard": "*/*/events.out.*", "mlperf": "*/results/*/*/result_*.txt", "wandb": "wandb/offline-run-*",
    }.items():  # fmt: skip
        (tmp_path / form).mkdir()
        for _ in range(1 if form == "wandb" else 2):  # wandb starts once for each: its own test exports twice
            plugins.load("exporters", form).get("export")(data, tmp_path / form)
            assert len(list((tmp_path / form).glob(pattern))) == len(names), form
    plugins.load("exporters", "junit").get("export")(data, tmp_path)
    cases = re.findall(r'testcase name="([^"]*)"', (tmp_path / "junit.xml").read_text())
    assert len(set(cases)) == len(names)


def test_what_cannot_be_exported_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "did you mean 'junit'?" in export(STUDIES[0], "junt", tmp_path, code=2).output
    (tmp_path / "file").touch()
    assert f"dlbench: {tmp_path}/file: " in export(STUDIES[0], "json", tmp_path / "file", code=2).output
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setattr("dlbench.cli.export.find_spec", lambda name: None)
    assert "pip install tensorboard" in export(STUDIES[0], "tensorboard", tmp_path, code=2).output
