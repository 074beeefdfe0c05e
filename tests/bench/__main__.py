"""`make bench`: what dlbench itself costs, each figure from interleaved pairs within this one session.

python -m tests.bench                      everything, on a machine with nothing else to do
python -m tests.bench start reduction      only these
python -m tests.bench training --pairs 4   a quick look; ten pairs or more for a claim
python -m tests.bench telemetry --seconds 5  thousands of workers on one telemetry server; a minute for a claim
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from dlbench.analysis.statistics.intervals import Interval, median_interval
from dlbench.telemetry.messages import STEP_FIELDS
from dlbench.telemetry.reporter import Reporter
from tests.bench import reports, telemetry, training
from tests.bench.commands import BIN, ROOT, dlbench_row, last_json, mpirun, output
from tests.bench.pairs import Comparison, of_times
from tests.unit.telemetry.fake_server import FakeServer, Unwatched

NUMPY_RUN = {"trainer": "numpy", "model": "softmax", "dataset": "digits", "epochs": 3, "cores_per_worker": 1}

# Names an interpreter that has PyTorch, which dlbench's environment need not have.
TORCH_PYTHON = "DLBENCH_BENCH_TORCH_PYTHON"


def say(text: str) -> None:
    """Print one line at once."""
    print(text, flush=True)


def seconds(title: str, values: list[float], aim: str) -> None:
    """Print the median of some seconds with its interval."""
    say(f"{title}: {spread(median_interval(values))} s (aim: {aim}; n = {len(values)})")


def spread(found: Interval) -> str:
    """Return a median and its interval as text."""
    interval = "" if found.low is None or found.high is None else f" [{found.low:.3f}, {found.high:.3f}]"
    return f"{found.value:.3f}{interval}"


def bench_start(pairs: int) -> None:
    """Measure `dlbench --help`, and one NumPy run from launch to row, alone and as a whole command."""

    def show_help() -> float:
        started = perf_counter()
        subprocess.run([str(BIN / "dlbench"), "--help"], stdout=subprocess.DEVNULL, check=True)
        return perf_counter() - started

    seconds("dlbench --help", [show_help() for _ in range(pairs)], "<= 0.2 s")
    rows = [dlbench_row(NUMPY_RUN | {"strategy": "single"}) for _ in range(pairs)]
    seconds("NumPy run, launch to end", [float(row["wall_time_s"]) for row in rows], "<= 2 s")
    seconds("NumPy run, whole command, start to row", [row["command_s"] for row in rows], "<= 2 s")


def bench_reduction(pairs: int) -> None:
    """Measure ResNet-18's 45 MB from packed to reduced buffer against a bare mpi4py Allreduce."""
    found = last_json(output(mpirun(2, "-m", "tests.bench.reduction_program", str(3 * pairs))))
    packing_s = found.pop("packing")
    for name, (ours, plain) in found.items():
        comparison = of_times(ours, plain)
        say(comparison.line(f"reduction of 45 MB, 2 workers, bare Allreduce {name}", "s") + "  (aim: >= 0.95)")
    say(f"packing 62 layers into one buffer of 45 MB, apart: {packing_s * 1e3:.1f} ms")


def bench_training(pairs: int) -> None:
    """Measure samples per second against the plain script, in windows of 20 s."""
    for case in training.CASES:
        comparison: Comparison = training.rates(case, pairs)
        say(comparison.line(case.title, "samples/s") + "  (aim: lower end >= 0.97)")


def bench_horovod(pairs: int) -> None:
    """Measure samples per second of the strategy `horovod` against the plain script, each gradient by itself and all
    in one group on both sides."""
    for case in (*training.HOROVOD_CASES, *training.IN_ONE_GROUP):
        say(training.rates(case, pairs).line(case.title, "samples/s") + "  (aim: lower end >= 0.97)")


def bench_overlap(pairs: int) -> None:
    """Measure what it brings that gradients are reduced while others are still computed."""
    for case in training.HOROVOD_CASES:
        on, off = {"strategy.overlap": True}, {"strategy.overlap": False}
        found = training.two_ways(case, on, off, pairs)
        say(found.line(f"overlap on (first) against off, {case.title}", "samples/s"))


def bench_waiting(pairs: int) -> None:
    """Measure what it brings that a rank which waits in MPI beside computing gives its core away (dlbench's choice)."""
    case = training.HOROVOD_CASES[0]
    yielding, polling = ({"launcher.mca": {"mpi_yield_when_idle": value}} for value in ("1", "0"))
    found = training.two_ways(case, yielding, polling, pairs)
    say(found.line(f"yielding (first) against polling, {case.title}", "samples/s"))


WAYS: dict[str, dict[str, Any]] = {
    "single (1 worker)": {"strategy": "single", "workers": 1},
    "mpi, auto": {"strategy": "mpi"},
    "mpi, own-ring": {"strategy": "mpi", "algorithm": "own-ring"},
    "horovod over MPI": {"strategy": "horovod", "collectives": "mpi"},
    "horovod over Gloo": {"strategy": "horovod", "collectives": "gloo"},
    "mirrored": {"strategy": "mirrored"},
}


