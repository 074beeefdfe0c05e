"""`dlbench export`: what is written is read by the tools it is for, and says what the study says."""

import json
import sys
from pathlib import Path

import pytest
import xmlschema
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from dlbench import plugins
from dlbench.cli import group
from dlbench.report.data import ReportData, read

ROOT = Path(__file__).parents[2]
XSD = ROOT / "tests" / "fixtures" / "junit" / "JUnit.xsd"
# One study with a target, one with failures and hostile texts.
STUDIES = (ROOT / "results" / "strategies", ROOT / "tests" / "fixtures" / "study-v3")


def export(study: Path, form: str, output: Path, code: int = 0) -> Result:
    done = CliRunner().invoke(group, ["export", str(study), "--to", form, "--output", str(output)])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(params=STUDIES, ids=lambda path: path.name)
def study(request: pytest.FixtureRequest) -> Path:
    return request.param


def found(study: Path) -> ReportData:
    return read([study])


def test_json_follows_its_schema_and_holds_every_run_and_arm(study: Path, tmp_path: Path) -> None:
    export(study, "json", tmp_path)
    document = json.loads((tmp_path / "export.json").read_text())
    schema = json.loads((tmp_path / "export.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(document)
    (written,), data = document["studies"], found(study)
    assert [run["run_id"] for run in written["runs"]] == data.runs["run_id"].tolist()
    for arm, own in zip(written["arms"], data.arms[data.studies[0].name], strict=True):
        assert (arm["name"], arm["completed"]) == (own.name, own.n)
        median = own.metrics["train_time_s"]
        assert arm["metrics"].get("train_time_s", {}).get("median") == (median.value if median else None)
    assert None not in [value for run in written["runs"] for value in run.values()]


def test_junit_follows_the_published_schema_and_counts_runs(study: Path, tmp_path: Path) -> None:
    export(study, "junit", tmp_path)
    xmlschema.XMLSchema(str(XSD)).validate(str(tmp_path / "junit.xml"))
    suite = xmlschema.XMLSchema(str(XSD)).to_dict(str(tmp_path / "junit.xml"))["testsuite"][0]
    data = found(study)
    bad = int((data.runs["status"] != "completed").sum())
    assert (suite["@tests"], suite["@errors"]) == (len(data.runs), bad)
    assert sum("error" in case for case in suite["testcase"]) == bad
    assert len(suite["system-out"].splitlines()) == len(data.completed)


def test_hostile_texts_are_valid_xml(tmp_path: Path) -> None:
    junit = plugins.load("exporters", "junit")
    data = found(STUDIES[1])
    study = data.studies[0]
    odd = study.attempts.assign(
        study="<odd> & name", status="failed", reason="\x00\x1b[31m <&>\ufffe\nsecond ]]>", label="<b>'\"\u202e"
    )
    hostile = ReportData((type(study)(study.path, "<odd> & name", odd, study.scenario_text, study.machine),))
    junit.get("export")(hostile, tmp_path)
    xmlschema.XMLSchema(str(XSD)).validate(str(tmp_path / "junit.xml"))
    assert "second ]]&gt;" in (tmp_path / "junit.xml").read_text()


def test_tensorboard_reads_the_curves_and_the_settings(study: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata

    export(study, "tensorboard", tmp_path)
    data = found(study)
    completed = data.completed
    for _, row in completed.iloc[:: max(1, len(completed) // 8)].iterrows():
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


def test_a_study_is_never_written_over_and_names_in_cells_lead_nowhere(tmp_path: Path) -> None:
    inside = tmp_path / "copy"
    inside.mkdir()
    (inside / "runs.csv").write_bytes((STUDIES[1] / "runs.csv").read_bytes())
    assert "is a study" in export(inside, "json", inside, code=2).output
    study = found(STUDIES[1]).studies[0]
    odd = study.attempts.assign(study=f"{tmp_path}/escaped/../elsewhere")
    plugins.load("exporters", "tensorboard").get("export")(
        ReportData((type(study)(study.path, "odd", odd, study.scenario_text, study.machine),)), tmp_path / "out"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"copy", "out"}


def test_what_cannot_be_exported_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "did you mean 'junit'?" in export(STUDIES[0], "junt", tmp_path, code=2).output
    (tmp_path / "file").touch()
    assert "is no folder" in export(STUDIES[0], "json", tmp_path / "file", code=2).output
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setattr("dlbench.cli.export.find_spec", lambda name: None)
    assert "pip install tensorboard" in export(STUDIES[0], "tensorboard", tmp_path, code=2).output
