"""MLPerf logs: `:::MLLOG` lines of each completed run, a file each, as MLPerf lays out results."""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from dlbench.analysis.arms import Row
from dlbench.plugins import Options
from dlbench.records import files
from dlbench.report.data import ReportData
from dlbench.report.exporters._runs import Epoch, ExportedRun, distinct_name, runs_of
from dlbench.scenario.metrics import BUILT_IN, QUALITY, TIME_TO_TARGET
from dlbench.scenario.run_spec import arm_name

OPTIONS = Options
PACKAGE = "mlperf_logging"
# Settings by the keys that MLPerf has for them; all are as old as the run.
_SETTINGS = {
    "submission_benchmark": "model",
    "submission_platform": "device_name",
    "seed": "seed",
    "global_batch_size": "batch_size_global",
    "train_samples": "train_samples",
    "eval_samples": "validation_samples",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "opt_name": "optimizer",
    "opt_base_learning_rate": "learning_rate_base",
}
# What dlbench divides is the batch: its own models lie whole on each worker.
_UNDIVIDED = ("tensor_parallelism", "pipeline_parallelism", "context_parallelism", "expert_parallelism")
_POINT, _START, _END = "event", "start", "end"


class Event(NamedTuple):
    """One line: what happened when, in seconds since 1970; `kind` is the logger's method."""

    kind: str
    key: str
    at_s: float
    value: Any = None
    metadata: Mapping[str, Any] = MappingProxyType({})


def export(data: ReportData, output: Path) -> list[Path]:
    """Write `STUDY/results/ARM/MODEL/result_N.txt` for each completed run; an arm's repeats have one folder.

    Events whose time is not known are left out, and runs whose start is not known have no file.
    """
    scenarios = {study.name for study in data.studies if study.scenario_text}
    numbers: Counter[Path] = Counter()
    written = []
    for run in runs_of(data, data.completed):
        if run.began_s is None:
            continue
        study, model = str(run.row["study"]), str(run.row.get("model") or "script")
        folder = files.make_folder(output, *map(distinct_name, (study, "results", arm_name(run.row["run_id"]), model)))
        path = folder / f"result_{numbers[folder]}.txt"
        numbers[folder] += 1
        _write(path, [*_settings(run, run.began_s, study in scenarios), *_timeline(run, run.began_s)])
        written.append(path)
    return written


def _write(path: Path, events: Iterable[Event]) -> None:
    from mlperf_logging.mllog.mllog import MLLogger

    with files.replacing(path) as file:
        handler = logging.StreamHandler(file)
        # Not one of `logging.getLogger`, which would outlive the file.
        logger = logging.Logger("dlbench", logging.INFO)
        logger.addHandler(handler)
        # It notes where it was called: in dlbench, wherever that is installed.
        mllog = MLLogger(logger, root_dir=re.escape(str(Path(__file__).parents[3])))
        for kind, key, at_s, value, metadata in events:
            getattr(mllog, kind)(key, value, metadata=dict(metadata), time_ms=round(1000 * at_s))
        handler.flush()


def _settings(run: ExportedRun, began: float, has_scenario: bool) -> Iterator[Event]:
    """Yield what is known of a run before it starts."""
    # Caches are as the runs before left them, which is said rather than left out.
    yield Event(_POINT, "cache_clear", began, False)
    for key, column in _SETTINGS.items():
        if run.row.get(column) is not None:
            yield Event(_POINT, key, began, run.row[column])
    if has_scenario:
        yield Event(_POINT, "config_filename", began, files.SCENARIO)
    if run.row.get("command") is None:
        yield from (Event(_POINT, key, began, 1) for key in _UNDIVIDED)
        # How many samples a worker computes at once; there is no such number where these are not equally many.
        batch = (run.row.get("batch_size_per_worker") or 0) / (run.row.get("gradient_accumulation_steps") or 1)
        if batch >= 1 and batch.is_integer():
            yield Event(_POINT, "micro_batch_size", began, int(batch))


def _timeline(run: ExportedRun, began: float) -> Iterator[Event]:
    """Yield what happened when: start-up, and training from the first step to the end of the last evaluation."""
    yield Event(_START, "init_start", began)
    if run.first_step_s is None:
        return
    notes = {"run_id": run.row["run_id"]} | _known(run.row, "emulated")
    yield Event(_END, "init_stop", run.first_step_s)
    yield Event(_START, "run_start", run.first_step_s, metadata=notes)
    # Parameters of servers are scored while workers go on, and simulated ones in no simulated time.
    is_beside = run.row.get("updates") is not None
    stopped = None
    before: Row = {}
    for epoch in run.epochs:
        if epoch.ended_s is not None:
            taken = None if is_beside else epoch.row.get("evaluation_time_s")
            yield from _epoch(epoch, epoch.ended_s, before, run.first_step_s, taken)
            stopped = epoch.ended_s + (taken or 0)
        before = epoch.row
    if stopped is not None:
        # With a target, `success` means in MLPerf that it was reached.
        target = _known(run.row, "target_metric", "target_value", TIME_TO_TARGET.column)
        is_missed = "target_value" in target and TIME_TO_TARGET.column not in target
        yield Event(_END, "run_stop", stopped, metadata={"status": "aborted" if is_missed else "success", **target})


def _epoch(epoch: Epoch, end: float, before: Row, first_step: float, evaluation: float | None) -> Iterator[Event]:
    """Yield an epoch by the clock of the first worker, which stands while it evaluates or writes.

    Its evaluation follows at once, its score alone where the time of the evaluation is not known.
    """
    where = {"epoch_num": epoch.number}
    trained, earlier = epoch.row.get("train_time_s"), before.get("train_time_s")
    if before.get("ended_at_s") is None:
        yield Event(_START, "epoch_start", first_step, metadata=where)
    elif trained is not None and earlier is not None:
        yield Event(_START, "epoch_start", end - (trained - earlier), metadata=where)
    yield Event(_END, "epoch_stop", end, metadata=where)
    if evaluation is not None:
        yield Event(_START, "eval_start", end, metadata=where)
    if column := next((column for column in QUALITY if epoch.row.get(column) is not None), ""):
        yield Event(_POINT, f"eval_{BUILT_IN[column].score}", end + (evaluation or 0), epoch.row[column], where)
    if evaluation is not None:
        yield Event(_END, "eval_stop", end + evaluation, metadata=where)


def _known(row: Row, *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names if row.get(name) is not None}
