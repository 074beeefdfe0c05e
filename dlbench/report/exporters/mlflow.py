"""MLflow runs: parameters, results, curves by epoch and tags, in a file or on a tracking server."""

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dlbench.errors import UserError, shorten
from dlbench.records.outcome import Status
from dlbench.regular_file import read_regular, require_kind
from dlbench.report.data import ReportData
from dlbench.report.exporters._runs import FACTS, ExportedRun, known_values, ms, runs_of

if TYPE_CHECKING:
    from mlflow import MlflowClient

PACKAGE = "mlflow"
# Where MLflow's own tools look for a tracking server.
SERVER = "MLFLOW_TRACKING_URI"
STORE = "mlflow.db"
# How each of its databases begins.
_SQLITE = b"SQLite format 3\0"
# Of one request, as MLflow's REST interface has them; and what an experiment can be searched for at once.
_MOST_METRICS, _MOST_RUNS = 1000, 50_000
# Names of tags: which run this is.
RUN_TAG, ATTEMPT_TAG = "dlbench.run_id", "dlbench.attempt"
# No report to anyone else, no line for each run, and seconds, not minutes, for a server that does not answer.
_DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
}
# Name and password in an address, which is not printed.
_LOGIN = re.compile(r"//[^/@\s]*@")
# How MLflow calls an end.
_ENDS = {Status.COMPLETED: "FINISHED", Status.INTERRUPTED: "KILLED"}


def export(data: ReportData, output: Path) -> list[Path | str]:
    """Write a run for each run of the study, failed ones too, to `MLFLOW_TRACKING_URI` or into a SQLite file.

    What an earlier export has written stays as it is; a run that was repeated since, or written in part, is replaced.

    Raises:
        UserError: MLflow refuses it, the server cannot be reached, or SQLite needs the whole of MLflow.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    # It logs the creation of the tables in its file.
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    server = os.environ.get(SERVER, "")
    output = output.absolute()
    place = server or _sqlite(output / STORE)
    try:
        client = MlflowClient(tracking_uri=place, registry_uri=place)
        for study in data.studies:
            artifacts = "" if server else (output / "artifacts").as_uri()
            _write_study(client, study.name, runs_of(data, study.runs), artifacts)
    except MlflowException as error:
        hint = f"is {SERVER} right?" if server else "pip install mlflow, not mlflow-skinny alone"
        raise UserError(shorten(_LOGIN.sub("//", f"MLflow at {place}: {error}")), hint=hint) from error
    return [_LOGIN.sub("//", server) if server else output / STORE]


def _sqlite(path: Path) -> str:
    """Return how MLflow names a SQLite file.

    Raises:
        UserError: It would take a part of the path for something else, and write elsewhere.
        OSError: It cannot be written.
    """
    if any(mark in str(path) for mark in "?%"):
        raise UserError(f"MLflow cannot write {path}: there is a '?' or '%' in it", hint="name another --output")
    # SQLite writes these beside it.
    for suffix in ("", "-journal", "-wal", "-shm"):
        require_kind(path.with_name(path.name + suffix))
    # MLflow tries for minutes to open what it may not write.
    path.touch()
    if read_regular(path, len(_SQLITE)) not in (b"", _SQLITE):
        raise UserError("this is no SQLite database", where=str(path), hint="name another --output")
    return f"sqlite:///{path}"


def _write_study(client: "MlflowClient", name: str, runs: Iterator[ExportedRun], artifacts: str) -> None:
    existing = client.get_experiment_by_name(name)
    experiment = existing.experiment_id if existing else client.create_experiment(name, artifacts or None)
    there = {run.data.tags.get(RUN_TAG): run for run in client.search_runs([experiment], max_results=_MOST_RUNS)}
    for run in runs:
        earlier = there.get(run.row["run_id"])
        if earlier is not None:
            is_this_attempt = earlier.data.tags.get(ATTEMPT_TAG) == str(run.row["attempt"])
            if is_this_attempt and earlier.info.status != "RUNNING":
                continue
            client.delete_run(earlier.info.run_id)
        _write(client, experiment, run)


def _write(client: "MlflowClient", experiment: str, run: ExportedRun) -> None:
    from mlflow.entities import Metric, Param

    began, facts = ms(run.began_s), known_values(run.row, (*FACTS, "hostname"))
    # Without an end MLflow would take the present; where it is unknown, the run ended no earlier than it began.
    ended = ms(run.ended_s) or began or 0
    tags = {f"dlbench.{name}": shorten(str(fact)) for name, fact in facts.items() if fact != ""}
    tags[RUN_TAG] = run.row["run_id"]
    created = client.create_run(experiment, start_time=began, tags=tags, run_name=run.row["run_id"])
    # A value that is too long for MLflow is refused; lists of filters and the like are never so long.
    client.log_batch(created.info.run_id, params=[Param(name, str(value)) for name, value in run.settings.items()])
    metrics = [
        Metric(name, value, ms(epoch.ended_s) or began or 0, epoch.number)
        for epoch in run.epochs
        for name, value in epoch.values.items()
    ]
    # Results that are no curve's last value.
    others = run.results.keys() - {metric.key for metric in metrics}
    metrics += [Metric(name, run.results[name], ended, 0) for name in sorted(others)]
    for start in range(0, len(metrics), _MOST_METRICS):
        client.log_batch(created.info.run_id, metrics=metrics[start : start + _MOST_METRICS])
    client.set_terminated(created.info.run_id, _ENDS.get(Status(run.row["status"]), "FAILED"), ended)
