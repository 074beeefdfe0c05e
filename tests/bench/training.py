"""Samples per second of dlbench against plain scripts over mpi4py and Horovod, and the time dlbench adds to a run."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from tests.bench.commands import dlbench_row, last_json, mpirun, output, prepared
from tests.bench.pairs import Comparison, compare

WINDOW_S = 20.0
# Where many ways are compared and no aim is to be proven.
SHORT_S = 10.0
# The script of each strategy that people write without dlbench.
PLAIN = {"mpi": "tests.bench.plain_keras_mpi", "horovod": "tests.bench.plain_keras_horovod"}
# Open MPI waits as it does for dlbench's own ranks; what Horovod loses where it polls is measured by `bench_waiting`.
VARIABLES: dict[str, dict[str, str]] = {"mpi": {}, "horovod": {"OMPI_MCA_mpi_yield_when_idle": "1"}}


@dataclass(frozen=True)
class Case:
    """One training both sides run."""

    model: str
    batch_size: int
    workers: int
    dataset: str
    options: tuple[tuple[str, Any], ...] = ()
    scale: float = 1.0
    strategy: str = "mpi"
    extra: tuple[tuple[str, Any], ...] = ()

    @property
    def title(self) -> str:
        """Return what is trained, for people."""
        extra = "".join(f", {key}={value}" for key, value in self.extra)
        sizes = f"batch {self.batch_size} x {self.workers} workers"
        return f"{self.model} on {self.dataset}, {sizes}, {self.strategy}{extra}"


IMAGES = (("num_samples", 2000), ("shape", [32, 32, 3]))
CASES = (
    Case("mlp", 32, 2, "digits", scale=1 / 16),
    Case("cnn", 32, 2, "digits", scale=1 / 16),
    Case("resnet20", 32, 2, "synthetic", IMAGES),
)
GROUPS = "strategy.groups"
HOROVOD_CASES = (
    Case("resnet20", 32, 2, "synthetic", IMAGES, strategy="horovod"),
    Case("lstm", 32, 2, "digits", scale=1 / 16, strategy="horovod"),
)
# Both sides with all gradients in one group, as scripts have it that call `grouped_allreduce`.
IN_ONE_GROUP = tuple(replace(case, extra=((GROUPS, 1),)) for case in HOROVOD_CASES)


def plain(case: Case, folder: str, window_s: float, script: str = "", python: str = sys.executable) -> dict[str, float]:
    """Run the plain script and return its samples, seconds and steps."""
    variables = VARIABLES[case.strategy]
    words = ["-m", script or PLAIN[case.strategy], "--data", folder, "--model", case.model]
    words += ["--batch-size", str(case.batch_size), "--scale", str(case.scale), "--window-s", str(window_s)]
    if case.strategy == "horovod" and not script:
        words += ["--groups", str(dict(case.extra).get(GROUPS, 0))]
    found: dict[str, float] = last_json(output(mpirun(case.workers, *words, python=python), variables))
    return found


def settings_of(case: Case, epochs: int) -> dict[str, Any]:
    """Return the scenario's settings of a case."""
    return {
        "model": case.model,
        "dataset": case.dataset,
        "trainer": "keras_tensorflow",
        "strategy": case.strategy,
        "workers": case.workers,
        "batch_size": case.batch_size,
        "epochs": epochs,
        "evaluate_every": epochs,
        "learning_rate": 0.01,
        "cores_per_worker": 1,
        **{f"dataset.{key}": value for key, value in case.options},
        **dict(case.extra),
    }


def epochs_of_a_window(case: Case, window_s: float = WINDOW_S) -> int:
    """Return how many epochs fill a little more than the window, by a quick look at the plain script."""
    data = prepared(case.dataset, dict(case.options))
    first = plain(case, data["folder"], 5.0)
    return max(1, round(1.1 * window_s * first["samples"] / first["seconds"] / (0.8 * data["num_train"])))


def rates(case: Case, pairs: int) -> Comparison:
    """Compare samples per second over windows of 20 s."""
    data = prepared(case.dataset, dict(case.options))
    epochs = epochs_of_a_window(case)

    def ours() -> float:
        return float(dlbench_row(settings_of(case, epochs))["samples_per_s"])

    def theirs() -> float:
        found = plain(case, data["folder"], WINDOW_S)
        return found["samples"] / found["seconds"]

    return compare(ours, theirs, pairs)


def two_ways(case: Case, ours: Mapping[str, Any], other: Mapping[str, Any], pairs: int) -> Comparison:
    """Compare samples per second of two ways to run the same case; the second stands where `plain` does."""
    settings = settings_of(case, epochs_of_a_window(case, SHORT_S))

    def rate(changes: Mapping[str, Any]) -> float:
        return float(dlbench_row(settings | dict(changes))["samples_per_s"])

    return compare(lambda: rate(ours), lambda: rate(other), pairs)


def against_torch(case: Case, python: str, pairs: int) -> Comparison:
    """Compare samples per second with PyTorch's DistributedDataParallel, run by another interpreter if need be."""
    data = prepared(case.dataset, dict(case.options))
    settings = settings_of(case, epochs_of_a_window(case, SHORT_S))

    def theirs() -> float:
        found = plain(case, data["folder"], SHORT_S, "tests.bench.plain_torch_ddp", python)
        return found["samples"] / found["seconds"]

    return compare(lambda: float(dlbench_row(settings)["samples_per_s"]), theirs, pairs)


def added_time(case: Case, pairs: int) -> tuple[list[float], list[float]]:
    """Return the seconds dlbench adds to the plain script around the same few steps, pair by pair.

    First of one run, from its launch to its end; then of the whole command, which also checks the scenario, opens a
    study, finds the prepared data, writes the tables and prints the results.
    """
    data = prepared(case.dataset, dict(case.options))
    run_s: list[float] = []
    command_s: list[float] = []

    def ours() -> float:
        row = dlbench_row(settings_of(case, 2))
        run_s.append(float(row["wall_time_s"]))
        command_s.append(row["command_s"])
        return command_s[-1]

    def theirs() -> float:
        started = perf_counter()
        plain(case, data["folder"], 0.1)
        return perf_counter() - started

    plain_s = compare(ours, theirs, pairs).plain
    return _minus(run_s, plain_s), _minus(command_s, plain_s)


def _minus(ours: Sequence[float], plain: Sequence[float]) -> list[float]:
    return [mine - theirs for mine, theirs in zip(ours, plain, strict=True)]


def observer_share(settings: dict[str, Any]) -> float:
    """Return the share of the window's CPU time that dlbench's own threads took, all workers."""
    row = dlbench_row(settings)
    cpu_s = float(row["timed_window_s"]) * float(row["cores_per_worker"]) * int(row["workers"])
    return float(row["observer_cpu_s"]) / cpu_s
