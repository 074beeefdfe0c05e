"""Real steps of workers on hosts with slow links, against the same steps simulated with what was measured of them."""

import csv
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import yaml

from tests.bench.commands import BIN, ROOT, dlbench_row, last_json, mpirun, output, variables
from tests.bench.imitation import machines
from tests.bench.rows import Found
from tests.cluster.cluster import Cluster
from tests.cluster.make import make
from tests.cluster.take_down import take_down

HOSTS, RATE = 4, "200mbit"
# A gradient takes so long on top of its arithmetic; of a straggler twice.
STEP_S = 0.04
# 301,066 parameters: 48 ms at 200 Mbit/s.
HIDDEN = [512, 512]
STRATEGIES = ("ring", "gossip", "parameter_server", "asynchronous")
PACED = ROOT / "tests/functional/paced.py"
BATCH_SIZE = 16


@dataclass(frozen=True)
class Hosts:
    """Hosts on slow links, with a folder that all of them see.

    Attributes:
        cluster: The hosts.
        folder: Where the paced trainer and the scenarios are.
    """

    cluster: Cluster
    folder: Path


@contextmanager
def hosts() -> Iterator[Hosts]:
    """Make the hosts, and take them down whatever happens."""
    made = make(HOSTS, rate=RATE, with_slurm=False)
    try:
        with tempfile.TemporaryDirectory(prefix="dlbench-bench-", dir="/var/tmp") as folder:
            shutil.copy(PACED, folder)
            yield Hosts(made, Path(folder))
    finally:
        take_down(made.name)


def throttled(found: Hosts, strategy: str, epochs: int) -> Found:
    """Measure a strategy with and without a straggler, and simulate both; return the times of a step."""
    settings = {
        "dataset": "digits", "model": "mlp", "model.hidden": HIDDEN, "strategy": strategy, "workers": HOSTS,
        "mode": "scale-out", "batch_size": BATCH_SIZE, "epochs": epochs, "learning_rate": 0.01,
        "remainder": "drop", "sample_every": 1,
    }  # fmt: skip
    values: dict[str, tuple[float, str]] = {}
    handled = last_json(output(mpirun(2, "-m", "tests.bench.links_program", "301066"), variables("mpi")))
    even = _real(found, settings, "even")
    for name in ("even", "straggler"):
        real = even if name == "even" else _real(found, settings, name)
        own = real.compute_s
        factor = own[-1] / fmean(own[:-1]) if name == "straggler" else 1.0
        options = machines(handled, HOSTS, even.steps) | {
            "communicator.workers_per_host": 1,
            "communicator.latency_s": real.latency_s,
            "communicator.bandwidth_bytes_per_s": real.bandwidth_bytes_per_s,
            "communicator.slow_workers": int(name == "straggler"),
            "communicator.slow_factor": factor,
            "trainer": "numpy",
        }
        simulated = _step_s(dlbench_row(settings | options))
        what = f"{strategy}, {'one of four is slow' if name == 'straggler' else 'four workers'}"
        values |= {
            f"{what}: real": (1e3 * real.step_s, "ms/step"),
            f"{what}: simulated": (1e3 * simulated, "ms/step"),
            f"{what}: simulated / real": (simulated / real.step_s, ""),
        }
    return values


@dataclass(frozen=True)
class _Real:
    """What a real run has shown.

    Attributes:
        step_s: Time of a step of all workers.
        compute_s: Of each worker, the median time of a step beside communication.
        latency_s: Of the links.
        bandwidth_bytes_per_s: Of the links.
        steps: Its rows of steps.
    """

    step_s: float
    compute_s: list[float]
    latency_s: float
    bandwidth_bytes_per_s: float
    steps: Path


def _real(found: Hosts, settings: Mapping[str, Any], name: str) -> _Real:
    """Run on the hosts; the last of them is slow where the name says so."""
    last = found.folder / f"slow-down-{found.cluster.hosts[-1].name}"
    last.unlink(missing_ok=True)
    if name == "straggler":
        last.touch()
    own = {"trainer": "paced:Trainer", "trainer.step_s": STEP_S, "cores_per_worker": 0.5}
    scenario, cluster = found.folder / f"{name}.yaml", found.folder / "cluster.yaml"
    scenario.write_text(yaml.safe_dump({"base": {**settings, **own}, "baseline": "none", "step_table": "csv"}))
    every = [{"address": host.address, "slots": 1} for host in found.cluster.hosts]
    cluster.write_text(yaml.safe_dump({"hosts": every, "ssh": str(found.cluster.ssh)}))
    with tempfile.TemporaryDirectory(dir=found.folder) as studies:
        argv = [str(BIN / "dlbench"), "run", str(scenario), "--cluster", str(cluster), "--output", studies]
        found.cluster.hosts[0].run(argv, cwd=found.folder, timeout_s=600)
        (study,) = Path(studies).glob(f"{name}-*")
        with (study / "runs.csv").open(newline="") as file:
            (row,) = csv.DictReader(file)
        steps = found.folder / f"{name}-steps.csv"
        shutil.copyfile(study / "steps.csv", steps)
        links = json.loads((study / "machine.json").read_text())["links"]
    return _Real(
        _step_s(row),
        _compute_s(steps),
        median(link["round_trip_s"] for link in links) / 2,
        median(link["bandwidth_bytes_per_s"] for link in links),
        steps,
    )


def _step_s(row: Mapping[str, str]) -> float:
    if row["status"] != "completed" or not row["samples_per_s"]:
        raise RuntimeError(f"a run ended as {row['status']} without a rate: {row['reason']}")
    return HOSTS * BATCH_SIZE / float(row["samples_per_s"])


def _compute_s(steps: Path) -> list[float]:
    with steps.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["phase"] == "timed"]
    times = [
        [float(row["step_time_s"]) - float(row["communication_time_s"]) for row in rows if row["worker"] == str(worker)]
        for worker in range(HOSTS)
    ]
    return list(map(median, times))
