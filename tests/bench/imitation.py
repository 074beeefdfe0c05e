"""Steps of real workers with a server, against the same steps simulated with what was measured: times and links."""

import tempfile
from pathlib import Path
from typing import Any

from tests.bench.commands import dlbench_row, last_json, mpirun, output, variables
from tests.bench.rows import Found
from tests.bench.training import BATCH_SIZE, CASES, settings_of, steps_of

CASE = CASES["resnet20"]
# Trainable parameters of ResNet-20 for ten classes.
NUM_PARAMETERS = 269_722


def imitation(strategy: str, workers: int, window_s: float) -> Found:
    """Measure links, a real run, and a simulated one that is fed with both; return the time of a step in each."""
    links = last_json(output(mpirun(2, "-m", "tests.bench.links_program", str(NUM_PARAMETERS)), variables("mpi")))
    steps = round(1.5 * steps_of(CASE, window_s))
    settings = settings_of(CASE, steps, workers) | {"strategy": strategy}
    with tempfile.TemporaryDirectory(prefix="dlbench-bench-") as folder:
        rows = Path(folder) / "steps.csv"
        real = dlbench_row(settings, rows)
        simulated = dlbench_row(settings | machines(links, workers, rows))
    what = f"{strategy}, {workers} worker{'s' if workers > 1 else ''}"
    times = [1e6 * workers * BATCH_SIZE / float(row["samples_per_s"]) for row in (real, simulated)]
    return {
        f"{what}: real": (times[0], "us/step"),
        f"{what}: simulated": (times[1], "us/step"),
        f"{what}: simulated / real": (times[1] / times[0], ""),
        f"{what}: of a real step, waiting": (
            1e6 * float(real["communication_time_s"]) / float(real["timed_steps"]), "us/step",
        ),
        f"{what}: an empty message there and back": (1e6 * links["empty_s"], "us"),
        f"{what}: a gradient there and back": (1e6 * links["full_s"], "us"),
        f"{what}: a gradient handled by a server": (1e6 * links["handled_s"], "us"),
    }  # fmt: skip


def machines(links: dict[str, float], workers: int, rows: Path) -> dict[str, Any]:
    """Return the options of a simulation of one host on which links, servers and compute times are as measured."""
    found = {
        "compute_times": "measured",
        "measured": str(rows),
        "workers_per_host": workers,
        "host_latency_s": links["empty_s"] / 2,
        "host_bandwidth_bytes_per_s": 2 * links["bytes"] / (links["full_s"] - links["empty_s"]),
        "server_bytes_per_s": links["bytes"] / links["handled_s"],
    }
    return {"communicator": "simulated", **{f"communicator.{name}": value for name, value in found.items()}}
