"""ReportData for tests: a few dicts become studies."""

import json
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dlbench.analysis.arms import are_numbers, measured
from dlbench.records import files
from dlbench.records.columns import SCHEMA_VERSION, TABLES, names
from dlbench.records.machine import read_machine
from dlbench.records.tables import write_table
from dlbench.report.chart import Chart, Panel, Series
from dlbench.report.data import ReportData, StudyData

Row = dict[str, Any]

# What tells arms from each other here: what is not given by a test is the same in all of them.
SETTINGS: Row = {
    "model": "mlp", "dataset": "digits", "trainer": "numpy", "strategy": "mpi", "command": None,
    "mode": "scale-up", "workers": 1, "workers_per_host": None, "cores_per_worker": 1.0,
    "batch_scope": "per-worker", "batch_size": 32, "divide": "data", "epochs": 4, "optimizer": "sgd",
    "momentum": 0.9, "nesterov": False, "weight_decay": 0.0, "gradient_accumulation_steps": 1,
    "learning_rate_base": 0.1, "learning_rate_base_batch": 32, "learning_rate_scale": "none",
    "warmup_epochs": 0.0, "precision": "float32", "input": "mapped", "augmentation": "none", "jit_compile": False,
    "train_samples": 1438,
}  # fmt: skip
# What goes with a strategy, that of most with all others: who starts it and what carries its messages.
PARTS: dict[str, Row] = {
    "single": {"communicator": None, "algorithm": None, "collectives": None, "launcher": "local"},
    "horovod": {"communicator": None, "algorithm": None, "collectives": "gloo", "launcher": "horovodrun"},
    "mpi": {"communicator": "mpi", "algorithm": "auto", "collectives": "mpi", "launcher": "mpirun"},
}
# What a cell of each column of `runs.csv` becomes when it is read.
TYPES = {
    "text": str,
    "int": int,
    "float": float,
    "bool": bool,
    "time": lambda text: pd.Timestamp(text).tz_convert("UTC"),
}
KINDS = {column.name: TYPES[column.kind] for column in TABLES["runs"]}
UTILISATION = ("cpu", "utilization")
LAUNCHING = ("algorithm", "communicator", "collectives", "launcher", "emulated", "baseline")


def report_data(
    *runs: Mapping[str, Any],
    tmp_path: Path,
    epochs: Iterable[Mapping[str, Any]] = (),
    sensors: Iterable[Mapping[str, Any]] = (),
    batch_changes: Iterable[Mapping[str, Any]] = (),
    scenario: str = "",
    machine: Mapping[str, Any] | None = None,
) -> ReportData:
    """Return a study for each value of `study`, as reading its folder does, in a fiftieth of the time.

    Args:
        runs: What differs from a plausible completed run (`run`), or whole rows; keys with a dot are options.
        tmp_path: Where the folders are made.
        epochs: Rows of `epochs.csv`, each with its run_id (and `study`, where several have it). No row, no file.
        sensors: The same of `sensors.csv`.
        batch_changes: The same of `batch_changes.csv`.
        scenario: Text of each study's `scenario.yaml`; none where empty.
        machine: What each study's `machine.json` holds; no file where None.
    """
    filled = [dict(row) if set(row) >= set(names("runs")) else run(**row) for row in runs]
    studies = []
    for name in dict.fromkeys(row["study"] for row in filled):
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        rows = typed([row for row in filled if row["study"] == name])
        run_ids = {row["run_id"] for row in rows}
        tables = {"epochs": epochs, "sensors": sensors, "batch_changes": batch_changes}
        for table, others in tables.items():
            own = [row for row in others if row["run_id"] in run_ids and row.get("study", name) == name]
            if own:
                write_table(folder / files.table(table), table, [{"attempt": 1, "worker": 0, **row} for row in own])
        if machine is not None:
            (folder / files.MACHINE).write_text(json.dumps(machine), encoding="utf-8")
        results = tuple(measured(rows))
        searches = tuple(row for row in rows if row not in results)
        studies.append(StudyData(folder, name, results, scenario, read_machine(folder / files.MACHINE), searches))
    return ReportData(tuple(studies))


