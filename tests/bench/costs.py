"""What dlbench costs beside training: start, reports, reduction, reporter and sensors, telemetry."""

import csv
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import yaml

from dlbench import plugins
from dlbench.records.assignment import ATTEMPT_VARIABLE, VARIABLE, Assignment
from dlbench.records.noise import noise
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.telemetry.messages import STEP_FIELDS
from dlbench.telemetry.reporter import Reporter
from dlbench.telemetry.server import TelemetryServer
from tests.bench import reports, telemetry, training
from tests.bench.commands import BIN, ROOT, THREADS, dlbench_row, last_json, mpirun, output, prepared, variables
from tests.bench.observed_program import WITHOUT_NORMS
from tests.bench.rows import Found
from tests.bench.training import Case, Measure
from tests.unit.telemetry.fake_server import FakeServer, Unwatched

NUMPY_RUN = {"trainer": "numpy", "model": "softmax", "dataset": "digits", "epochs": 3, "cores_per_worker": 1}
REDUCED_MB = 44.7
# The gradient of ResNet-18, and its thousandth part, for whose least value a copy of it is searched.
GRADIENT = 11_173_962
SEARCHED = GRADIENT // 1000
# After that long another program computes.
SETTLED_S = 0.3


def show_help() -> Found:
    """Measure `dlbench --help`."""
    started = perf_counter()
    subprocess.run([str(BIN / "dlbench"), "--help"], stdout=subprocess.DEVNULL, check=True)
    return {"dlbench --help": (perf_counter() - started, "s")}


def numpy_run() -> Found:
    """Measure one NumPy run from launch to end, and as a whole command."""
    row = dlbench_row(NUMPY_RUN | {"strategy": "single"})
    return {
        "NumPy run, launch to end": (float(row["wall_time_s"]), "s"),
        "NumPy run, whole command, start to row": (row["command_s"], "s"),
    }


def check(title: str, scenario: Mapping[str, Any]) -> Found:
    """Measure `dlbench check` of a scenario."""
    with tempfile.TemporaryDirectory(prefix="dlbench-bench-") as folder:
        path = Path(folder) / "bench.yaml"
        path.write_text(yaml.safe_dump(dict(scenario)))
        started = perf_counter()
        output([str(BIN / "dlbench"), "check", str(path), "--studies", folder])
        return {title: (perf_counter() - started, "s")}


def small_check() -> Found:
    """Measure the check of one NumPy run."""
    return check("dlbench check, one run", {"base": NUMPY_RUN | {"strategy": "single"}})


def large_check() -> Found:
    """Measure the check of 15,000 runs."""
    rates = [round(1e-4 * (number + 1), 4) for number in range(500)]
    matrix = {"learning_rate": rates, "batch_size": [8, 16, 32], "momentum": [0.5, 0.9]}
    base = NUMPY_RUN | {"strategy": "single"}
    return check("dlbench check, 15,000 runs", {"base": base, "matrix": matrix, "baseline": "none", "repeats": 5})


def gaps() -> Found:
    """Measure the time from the end of each run of a study to the launch of the next."""
    with tempfile.TemporaryDirectory(prefix="dlbench-bench-") as folder:
        path = Path(folder) / "bench.yaml"
        path.write_text(yaml.safe_dump({"base": NUMPY_RUN | {"strategy": "single"}, "repeats": 20}))
        output([str(BIN / "dlbench"), "run", str(path), "--output", folder])
        (table,) = Path(folder).glob("bench-*/runs.csv")
        with table.open(newline="") as file:
            runs = [(datetime.fromisoformat(row["started_at"]).timestamp(), float(row["wall_time_s"]))
                    for row in csv.DictReader(file)]  # fmt: skip
    between = [later - earlier - took for (earlier, took), (later, _) in pairwise(sorted(runs))]
    return {
        "from a run's end to the next launch, median of 19": (median(between), "s"),
        "from a run's end to the next launch, longest of 19": (max(between), "s"),
    }


