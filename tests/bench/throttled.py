"""Real steps of workers on hosts with slow links, against the same steps simulated with what was measured of them."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pandas as pd
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
# 1.2 MB: 48 ms at 200 Mbit/s.
HIDDEN, NUM_PARAMETERS = [512, 512], 301_066
# A rate needs 5 s of them.
BATCH_SIZE, EPOCHS = 16, 10
WITH_SERVERS = ("parameter_server", "asynchronous")
STRATEGIES = ("ring", "gossip", *WITH_SERVERS)
PACED = ROOT / "tests/functional/paced.py"


@dataclass(frozen=True)
class Hosts:
    """Hosts on slow links.

    Attributes:
        cluster: The hosts.
        folder: One that all of them see: where the paced trainer and the scenarios are.
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


@dataclass(frozen=True)
class Measured:
    """What real runs have shown, one of each strategy.

    Attributes:
        runs: Their rows.
        steps: Their rows of steps.
        latency_s: Of the links.
        bandwidth_bytes_per_s: Of the links.
    """

    runs: Mapping[str, Mapping[str, Any]]
    steps: pd.DataFrame
    latency_s: float
    bandwidth_bytes_per_s: float

    def steps_of(self, strategy: str) -> pd.DataFrame:
        """Return the rows of steps of a strategy."""
        return self.steps[self.steps["run_id"] == self.runs[strategy]["run_id"]]

    def compute_s(self, strategy: str) -> list[float]:
        """Return the median time of each worker's steps beside communication."""
        timed = self.steps_of(strategy).query("phase == 'timed'")
        beside = timed["step_time_s"] - timed["communication_time_s"]
        return [float(times.median()) for _, times in beside.groupby(timed["worker"])]


def throttled(found: Hosts) -> Found:
    """Measure all strategies with and without a straggler, and simulate both; return the times of a step."""
    handled = last_json(output(mpirun(2, "-m", "tests.bench.links_program", str(NUM_PARAMETERS)), variables("mpi")))
    even, slow = (_measured(found, name) for name in ("even", "slow"))
    studies, values = {"four workers": even, "one of four is slow": slow}, {}
    for strategy, (what, study) in ((one, pair) for one in STRATEGIES for pair in studies.items()):
        is_slow, compute_s, rows = study is slow, study.compute_s(strategy), found.folder / "steps.csv"
        even.steps_of(strategy).to_csv(rows, index=False)
        options = machines(handled, HOSTS, rows) | {
            "communicator.workers_per_host": 1,
            "communicator.latency_s": study.latency_s,
            "communicator.bandwidth_bytes_per_s": study.bandwidth_bytes_per_s,
            "communicator.slow_workers": int(is_slow),
            "communicator.slow_factor": compute_s[-1] / fmean(compute_s[:-1]) if is_slow else 1.0,
            "strategy": strategy,
        }
        beside = {"server_placement": "beside"} if strategy in WITH_SERVERS else {}
        simulated, real = _step_s(dlbench_row(_settings() | options | beside)), _step_s(study.runs[strategy])
        values |= {
            f"{strategy}, {what}: real": (1e3 * real, "ms/step"),
            f"{strategy}, {what}: simulated": (1e3 * simulated, "ms/step"),
            f"{strategy}, {what}: simulated / real": (simulated / real, ""),
            f"{strategy}, {what}: of a real step, beside communication": (1e3 * fmean(compute_s), "ms"),
        }
    return values | {
        "a link's bandwidth": (even.bandwidth_bytes_per_s / 1e6, "MB/s"),
        "an empty message there and back": (2e6 * even.latency_s, "us"),
    }


def _settings() -> dict[str, Any]:
    return {
        "dataset": "digits", "model": "mlp", "model.hidden": HIDDEN, "trainer": "numpy", "workers": HOSTS,
        "batch_size": BATCH_SIZE, "epochs": EPOCHS, "learning_rate": 0.01, "remainder": "drop",
    }  # fmt: skip


def _measured(found: Hosts, name: str) -> Measured:
    """Run each strategy on the hosts; the last of them is slow where the name says so."""
    order = found.folder / f"slow-down-{found.cluster.hosts[-1].name}"
    order.unlink(missing_ok=True)
    if name == "slow":
        order.touch()
    real = {"trainer": "paced:Trainer", "trainer.step_s": STEP_S, "mode": "scale-out", "cores_per_worker": 1}
    scenario, cluster = found.folder / f"{name}.yaml", found.folder / "cluster.yaml"
    axes = {"matrix": {"strategy": list(STRATEGIES)}, "baseline": "none", "step_table": "csv"}
    scenario.write_text(yaml.safe_dump({"base": _settings() | real, **axes}))
    # Two workers share a core, which is theirs while the others sleep or wait; a quota would stop them in between.
    every = [
        {"address": host.address, "slots": 1, "cores": [number % 2]} for number, host in enumerate(found.cluster.hosts)
    ]
    cluster.write_text(yaml.safe_dump({"hosts": every, "ssh": str(found.cluster.ssh)}))
    with tempfile.TemporaryDirectory(dir=found.folder) as studies:
        argv = [str(BIN / "dlbench"), "run", str(scenario), "--cluster", str(cluster), "--output", studies]
        found.cluster.hosts[0].run(argv, cwd=found.folder, timeout_s=900)
        (study,) = Path(studies).glob(f"{name}-*")
        runs = {row["strategy"]: row for row in pd.read_csv(study / "runs.csv").to_dict("records")}
        steps = pd.read_csv(study / "steps.csv")
        links = json.loads((study / "machine.json").read_text())["links"]
    latency_s = median(link["round_trip_s"] for link in links) / 2
    return Measured(runs, steps, latency_s, median(link["bandwidth_bytes_per_s"] for link in links))


def _step_s(row: Mapping[str, Any]) -> float:
    rate = float(row["samples_per_s"] or "nan")
    if not rate > 0:
        raise RuntimeError(f"a run ended as {row['status']} without a rate: {row['reason']}, {row['timed_window_s']} s")
    return HOSTS * BATCH_SIZE / rate
