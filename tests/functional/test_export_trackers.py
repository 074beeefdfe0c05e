"""`dlbench export` for MLflow and Weights & Biases: read back by their own readers, from files and over HTTP."""

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import psutil
import pytest

from dlbench import plugins
from dlbench.analysis.arms import records
from dlbench.report.data import ReportData
from tests.functional.test_export import STUDIES, export, found

# Eight runs with curves, two of which diverged.
STUDY = STUDIES[1]
# MLflow's own, with the SQLAlchemy of today.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")


@pytest.fixture(autouse=True)
def no_trackers(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep out what is set on this machine for these tools, and in a folder what they write about themselves."""
    for name in [name for name in os.environ if name.startswith(("MLFLOW_", "WANDB_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


class Quiet(WSGIRequestHandler):
    """Prints no line for each request."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, no_trackers: None) -> Iterator[str]:
    """Return the address of MLflow's server without its web pages: all of its REST interface, in a thread here."""
    place = f"sqlite:///{tmp_path}/server.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.setenv("_MLFLOW_SERVER_FILE_STORE", place)
        patch.setenv("_MLFLOW_SERVER_ARTIFACT_ROOT", str(tmp_path / "artifacts"))
        patch.setenv("MLFLOW_TRACKING_URI", "")  # which the server's first answer changes
        from mlflow.server import app

        with make_server("127.0.0.1", 0, app, handler_class=Quiet) as served:
            thread = threading.Thread(target=served.serve_forever)
            thread.start()
            address = f"http://127.0.0.1:{served.server_port}"
            client_of(address).search_experiments()
            patch.delenv("MLFLOW_TRACKING_URI")
            yield address
            served.shutdown()
            thread.join()


def client_of(place: str) -> Any:
    """Return MLflow's client; only the process that takes this file is to take a second to import it."""
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=place, registry_uri=place)


def runs_at(place: str, study: Path = STUDY) -> dict[str, Any]:
    """Return the runs that MLflow has of a study, by their names in the study; each is there once."""
    client = client_of(place)
    experiment = client.get_experiment_by_name(found(study).studies[0].name)
    runs = client.search_runs([experiment.experiment_id])
    names = [run.data.tags["dlbench.run_id"] for run in runs]
    assert len(set(names)) == len(names)
    return dict(zip(names, runs, strict=True))


def compare_with_rows(place: str, runs: dict[str, Any]) -> None:
    data, client = found(STUDY), client_of(place)
    curves = records(data.epochs[data.epochs["worker"] == 0])
    assert set(runs) == {row["run_id"] for row in data.runs}
    for row in data.runs:
        run = runs[row["run_id"]]
        is_good = row["status"] == "completed"
        assert run.info.status == ("FINISHED" if is_good else "FAILED")
        assert run.info.start_time == round(row["started_at"].timestamp() * 1000)
        assert run.info.end_time - run.info.start_time == pytest.approx(1000 * row["wall_time_s"], abs=1)
        tags = {name: run.data.tags.get(f"dlbench.{name}") for name in ("label", "status", "reason", "emulated")}
        assert tags == {name: row.get(name) for name in tags}
        for name in ("model", "dataset", "strategy", "workers", "batch_size_global", "learning_rate_base"):
            assert run.data.params[name] == str(row[name]), name
        results = {name: row[name] for name in ("train_time_s", "time_to_target_s") if row.get(name) is not None}
        assert {name: run.data.metrics[name] for name in results} == results
        losses = client.get_metric_history(run.info.run_id, "validation_loss")
        own = [one for one in curves if one["run_id"] == row["run_id"]]
        assert [(one.step, one.value) for one in losses] == [(one["epoch"], one["validation_loss"]) for one in own]
        ended = [1000 * (row["started_at"].timestamp() + row["startup_time_s"] + one["ended_at_s"]) for one in own]
        assert [one.timestamp for one in losses] == pytest.approx(ended, abs=1)


def test_mlflow_has_every_run_in_a_file_and_replaces_what_was_repeated_or_written_in_part(tmp_path: Path) -> None:
    folder = tmp_path / "학습 'x #1"
    assert export(STUDY, "mlflow", folder).output.strip() == str(folder / "mlflow.db")
    place = f"sqlite:///{folder}/mlflow.db"
    first = runs_at(place)
    compare_with_rows(place, first)
    repeated, partial, *_ = first
    client_of(place).update_run(first[partial].info.run_id, status="RUNNING")
    study = found(STUDY).studies[0]
    attempts = tuple({**row, "attempt": 2} if row["run_id"] == repeated else row for row in study.attempts)
    plugins.load("exporters", "mlflow").get("export")(ReportData((replace(study, attempts=attempts),)), folder)
    second = runs_at(place)
    assert set(second) == set(first)
    assert {name for name, run in second.items() if run.info.run_id != first[name].info.run_id} == {repeated, partial}
    assert second[repeated].data.tags["dlbench.attempt"] == "2"
    assert second[partial].info.status != "RUNNING"
    assert [path.name for path in folder.iterdir()] == ["mlflow.db"]


