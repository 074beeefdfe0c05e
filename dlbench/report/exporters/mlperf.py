"""MLPerf logs: `:::MLLOG` lines of each completed run, a file each, as MLPerf lays out results."""

import logging
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dlbench.analysis.arms import Row
from dlbench.plugins import Options
from dlbench.records import files
from dlbench.report.data import ReportData
from dlbench.report.exporters._runs import Epoch, ExportedRun, distinct_name, known, ms, runs_of
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
        with files.replacing(path) as file:
            _write(file, run, run.began_s, study in scenarios)
        written.append(path)
    return written


def _write(file: IO[str], run: ExportedRun, began: float, has_scenario: bool) -> None:
    from mlperf_logging.mllog.mllog import MLLogger

    # Not one of `logging.getLogger`, which would outlive the file.
    logger = logging.Logger("dlbench", logging.INFO)
    logger.addHandler(logging.StreamHandler(file))
    # It notes where it was called: in dlbench, wherever that is installed.
    mllog = MLLogger(logger, root_dir=re.escape(str(Path(__file__).parents[3])))
    _settings(partial(mllog.event, time_ms=ms(began)), run, has_scenario)
    mllog.start("init_start", time_ms=ms(began))
    if run.first_step_s is not None:
        mllog.end("init_stop", time_ms=ms(run.first_step_s))
        _training(mllog, run, run.first_step_s)


def _settings(event: Callable[..., None], run: ExportedRun, has_scenario: bool) -> None:
    """Write what is known of a run before it starts."""
    # Caches are as the runs before left them, which is said rather than left out.
    event("cache_clear", False)
    for key, column in _SETTINGS.items():
        if run.row.get(column) is not None:
            event(key, run.row[column])
    if has_scenario:
        event("config_filename", files.SCENARIO)
    if run.row.get("command") is None:
        for key in _UNDIVIDED:
            event(key, 1)
        # How many samples a worker computes at once; there is no such number where these are not equally many.
        batch = (run.row.get("batch_size_per_worker") or 0) / (run.row.get("gradient_accumulation_steps") or 1)
        if batch >= 1 and batch.is_integer():
            event("micro_batch_size", int(batch))


def _training(mllog: "MLLogger", run: ExportedRun, first_step: float) -> None:
    """Write what happened from the first step to the end of the last evaluation."""
    notes = {"run_id": run.row["run_id"]} | known(run.row, "emulated")
    mllog.start("run_start", metadata=notes, time_ms=ms(first_step))
    # Parameters of servers are scored while workers go on, and simulated ones in no simulated time.
    is_beside = run.row.get("updates") is not None
    stopped = None
    before: Row = {}
    for epoch in run.epochs:
        if epoch.ended_s is not None:
            taken = None if is_beside else epoch.row.get("evaluation_time_s")
            _epoch(mllog, epoch, epoch.ended_s, before, first_step, taken)
            stopped = epoch.ended_s + (taken or 0)
        before = epoch.row
    if stopped is not None:
        # With a target, `success` means in MLPerf that it was reached.
        target = known(run.row, "target_metric", "target_value", TIME_TO_TARGET.column)
        is_missed = "target_value" in target and TIME_TO_TARGET.column not in target
        ended = {"status": "aborted" if is_missed else "success", **target}
        mllog.end("run_stop", metadata=ended, time_ms=ms(stopped))


def _epoch(
    mllog: "MLLogger", epoch: Epoch, end: float, before: Row, first_step: float, evaluation: float | None
) -> None:
    """Write an epoch by the clock of the first worker, which stands while it evaluates or writes.

    Its evaluation follows at once, its score alone where the time of the evaluation is not known.
    """
    where = {"epoch_num": epoch.number}
    trained, earlier = epoch.row.get("train_time_s"), before.get("train_time_s")
    if before.get("ended_at_s") is None:
        mllog.start("epoch_start", metadata=where, time_ms=ms(first_step))
    elif trained is not None and earlier is not None:
        mllog.start("epoch_start", metadata=where, time_ms=ms(end - (trained - earlier)))
    mllog.end("epoch_stop", metadata=where, time_ms=ms(end))
    evaluated = ms(end + (evaluation or 0))
    if evaluation is not None:
        mllog.start("eval_start", metadata=where, time_ms=ms(end))
    if column := next((column for column in QUALITY if epoch.row.get(column) is not None), ""):
        mllog.event(f"eval_{BUILT_IN[column].score}", epoch.row[column], where, time_ms=evaluated)
    if evaluation is not None:
        mllog.end("eval_stop", metadata=where, time_ms=evaluated)