def bench_strategies(pairs: int) -> None:
    """Measure all strategies side by side at 2 workers, in float32 and mixed_bfloat16, one after the other in turns."""
    case = training.HOROVOD_CASES[0]
    epochs = training.epochs_of_a_window(case, training.SHORT_S)
    for precision in ("float32", "mixed_bfloat16"):
        rates: dict[str, list[float]] = {name: [] for name in WAYS}
        settings = training.settings_of(case, epochs) | {"precision": precision}
        for turn in range(max(3, pairs // 2)):
            for name in list(WAYS)[:: 1 if turn % 2 == 0 else -1]:
                rates[name].append(float(dlbench_row(settings | WAYS[name])["samples_per_s"]))
        for name, values in rates.items():
            say(f"{case.title.rpartition(',')[0]}, {precision}, {name}: {spread(median_interval(values))} samples/s")


def bench_torch(pairs: int) -> None:
    """Measure Horovod over Gloo against PyTorch DDP over Gloo: two engines, the ratio as it is."""
    python = os.environ.get(TORCH_PYTHON, sys.executable)
    if subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode:
        say(f"left out: {python} has no PyTorch; {TORCH_PYTHON} may name an interpreter that has")
        return
    case = replace(training.HOROVOD_CASES[0], extra=(("collectives", "gloo"),))
    say(training.against_torch(case, python, pairs).line(f"{case.title}, Gloo; plain is PyTorch DDP", "samples/s"))


def bench_added(pairs: int) -> None:
    """Measure the time that dlbench adds to a run of the plain script."""
    case = training.CASES[0]
    run_s, command_s = training.added_time(case, pairs)
    seconds(f"time added to one run ({case.title})", run_s, "<= 1 s")
    seconds("time added by the whole command", command_s, "<= 1 s")


def bench_observers(pairs: int) -> None:
    """Measure the share of the window's CPU time that dlbench's own threads take."""
    for case in training.CASES[:1]:
        settings = training.settings_of(case, 20) | {"extend_window": True}
        shares = [training.observer_share(settings) for _ in range(max(3, pairs // 3))]
        say(f"observers' share of CPU, {case.title}: {median(shares):.2%} (aim: < 1%; n = {len(shares)})")
    settings = NUMPY_RUN | {"strategy": "mpi", "workers": 2, "extend_window": True}
    shares = [training.observer_share(settings) for _ in range(max(3, pairs // 3))]
    say(f"observers' share of CPU, NumPy softmax, 2 workers: {median(shares):.2%} (aim: < 1%; n = {len(shares)})")


def bench_telemetry(seconds: int) -> None:
    """Measure one telemetry server under the reports of 1,024 and 4,096 workers."""
    for num_workers in (1024, 4096):
        say(telemetry.measure(num_workers, seconds).line())


def bench_sender(pairs: int) -> None:
    """Measure how long 400,000 rows of steps take from the training thread to the server's side of a connection."""
    block = np.random.default_rng(0).random((4000, len(STEP_FIELDS)))

    def send_all() -> float:
        with FakeServer() as server:
            reporter = Reporter(server.assignment(flush_interval_s=0.5), 0, Unwatched)
            started = perf_counter()
            for _ in range(100):
                reporter.send_steps(block)
            if not reporter.close(600):
                raise RuntimeError("the rows did not arrive")
            return perf_counter() - started

    rows_bytes = 100 * block.nbytes
    seconds(f"{rows_bytes / 1e6:.1f} MB of step rows are acknowledged", [send_all() for _ in range(pairs)], "<= 2 s")


def bench_report(pairs: int) -> None:
    """Measure `dlbench report` of what `make quickstart` makes, and of 1,000 runs with 1,000,000 steps."""
    with tempfile.TemporaryDirectory(prefix="dlbench-bench-") as folder:
        here = Path(folder)
        small = quickstart(here / "studies")
        large = reports.large_study(here / "large")
        cases = (("quickstart", small, pairs, 5), ("1,000 runs", large, max(3, pairs // 3), 20))
        for title, study, times, aim_s in cases:
            found = [reports.report_of([study], here / "report") for _ in range(times)]
            seconds(f"dlbench report, {title}", [took_s for took_s, _ in found], f"<= {aim_s} s")
            most = max(memory for _, memory in found)
            say(f"most memory of its processes together: {most / 2**20:.0f} MiB (aim: <= 1024)")


def quickstart(studies: Path) -> Path:
    """Run the quickstart and return its study."""
    argv = [str(BIN / "dlbench"), "run", str(ROOT / "scenarios" / "quickstart.yaml"), "--output", str(studies)]
    output(argv)
    return next(studies.iterdir())


SECTIONS: dict[str, Callable[[int], None]] = {
    "start": bench_start,
    "report": bench_report,
    "reduction": bench_reduction,
    "observers": bench_observers,
    "sender": bench_sender,
    "telemetry": bench_telemetry,
    "added": bench_added,
    "training": bench_training,
    "horovod": bench_horovod,
    "overlap": bench_overlap,
    "waiting": bench_waiting,
    "strategies": bench_strategies,
    "torch": bench_torch,
}


def main() -> int:
    """Run the sections that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="default: all of them")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=60, help="how long workers report, in the section telemetry")
    options = parser.parse_args()
    for name in options.sections or SECTIONS:
        say(f"== {name}")
        SECTIONS[name](options.seconds if name == "telemetry" else options.pairs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