def typed(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return rows as they are after writing and reading them: types by column, and no column that no row has."""
    options = dict.fromkeys(key for row in rows for key in row if key not in KINDS)
    found: list[Row] = [{} for _ in rows]
    for name in (*KINDS, *options):
        cells = [row.get(name) for row in rows]
        known = [cell for cell in cells if cell is not None]
        if not known:
            continue
        as_type = KINDS.get(name) or next(
            (kind for kind in (bool, int) if all(type(cell) is kind for cell in known)),
            float if are_numbers(known) else str,
        )
        for row, cell in zip(found, cells, strict=True):
            row[name] = None if cell is None else as_type(cell)
    return found


def run(**values: Any) -> Row:
    """Return a whole row of `runs.csv`: what is given, what follows from it, and plausible values for the rest.

    Its run_id follows from the settings and the repeat, so that repeats of one arm share their arm's name. A run
    that is not completed has no results but those that are given.
    """
    strategy = values.get("strategy", SETTINGS["strategy"])
    told = {**SETTINGS, **PARTS.get(strategy, PARTS["mpi"]), "emulated": None, "baseline": False, **values}
    found = {**dict.fromkeys(names("runs")), **_following(told), **told}
    found["workers_per_host"] = told["workers_per_host"] or -(-told["workers"] // found["hosts"])
    failure = {"reason": "worker 0: RuntimeError: out of luck", "exit_code": 1}
    found |= (_results(found, values) if found["status"] == "completed" else failure) | values
    found["run_id"] = values.get("run_id") or f"{_arm(told)}-r{found['repeat']}"
    return found


def _following(told: Row) -> Row:
    """Return what every run has, completed or not, and what follows from its settings."""
    workers, batch = told["workers"], told["batch_size"]
    is_global = told["batch_scope"] == "global"
    by_mode = {"scale-up": 1, "scale-out": workers}
    return {
        "study": "study", "scenario": "study", "attempt": 1, "repeat": 0, "status": "completed", "exit_code": 0,
        "label": f"{told['strategy']} workers={workers} batch_size={batch}", "processes": workers, "servers": 0,
        "started_at": "2026-11-21T04:15:30.177+00:00", "schema_version": SCHEMA_VERSION, "wall_time_s": 9.0,
        "dataset_checksum": "7f91", "submitter": "direct", "backend": "numpy", "cores_enforced": "affinity",
        "hosts": by_mode.get(told["mode"]) or -(-workers // (told["workers_per_host"] or 1)),
        "intra_op_threads": 1, "inter_op_threads": 1,
        "batch_size_per_worker": batch / workers if is_global else float(batch),
        "batch_size_global": batch if is_global else batch * workers, "epochs_per_worker": told["epochs"],
        "learning_rate": told["learning_rate_base"], "seed": told.get("repeat", 0), "evaluate_every": 1,
        "evaluation_batch_size": 256, "extend_window": True, "sample_every": 50, "sensor_interval_s": 1.0,
        "validation_fraction": 0.2, "device_name": "AMD EPYC", "dlbench_version": "0.1.0",
        "python_version": "3.11.7", "numpy_version": "2.4.6",
    }  # fmt: skip


def _arm(told: Row) -> str:
    """Return a slug and a number that follow from the settings alone."""
    known = {key: value for key, value in told.items() if key in SETTINGS or key in LAUNCHING or "." in key}
    number = zlib.crc32(json.dumps(known, sort_keys=True).encode())
    return f"{told['model']}-{told['strategy']}-w{told['workers']}-b{told['batch_size']}-{number:08x}"


def _results(found: Row, values: Mapping[str, Any]) -> Row:
    """Return what a completed run measured: by default each worker trains 1000 samples a second."""
    workers, global_batch = found["workers"], found["batch_size_global"]
    rate = values.get("samples_per_s", 1000.0 * workers)
    steps = max(1, found["epochs"] * (found["train_samples"] // global_batch))
    time_s = values.get("train_time_s", steps * global_batch / (rate or 1000.0 * workers))
    return {
        "epochs_completed": found["epochs"], "num_parameters": 9610, "flops_per_sample": 56832.0,
        "validation_samples": 359, "samples_seen": steps * global_batch, "steps": steps,
        "samples_dropped": max(0, found["epochs"] * found["train_samples"] - steps * global_batch),
        "startup_time_s": 2.0, "first_step_s": 0.1, "train_time_s": time_s, "evaluation_time_s": 0.1,
        "timed_window_s": 5.0, "timed_steps": 100, "extended_steps": 0, "warmup_steps": 10, "warmup_detected": True,
        "sampled_steps": 2, "data_wait_s": 0.1, "compute_time_s": 4.0, "communication_time_s": 0.5,
        "update_time_s": 0.4, "wall_time_s": (time_s or 6.0) + 3.0, "samples_per_s": rate,
        "samples_per_s_per_worker": rate and rate / workers, "step_time_p50_s": 0.05, "step_time_p95_s": 0.06,
        "train_loss": 0.2, "train_accuracy": 0.9, "validation_loss": 0.3, "validation_accuracy": 0.85,
        "best_validation_accuracy": 0.86, "bytes_sent": 0 if workers == 1 else 1 << 20, "device_utilization": 0.9,
        "host_memory_peak_bytes": 1 << 29, "network_bytes": 1000, "steal_fraction": 0.0, "observer_cpu_s": 0.01,
        "workers_agree": "exact",
    }  # fmt: skip


def repeats(number: int, /, **values: Any) -> list[Row]:
    """Return so many repeats of one arm: of a list as long as that, each of them gets a value (but not of options)."""

    def is_of_repeats(key: str) -> bool:
        return isinstance(values[key], list | tuple) and len(values[key]) == number and "." not in key

    several = [key for key in values if is_of_repeats(key)]
    return [run(**values | {"repeat": n} | {key: values[key][n] for key in several}) for n in range(number)]


def base_line(number: int = 1, /, **values: Any) -> list[Row]:
    """Return so many repeats of one worker alone, as dlbench adds them to a study."""
    return repeats(number, **{"strategy": "single", "workers": 1, "baseline": True, **values})


def epochs_of(of: Mapping[str, Any], *, slowest: float = 1.0, **columns: Sequence[Any]) -> list[Row]:
    """Return rows of `epochs.csv` for each worker of a run: an epoch for each value of the given columns.

    Args:
        of: A row of `run`.
        slowest: The last worker's times are so many times the first one's.
        columns: Values by epoch, such as `train_loss=[2.0, 1.0]`; what is not given is plausible.
    """
    length = max((len(values) for values in columns.values()), default=of["epochs"])
    each = max(1, (of["steps"] or length) // length)
    found = []
    for worker in range(of["workers"]):
        is_last = worker == of["workers"] - 1
        for epoch in range(1, length + 1):
            row: Row = {
                "study": of["study"], "run_id": of["run_id"], "attempt": of["attempt"], "worker": worker,
                "epoch": epoch, "steps": each * epoch, "samples": each * of["batch_size"],
                "learning_rate": of["learning_rate"], "train_time_s": 1.0 * epoch, "ended_at_s": 1.1 * epoch,
                "train_loss": 2.0 / epoch, "train_accuracy": 1 - 0.5 / epoch, "validation_loss": 2.2 / epoch,
                "validation_accuracy": 1 - 0.6 / epoch, "evaluated_samples": 359, "evaluation_time_s": 0.1,
                "trained_in_attempt": of["attempt"], **{key: values[epoch - 1] for key, values in columns.items()},
            }  # fmt: skip
            if is_last and worker and row["train_time_s"] is not None:
                row["train_time_s"] *= slowest
            found.append(row)
    return found


def readings(
    of: Mapping[str, Any], values: Iterable[float], what: tuple[str, str] = UTILISATION, worker: int = 0, **more: float
) -> list[Row]:
    """Return rows of `sensors.csv`: one reading a second, from 0 s on or from `start`, `every` so many seconds."""
    start, every = more.get("start", 0.0), more.get("every", 1.0)
    return [
        {"run_id": of["run_id"], "study": of["study"], "worker": worker, "at_s": start + every * number,
         "sensor": what[0], "quantity": what[1], "value": value}
        for number, value in enumerate(values)
    ]  # fmt: skip


def panel(chart: Chart, title: str) -> Panel:
    """Return the one panel of this title."""
    (found,) = [one for one in chart.panels if one.title == title]
    return found


def line(panel: Panel, label: str, *, emulated: str = "") -> Series:
    """Return the one series of this label, real unless reasons are given."""
    (found,) = [one for one in panel.series if (one.label, one.emulated) == (label, emulated)]
    return found


def medians(series: Series) -> dict[float, float | None]:
    """Return the value at each place of a series; None where no run has one."""
    return {mark.x: mark.interval and mark.interval.value for mark in series.marks}
