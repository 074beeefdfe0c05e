"""MLPerf logs: `:::MLLOG` lines of each completed run, a file each, as MLPerf lays out results."""

import logging
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dlbench.analysis.arms import Row, has_fixed_batch
from dlbench.records import files
from dlbench.report.data import ReportData
from dlbench.report.exporters._runs import Epoch, ExportedRun, distinct_name, known_values, ms, runs_of
from dlbench.scenario.metrics import QUALITY, TIME_TO_TARGET
from dlbench.scenario.run_spec import arm_name

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
    "opt_base_learning_rate": "learning_rate",  # after warm-up and before decay
}
# What dlbench divides is the batch: its own models lie whole on each worker.
_UNDIVIDED = ("tensor_parallelism", "pipeline_parallelism", "context_parallelism", "expert_parallelism")
# What is logged: its key, when it was in seconds since 1970, what it is about, and its value. The key of an interval
# ends in `start` or `stop`.
Event = tuple[str, float, Mapping[str, Any], Any]


def export(data: ReportData, output: Path) -> list[Path]:
    """Write `STUDY/results/ARM/MODEL/result_N.txt` for each completed run; an arm's repeats have one folder.

    Events whose time is not known are left out, and runs whose start is not known have no file.
    """
    from mlperf_logging.mllog.mllog import MLLogger

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
        # Not one of `logging.getLogger`, which would outlive the file.
        logger = logging.Logger("dlbench", logging.INFO)
        # It notes where it was called: in dlbench, wherever that is installed.
        mllog = MLLogger(logger, root_dir=re.escape(str(Path(__file__).parents[3])))
        with files.replacing(path) as file:
            logger.addHandler(logging.StreamHandler(file))
            for key, at_s, about, value in _events(run, run.began_s, study in scenarios):
                log = {"start": mllog.start, "stop": mllog.end}.get(key.rpartition("_")[2], mllog.event)
                log(key, value, about, time_ms=ms(at_s))
        written.append(path)
    return written


def _events(run: ExportedRun, began_s: float, has_scenario: bool) -> Iterator[Event]:
    """Yield what is known of a run before it starts, and what happened in it."""
    # Caches are as the runs before left them, which is said rather than left out.
    settings: dict[str, Any] = {"cache_clear": False}
    settings |= {key: run.row[column] for key, column in _SETTINGS.items() if run.row.get(column) is not None}
    if has_scenario:
        settings["config_filename"] = files.SCENARIO
    if run.row.get("command") is None:
        settings |= dict.fromkeys(_UNDIVIDED, 1)
        # How many samples a worker computes at once; there is no such number where these are not equally many.
        if (batch := _micro_batch(run.row)) is not None:
            settings |= {
                "micro_batch_size": batch,
                "gradient_accumulation_steps": round(run.row["batch_size_per_worker"] / batch),
            }
    for key, value in settings.items():
        yield key, began_s, {}, value
    yield "init_start", began_s, {}, None
    if run.first_step_s is not None:
        yield "init_stop", run.first_step_s, {}, None
        yield from _training(run, run.first_step_s)


def _micro_batch(row: Row) -> int | None:
    """Return the samples that a worker computes at once; None where these are not always equally many."""
    batch, most = row.get("batch_size_per_worker") or 0, row.get("microbatch_size")
    parts = max(row.get("gradient_accumulation_steps") or 1, math.ceil(batch / (most or batch or 1)))
    return int(batch / parts) if has_fixed_batch(row) and batch >= parts and (batch / parts).is_integer() else None


def _training(run: ExportedRun, first_step_s: float) -> Iterator[Event]:
    """Yield what happened from the first step to the end of the last evaluation."""
    yield "run_start", first_step_s, known_values(run.row, ("run_id", "emulated")), None
    # Parameters of servers are scored while workers go on, and simulated ones in no simulated time.
    is_beside = run.row.get("updates") is not None
    stopped_s = None
    names = (name for name in (run.row.get("target_metric"), *QUALITY) if name and not name.startswith("train_"))
    score = next((name for name in names if any(epoch.row.get(name) is not None for epoch in run.epochs)), "")
    befores: list[Row] = [{}, *(epoch.row for epoch in run.epochs)]
    for before, epoch in zip(befores, run.epochs, strict=False):
        if epoch.ended_s is not None:
            evaluation_s = None if is_beside else epoch.row.get("evaluation_time_s")
            stopped_s = epoch.ended_s + (evaluation_s or 0)
            yield from _epoch(epoch, before, epoch.ended_s, evaluation_s, first_step_s, score)
    if stopped_s is not None:
        # With a target, `success` means in MLPerf that it was reached.
        target = known_values(run.row, ("target_metric", "target_value", TIME_TO_TARGET.column))
        is_missed = "target_value" in target and TIME_TO_TARGET.column not in target
        yield "run_stop", stopped_s, {"status": "aborted" if is_missed else "success", **target}, None


def _epoch(
    epoch: Epoch, before: Row, ended_s: float, evaluation_s: float | None, first_step_s: float, score: str
) -> Iterator[Event]:
    """Yield an epoch by the clock of the first worker, which stands while it evaluates or writes.

    Its evaluation follows at once, its score alone where the time of the evaluation is not known.
    """
    about = {"epoch_num": epoch.number}
    trained_s, earlier_s = epoch.row.get("train_time_s"), before.get("train_time_s")
    if before.get("ended_at_s") is None:
        yield "epoch_start", first_step_s, about, None
    elif trained_s is not None and earlier_s is not None:
        yield "epoch_start", ended_s - (trained_s - earlier_s), about, None
    yield "epoch_stop", ended_s, about, None
    if evaluation_s is not None:
        yield "eval_start", ended_s, about, None
    evaluated_s = ended_s + (evaluation_s or 0)
    if epoch.row.get(score) is not None:
        yield f"eval_{score.removeprefix('validation_')}", evaluated_s, about, epoch.row[score]
    if evaluation_s is not None:
        yield "eval_stop", evaluated_s, about, None
