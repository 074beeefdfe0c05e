"""MLPerf logs: `:::MLLOG` lines of each completed run, a file each, as MLPerf lays out results."""

import logging
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbench.analysis.arms import Row
from dlbench.plugins import Options
from dlbench.records import files
from dlbench.report.data import ReportData
from dlbench.report.exporters._runs import ExportedRun, distinct_name, runs_of
from dlbench.scenario.metrics import BUILT_IN, QUALITY, TIME_TO_TARGET
from dlbench.scenario.run_spec import arm_name

if TYPE_CHECKING:
    from mlperf_logging.mllog.mllog import MLLogger

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


@dataclass(frozen=True)
class Event:
    """One line: what happened when, in seconds since 1970; `kind` is the logger's method."""

    kind: str
    key: str
    at_s: float
    value: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)


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
        study, arm, model = str(run.row["study"]), arm_name(run.run_id), str(run.row.get("model") or "script")
        parts = (distinct_name(study), "results", distinct_name(arm), distinct_name(model))
        folder = files.make_folder(output, *parts)
        path = folder / f"result_{numbers[folder]}.txt"
        numbers[folder] += 1
        _write(path, [*_settings(run, run.began_s, run.row["study"] in scenarios), *_timeline(run, run.began_s)])
        written.append(path)
    return written


def _write(path: Path, events: list[Event]) -> None:
    with files.replacing(path) as file:
        handler = logging.StreamHandler(file)
        logger = _logger(handler)
        for event in events:
            getattr(logger, event.kind)(
                event.key, event.value, metadata=event.metadata, time_ms=round(1000 * event.at_s)
            )
        handler.flush()


def _logger(handler: logging.Handler) -> "MLLogger":
    from mlperf_logging.mllog.mllog import MLLogger

    # Not one of `logging.getLogger`, which would outlive the file.
    logger = logging.Logger("dlbench", logging.INFO)
    logger.addHandler(handler)
    # It notes where it was called: in dlbench, wherever that is installed.
    return MLLogger(logger, root_dir=re.escape(str(Path(__file__).parents[3])))


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
        if (batch := _micro_batch(run.row)) is not None:
            yield Event(_POINT, "micro_batch_size", began, batch)


def _micro_batch(row: Row) -> int | None:
    """Return how many samples a worker computes at once; None where these are not equally many."""
    batch = (row.get("batch_size_per_worker") or 0) / (row.get("gradient_accumulation_steps") or 1)
    return int(batch) if batch >= 1 and batch.is_integer() else None


def _timeline(run: ExportedRun, began: float) -> Iterator[Event]:
    """Yield what happened when: start-up, and training from the first step to the end of the last evaluation."""
    yield Event(_START, "init_start", began)
    if run.first_step_s is None:
        return
    notes = {"run_id": run.run_id} | {name: run.row[name] for name in ("emulated",) if run.row.get(name)}
    yield Event(_END, "init_stop", run.first_step_s)
    yield Event(_START, "run_start", run.first_step_s, metadata=notes)
    # Parameters of servers are scored while workers go on, and simulated ones in no simulated time.
    is_beside = run.row.get("updates") is not None
    end = None
    before: Row = {}
    for epoch in run.epochs:
        end = run.at_s(epoch)
        if end is not None:
            taken = None if is_beside else epoch.get("evaluation_time_s")
            yield from _epoch(epoch, before, run.first_step_s, end)
            yield from _evaluation(epoch, end, taken)
            end += taken or 0
        before = epoch
    if end is not None:
        yield Event(_END, "run_stop", end, metadata=_status(run.row))


def _epoch(epoch: Row, before: Row, first_step: float, end: float) -> Iterator[Event]:
    """Yield an epoch by the clock of the first worker."""
    where = {"epoch_num": int(epoch["epoch"])}
    started = _start_of(epoch, before, first_step, end)
    if started is not None:
        yield Event(_START, "epoch_start", started, metadata=where)
    yield Event(_END, "epoch_stop", end, metadata=where)


def _evaluation(epoch: Row, end: float, taken: float | None) -> Iterator[Event]:
    """Yield an evaluation, which follows its epoch at once; its score alone where its time is not known."""
    where = {"epoch_num": int(epoch["epoch"])}
    if taken is not None:
        yield Event(_START, "eval_start", end, metadata=where)
    if column := next((column for column in QUALITY if epoch.get(column) is not None), ""):
        yield Event(_POINT, f"eval_{BUILT_IN[column].score}", end + (taken or 0), epoch[column], where)
    if taken is not None:
        yield Event(_END, "eval_stop", end + taken, metadata=where)


def _start_of(epoch: Row, before: Row, first_step: float, end: float) -> float | None:
    """Return when an epoch started: training time goes on with it, but not while workers evaluate or write."""
    if before.get("ended_at_s") is None:
        return first_step
    times = epoch.get("train_time_s"), before.get("train_time_s")
    return None if times[0] is None or times[1] is None else end - (times[0] - times[1])


def _status(row: Row) -> dict[str, Any]:
    """Return how a run ended in MLPerf's sense: with a target, `success` means that it was reached."""
    target = {
        name: row[name]
        for name in ("target_metric", "target_value", TIME_TO_TARGET.column)
        if row.get(name) is not None
    }
    is_missed = row.get("target_value") is not None and row.get(TIME_TO_TARGET.column) is None
    return {"status": "aborted" if is_missed else "success", **target}
