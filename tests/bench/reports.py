"""Studies to report on, and what a report takes: seconds of the whole command, and memory of its processes."""

import contextlib
import subprocess
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import psutil

from dlbench.records import files
from dlbench.records.tables import lines_of, write_lines, write_table
from tests.bench.commands import BIN, ROOT
from tests.unit.report.figures.makers import Row, base_line, epochs_of, repeats

# How often memory is looked at; what processes share is counted in each of them.
LOOK_S = 0.05
REPEATS = 10
STEPS = 1_000
READINGS = 20
FAILING = 0.02
# Settings of the arms of a study of a thousand runs; with the four base lines there are a hundred arms.
STRATEGIES, WORKERS, BATCHES = ("mpi", "horovod", "mirrored"), (1, 2, 4, 8), (8, 16, 32, 64, 128, 256, 512, 1024)


def report_of(studies: Sequence[Path], output: Path) -> tuple[float, int]:
    """Return the seconds that `dlbench report` took, and the most resident memory of its processes together, in bytes.

    Raises:
        CalledProcessError: It failed.
    """
    argv = [str(BIN / "dlbench"), "report", *map(str, studies), "--output", str(output)]
    started, most = perf_counter(), 0
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            most = max(most, _resident(process.pid))
            time.sleep(LOOK_S)
    took_s = perf_counter() - started
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, argv)
    return took_s, most


def _resident(pid: int) -> int:
    """Return the resident memory of a process and all that it has started."""
    found = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                found += process.memory_info().rss
    return found


def large_study(folder: Path) -> Path:
    """Write a study of 1,000 runs with 1,000,000 rows of steps, and rows of epochs and sensors; return its folder.

    Ten repeats of a hundred arms: three strategies at four numbers of workers and eight batch sizes, and
    base lines. Numbers scatter by 3%, and some runs failed.
    """
    generator = np.random.default_rng(0)
    runs = list(_runs(generator))
    completed = [run for run in runs if run["status"] == "completed"]
    folder.mkdir(parents=True)
    write_table(folder / files.table("runs"), "runs", runs)
    write_table(folder / files.table("epochs"), "epochs", (row for run in completed for row in _epochs(run)))
    write_table(folder / files.table("sensors"), "sensors", (row for run in runs for row in _readings(run)))
    write_lines(folder / files.table("steps"), "steps", (text for run in runs for text in _steps(run, generator)))
    return folder


def _runs(generator: np.random.Generator) -> Iterator[Row]:
    for strategy, workers, batch in product(STRATEGIES, WORKERS, BATCHES):
        yield from _arm(generator, strategy=strategy, workers=workers, batch_size=batch)
    for batch in BATCHES[::2]:
        rates = _scattered(generator, 900.0 * batch / (batch + 20.0))
        yield from base_line(REPEATS, batch_size=batch, samples_per_s=rates)


def _arm(generator: np.random.Generator, **settings: Any) -> list[Row]:
    batch, workers = settings["batch_size"], settings["workers"]
    rates = _scattered(generator, 900.0 * workers**0.9 * batch / (batch + 20.0))
    accuracies = _scattered(generator, 0.95 - 0.0001 * batch * workers)
    rows = repeats(REPEATS, samples_per_s=rates, validation_accuracy=accuracies, epochs=10, **settings)
    return [
        row if generator.random() > FAILING else repeats(1, **settings, epochs=10, status="failed")[0] | {
            "repeat": row["repeat"], "run_id": row["run_id"]
        }
        for row in rows
    ]  # fmt: skip


def _scattered(generator: np.random.Generator, middle: float) -> list[float]:
    found: list[float] = (middle * generator.normal(1.0, 0.03, REPEATS)).tolist()
    return found


def _epochs(run: Row) -> list[Row]:
    """Return a row for each epoch of the first two workers: who has more writes more of the same."""
    rows = epochs_of(run)
    return [{"attempt": 1, **row} for row in rows if row["worker"] < 2]


def _readings(run: Row) -> Iterator[Row]:
    for number in range(READINGS):
        for quantity, value in (("utilization", 0.5 + 0.02 * number), ("rss_bytes", 1e8 + 1e6 * number)):
            sensor = "cpu" if quantity == "utilization" else "memory"
            yield {
                "run_id": run["run_id"], "attempt": 1, "worker": 0, "at_s": float(number), "sensor": sensor,
                "quantity": quantity, "value": value,
            }  # fmt: skip


def _steps(run: Row, generator: np.random.Generator) -> Iterator[str]:
    """Yield the lines of a run's steps, in the order of the table's columns."""
    times = generator.lognormal(-3.0, 0.1, STEPS)
    numbers = np.arange(1, STEPS + 1)
    yield from lines_of(
        [
            run["run_id"], "1", "0", numbers, np.ones(STEPS, np.int64), 1 + numbers * 10 // (STEPS + 1),
            "timed", np.full(STEPS, run["batch_size"]), np.cumsum(times), times, 0.1 * times, 0.6 * times,
            np.full(STEPS, np.nan), 0.2 * times, 0.1 * times, 2.0 / numbers,
        ]
    )  # fmt: skip