def core_of(duration_s: float, *, is_busy: bool) -> Found:
    """Measure what `noise` says of the first core in so many seconds, with and without another program on it."""
    core = min(os.sched_getaffinity(0))
    words = ["taskset", "--cpu-list", str(core), sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(words) if is_busy else nullcontext() as other:
        time.sleep(SETTLED_S)
        started = perf_counter()
        found = noise(duration_s)
        took_s = perf_counter() - started
        if other is not None:
            other.kill()
    name = "the first core, busy" if is_busy else "the first core, free"
    return {
        f"{name}: best speed": (found["spin_best_per_s_by_core"][str(core)] / 1e6, "million loops/s"),
        f"{name}: share of its time": (found["spin_share_by_core"][str(core)], ""),
        f"{name}: longest interruption": (1000 * found["spin_longest_s"], "ms"),
        f"{name}: time it takes": (took_s, "s"),
    }


def coded(name: str, options: Mapping[str, Any]) -> Found:
    """Measure a compressor on a gradient of ResNet-18: how much of it is encoded and decoded in a second."""
    plugin, gradient = plugins.load("compressors", name), _gradient()
    compressor = plugin.get("create")(plugin.options(**options), GRADIENT, gradient.dtype, 1.0)
    started = perf_counter()
    payload = compressor.encode(gradient)
    encoded, total = perf_counter(), np.zeros_like(gradient)
    ready = perf_counter()
    compressor.decode(payload, total)
    rates = gradient.nbytes / 1e9 / (encoded - started), gradient.nbytes / 1e9 / (perf_counter() - ready)
    return {"encoding": (rates[0], "GB/s"), "decoding": (rates[1], "GB/s")}


def copied() -> Found:
    """Measure a copy of the gradient, and a search for the largest of its values without sorting them."""
    gradient = _gradient()
    other, magnitudes = np.zeros_like(gradient), np.abs(gradient)
    started = perf_counter()
    np.copyto(other, gradient)
    ended = perf_counter()
    magnitudes.partition(GRADIENT - SEARCHED)
    found = gradient.nbytes / 1e9 / (ended - started), gradient.nbytes / 1e9 / (perf_counter() - ended)
    return {"encoding": (found[0], "GB/s"), "searching": (found[1], "GB/s")}


@cache
def _gradient() -> Any:
    return (np.random.default_rng(0).standard_normal(GRADIENT) * 1e-3).astype(np.float32)


def added(case: Case) -> dict[str, Measure]:
    """Return two epochs by dlbench, as the whole command and as the run within it, and by the plain script."""
    case = replace(case, warmup=0)
    steps = 2 * case.samples // (training.WORKERS * training.BATCH_SIZE)
    command, run = (f"{case.model}, {steps} steps, {part}" for part in ("whole command", "run from launch to end"))

    def ours() -> Found:
        row = dlbench_row(training.settings_of(case, steps))
        return {command: (row["command_s"], "s"), run: (float(row["wall_time_s"]), "s")}

    def script() -> Found:
        started = perf_counter()
        training.plain(case, "plain_keras_mpi", steps)
        took = (perf_counter() - started, "s")
        return {command: took, run: took}

    return {"dlbench": ours, "plain mpi": script}


@cache
def small_and_large() -> tuple[tempfile.TemporaryDirectory[str], Path, Path]:
    """Return a folder that lives as long as this process, a study of the quickstart, and one of a thousand runs."""
    folder = tempfile.TemporaryDirectory(prefix="dlbench-bench-")
    here = Path(folder.name)
    scenario = ROOT / "scenarios" / "quickstart.yaml"
    output([str(BIN / "dlbench"), "run", str(scenario), "--output", str(here / "studies")])
    return folder, next((here / "studies").iterdir()), reports.large_study(here / "large")


def report(title: str, place: int) -> Found:
    """Measure `dlbench report` of one of these studies."""
    folder, *studies = small_and_large()
    took_s, memory = reports.report_of([studies[place]], Path(folder.name) / "report")
    return {title: (took_s, "s"), f"{title}, most memory of its processes": (memory / 2**20, "MiB")}


def reduction(turns: int) -> list[dict[str, Found]]:
    """Return, turn by turn, the speed of each way to reduce ResNet-18's gradients over two ranks."""
    found = last_json(output(mpirun(2, "-m", "tests.bench.reduction_program", str(turns)), variables("mpi")))
    what = f"{REDUCED_MB} MB, 2 workers"
    return [
        {side: {what: (REDUCED_MB / 1e3 / took[turn], "GB/s")} for side, took in found.items()} for turn in range(turns)
    ]


def simulation(num_workers: int, updates: int) -> Found:
    """Measure so many simulated asynchronous workers with so many updates each, on one core."""
    core = str(min(os.sched_getaffinity(0)))
    words = [sys.executable, "-m", "tests.bench.simulation_program", str(num_workers), str(updates)]
    found = last_json(output(["taskset", "--cpu-list", core, *words], THREADS))
    what = f"{num_workers:,} workers, {updates} updates each"
    return {
        f"{what}: time": (found["seconds"], "s"),
        f"{what}: events": (found["events"] / found["seconds"], "events/s"),
        f"{what}: memory of the process": (found["memory_bytes"] / 2**20, "MiB"),
    }


def send() -> Found:
    """Measure how long 400,000 rows of steps take from the training thread to the server's side of a connection."""
    block = np.random.default_rng(0).random((4000, len(STEP_FIELDS)))
    with FakeServer() as server:
        reporter = Reporter(server.assignment(flush_interval_s=0.5), 0, Unwatched)
        started = perf_counter()
        for _ in range(100):
            reporter.send_steps(block)
        if not reporter.close(600):
            raise RuntimeError("the rows did not arrive")
        return {f"{100 * block.nbytes / 1e6:.1f} MB of step rows are acknowledged": (perf_counter() - started, "s")}


def telemetry_of(num_workers: int, seconds: float) -> Found:
    """Measure one telemetry server under the reports of so many workers."""
    load = telemetry.measure(num_workers, seconds)
    p50, p99 = np.percentile(load.delays_s, [50, 99])
    title = f"{num_workers:,} workers, {load.rows / load.seconds:,.0f} rows/s"
    return {
        f"{title}: rows lost of {load.rows:,}": (load.rows_lost, "rows"),
        f"{title}: server": (100 * load.server_cpu, "% of a core"),
        f"{title}: memory": (load.server_memory_bytes / 2**20, "MiB"),
        f"{title}: acknowledged after, median": (1e3 * p50, "ms"),
        f"{title}: acknowledged after, 99%": (1e3 * p99, "ms"),
        f"{title}: the imitated workers were late, 99%": (1e3 * load.lag_s, "ms"),
    }


def observers(case: Case, window_s: float) -> dict[str, Measure]:
    """Return dlbench's loop with reporter and sensors, and without both."""
    steps = training.steps_of(case, window_s)
    return {
        "reporter and sensors": lambda: case.found(observed(case, steps, True)),
        "neither": lambda: case.found(observed(case, steps, False)),
    }


def noise_scale(case: Case, window_s: float) -> dict[str, Measure]:
    """Return dlbench's loop with the norms that the gradient noise scale is made of, and without."""
    steps = training.steps_of(case, window_s)
    return {
        "norms of gradients": lambda: case.found(observed(case, steps, False)),
        "none": lambda: case.found(observed(case, steps, False, WITHOUT_NORMS)),
    }


def observed(case: Case, steps: int, is_observed: bool, *words: str) -> float:
    """Run dlbench's loop on two ranks; return the samples/s of both after the first step.

    Args:
        case: The model and its data.
        steps: Of each rank.
        is_observed: Whether reporter and sensors work.
        words: Arguments of the program.
    """
    settings: dict[str, Any] = training.settings_of(case, steps) | {"communicator": "mpi", "algorithm": "auto"}
    options = {name: settings.pop(name) for name in list(settings) if "." in name}
    run = RunSpec(scenario="bench", label="", repeat=0, settings=Settings(**settings), options=options)
    ranks = range(training.WORKERS)
    places = tuple(Place(rank=rank, workers=(rank,), local_index=rank, cores=(rank,)) for rank in ranks)
    data = prepared(case.dataset, dict(case.options))
    with tempfile.TemporaryDirectory(prefix="dlbench-bench-") as logs, TelemetryServer() as server:
        given = Assignment(
            run=run,
            attempt=1,
            attempt_id=secrets.token_hex(8),
            layout=Layout(places=places, intra_op_threads=1, inter_op_threads=1),
            endpoint=server.endpoint() if is_observed else None,
            data_folder=data["folder"],
            data_checksum=data["checksum"],
            log_folder=logs,
        )
        with server.expect(given, Path(logs) / "journal.jsonl") if is_observed else nullcontext():
            known = {VARIABLE: given.model_dump_json(), ATTEMPT_VARIABLE: given.attempt_id}
            argv = mpirun(training.WORKERS, "-m", "tests.bench.observed_program", *words)
            return training.rate_of(last_json(output(argv, variables("mpi") | known)))