# What MLflow's server imports.
@pytest.mark.filterwarnings("ignore:starlette.middleware.wsgi is deprecated")
def test_mlflow_has_every_run_on_a_server_and_once(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    assert export(STUDY, "mlflow", tmp_path / "out").output.strip() == server
    first = runs_at(server)
    compare_with_rows(server, first)
    export(STUDY, "mlflow", tmp_path / "out")
    assert {run.info.run_id for run in runs_at(server).values()} == {run.info.run_id for run in first.values()}
    assert not (tmp_path / "out").exists()


def test_what_mlflow_cannot_write_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(STUDY, "mlflow", tmp_path / "what?", code=2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and never listens
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:secret@127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        said = export(STUDY, "mlflow", tmp_path / "out", code=2).output
        assert "MLFLOW_TRACKING_URI" in said
        assert "secret" not in said


def test_what_a_small_mlflow_lacks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without SQLAlchemy MLflow has no store for SQLite files."""
    from mlflow.tracking._tracking_service.utils import _tracking_store_registry

    monkeypatch.delitem(_tracking_store_registry._registry, "sqlite")
    assert "pip install mlflow, not mlflow-skinny" in export(STUDY, "mlflow", tmp_path, code=2).stderr


def inspected(folder: Path, *options: str) -> str:
    """Return what wandb's reader, which `wandb leet inspect` starts, finds in the folder of an offline run."""
    from wandb.util import get_core_path

    (file,) = folder.glob("*.wandb")
    argv = [get_core_path(), "leet", "inspect", "--json", *options, "--run-file", str(file), str(folder)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


def test_wandb_reads_every_run_and_nothing_is_sent_or_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    with socket.create_server(("127.0.0.1", 0)) as internet:
        address = f"http://127.0.0.1:{internet.getsockname()[1]}"
        for name in ("WANDB_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(name, address)
        export(STUDY, "wandb", tmp_path / "out")
        internet.settimeout(0.2)
        with pytest.raises(TimeoutError):
            internet.accept()
    assert [process.name() for process in psutil.Process().children(recursive=True) if "wandb" in process.name()] == []
    data = found(STUDY)
    folders = {path.name.split("-", 3)[-1]: path for path in (tmp_path / "out" / "wandb").iterdir()}
    rows = {f"{row['run_id']}-{row['attempt']}": row for row in data.runs}
    assert set(folders) == set(rows)
    # One of each end, and a simulated one.
    for name, row in {(row["status"], row.get("emulated")): (name, row) for name, row in rows.items()}.values():
        summary = json.loads(inspected(folders[name], "--summary"))
        is_good = row["status"] == "completed"
        assert (summary["project"], summary["name"], summary["run_id"]) == (data.studies[0].name, row["run_id"], name)
        assert summary["state"] == ("finished" if is_good else "failed")
        for column in ("run_id", "label", "status", "reason", "model", "workers", "learning_rate_base", "seed"):
            assert summary["config"].get(column) == row.get(column), column
        assert summary["summary"].get("train_time_s") == row.get("train_time_s")
        lines = [json.loads(line) for line in inspected(folders[name]).splitlines()]
        history = [line["history"]["item"] for line in lines if line["type"] == "history"]
        epochs = data.epochs[(data.epochs["run_id"] == row["run_id"]) & (data.epochs["worker"] == 0)]
        assert [one["_step"] for one in history] == epochs["epoch"].tolist()
        assert [one["validation_loss"] for one in history] == pytest.approx(epochs["validation_loss"])
        began = row["started_at"].timestamp() + (row.get("startup_time_s") or 0)
        assert [one["_timestamp"] for one in history] == pytest.approx(began + epochs["ended_at_s"], abs=1e-3)


def test_wandb_keeps_what_is_there(tmp_path: Path) -> None:
    # The first two runs: wandb starts once for each.
    study = found(STUDY).studies[0]
    data, export_to = ReportData((replace(study, attempts=study.attempts[:2]),)), plugins.load("exporters", "wandb")
    export_to.get("export")(data, tmp_path)
    first = {path: path.stat().st_mtime_ns for path in (tmp_path / "wandb").iterdir()}
    removed = next(iter(first))
    for path in sorted(removed.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    removed.rmdir()
    export_to.get("export")(data, tmp_path)
    second = {path: path.stat().st_mtime_ns for path in (tmp_path / "wandb").iterdir()}
    assert len(second) == len(first) == 2
    assert {path for path in first if path in second and first[path] == second[path]} >= set(first) - {removed}
    assert [path.name for path in tmp_path.iterdir()] == ["wandb"]
