"""Studies made by hand, whose columns have the types of real ones."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dlbench.analysis.arms import Arm, arms
from tests.unit.report.figures.makers import typed

SETTINGS: dict[str, Any] = {
    "study": "made-1", "attempt": 1, "schema_version": 3, "model": "mlp", "dataset": "digits",
    "dataset_checksum": "7f91b363", "trainer": "numpy", "strategy": "mpi", "algorithm": "auto", "communicator": "mpi",
    "collectives": "mpi", "launcher": "mpirun", "submitter": "direct", "mode": "scale-up", "hosts": 1,
    "cores_per_worker": 1.0, "cores_enforced": "affinity", "batch_scope": "per-worker", "divide": "data", "epochs": 5,
    "optimizer": "sgd", "momentum": 0.9, "learning_rate_base": 0.02, "learning_rate_scale": "none",
    "learning_rate": 0.02, "precision": "float32", "input": "mapped", "num_parameters": 1210, "train_samples": 1438,
    "device_name": "AMD EPYC", "warmup_detected": True, "timed_window_s": 30.0, "timed_steps": 400,
    "steal_fraction": 0.0, "first_step_s": 0.01,
}  # fmt: skip
ALONE: dict[str, Any] = {
    "strategy": "single", "algorithm": None, "communicator": None, "collectives": None, "launcher": "local",
    "workers": 1, "baseline": True,
}  # fmt: skip
# Spread of a quiet machine's repeats, as in `results/digits-batch-workers`.
SIGMA = 0.02


def noisy(middle: float, count: int, seed: int, sigma: float = SIGMA) -> list[float]:
    """Return log-normal values about a middle."""
    return (middle * np.exp(sigma * np.random.default_rng(seed).standard_normal(count))).tolist()


def arm(name: str, columns: Mapping[str, Sequence[Any]], **values: Any) -> list[dict[str, Any]]:
    """Return the runs of an arm: one for each value of the columns, which are equally long."""
    workers, batch = values.get("workers", 2), values.get("batch_size", 32)
    common = {
        **SETTINGS, "workers": workers, "workers_per_host": workers, "batch_size": batch, "label": f"label of {name}",
        "batch_size_global": workers * batch, "status": "completed", "baseline": False, **values,
    }  # fmt: skip
    count = len(next(iter(columns.values())))
    rows = [
        {**common, "run_id": f"{name}-r{repeat}", "repeat": repeat, "seed": repeat}
        | {column: found[repeat] for column, found in columns.items()}
        for repeat in range(count)
    ]
    for row in rows:
        rate = row.get("samples_per_s")
        row["samples_per_s_per_worker"] = None if rate is None else rate / row["workers"]
    return rows


def measured(name: str, seconds: float, seed: int, count: int = 8, **values: Any) -> list[dict[str, Any]]:
    """Return an arm with a training time and the throughput that follows."""
    times = noisy(seconds, count, seed)
    return arm(name, {"train_time_s": times, "samples_per_s": [10_000 / time for time in times]}, **values)


def timed(name: str, seconds: float, count: int = 5, seed: int = 0, **values: Any) -> list[dict[str, Any]]:
    """Return an arm of so much training time, with a rate that follows from it and accuracies about 0.95."""
    times = noisy(seconds, count, seed)
    accuracies = noisy(values.pop("accuracy", 0.95), count, seed + 1, 0.002)
    return arm(
        name,
        {
            "train_time_s": times,
            "samples_per_s": [10_000 / time for time in times],
            "validation_accuracy": accuracies,
            "validation_loss": [1 - accuracy for accuracy in accuracies],
        },
        **values,
    )


def failed(name: str, count: int, status: str = "failed", **values: Any) -> list[dict[str, Any]]:
    """Return the runs of an arm that did not complete."""
    return arm(name, {"status": [status] * count}, reason="worker 0: ValueError: no", **values)


def read(*rows_of_arms: Iterable[Mapping[str, Any]]) -> list[Arm]:
    """Return arms as a report has them: with the types that a file's cells have when they are read."""
    return arms(typed([row for of_an_arm in rows_of_arms for row in of_an_arm]))
