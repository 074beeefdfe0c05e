"""The same training by dlbench, by plain scripts and by others: two workers, one core each, the same steps."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from tests.bench.commands import dlbench_row, last_json, mpirun, output, prepared, variables
from tests.bench.rows import Found

# Names an interpreter that has PyTorch, which dlbench's environment need not have.
TORCH_PYTHON = "DLBENCH_BENCH_TORCH_PYTHON"
BATCH_SIZE, WORKERS = 32, 2

Measure = Callable[[], Found]


@dataclass(frozen=True)
class Case:
    """One training.

    Attributes:
        samples: Train on so many: a multiple of the global batch, so that none is left over.
        scale: Stored number x scale = network input.
        look: Steps of a quick look at how long one takes.
        warmup: Steps before the window of a plain script.
        in_steps: Its values are microseconds per step, not samples/s.
    """

    model: str
    dataset: str
    samples: int
    scale: float
    look: int
    warmup: int
    in_steps: bool
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def title(self) -> str:
        """Return what is trained, for people."""
        return f"{self.model}, {self.dataset}, batch {BATCH_SIZE} of each worker"

    def found(self, samples_per_s: float, workers: int = WORKERS) -> Found:
        """Return a rate of all workers in the unit of the case."""
        if self.in_steps:
            return {self.title: (1e6 * workers * BATCH_SIZE / samples_per_s, "us/step")}
        return {self.title: (samples_per_s, "samples/s")}


IMAGES = (("num_samples", 2000), ("shape", (32, 32, 3)))
CASES = {
    "resnet20": Case("resnet20", "synthetic", 1600, 1.0, 20, 20, False, IMAGES),
    "mlp": Case("mlp", "digits", 1408, 1 / 16, 2000, 200, True),
    "cnn": Case("cnn", "digits", 1408, 1 / 16, 500, 100, True),
}


def plain(
    case: Case,
    script: str,
    steps: int,
    strategy: str = "mpi",
    workers: int = WORKERS,
    words: tuple[str, ...] = (),
    python: str = sys.executable,
) -> float:
    """Run a plain script under the variables of a strategy; return the samples/s of all workers."""
    argv = mpirun(workers, *script_words(case, script, steps), *words, python=python)
    return rate_of(last_json(output(argv, variables(strategy))))


def script_words(case: Case, script: str, steps: int) -> tuple[str, ...]:
    """Return what an interpreter is called with for a plain script."""
    options = {
        "data": prepared(case.dataset, dict(case.options))["folder"],
        "samples": case.samples,
        "model": case.model,
        "batch-size": BATCH_SIZE,
        "scale": case.scale,
        "warmup-steps": case.warmup,
        "steps": steps,
    }
    return ("-m", f"tests.bench.{script}", *(f"--{name}={value}" for name, value in options.items()))


def rate_of(found: dict[str, float]) -> float:
    """Return the samples/s of a script's line."""
    return found["samples"] / found["seconds"]


def settings_of(case: Case, steps: int, workers: int = WORKERS) -> dict[str, Any]:
    """Return the scenario's settings of a case; its epochs hold at least so many steps and a warm-up."""
    epochs = ceil((steps + case.warmup) / (case.samples // (workers * BATCH_SIZE)))
    return {
        "model": case.model,
        "dataset": case.dataset,
        "train_samples": case.samples,
        "trainer": "keras_tensorflow",
        "strategy": "mpi",
        "workers": workers,
        "batch_size": BATCH_SIZE,
        "epochs": epochs,
        "evaluate_every": epochs,
        "learning_rate": 0.01,
        "cores_per_worker": 1,
        **{f"dataset.{key}": value for key, value in case.options},
    }


def dlbench(case: Case, steps: int, workers: int = WORKERS, **changes: Any) -> float:
    """Run dlbench; return the samples/s of all workers, also where it was quicker than a quick look said."""
    return float(dlbench_row(settings_of(case, steps, workers) | {"extend_window": True} | changes)["samples_per_s"])


@cache
def steps_of(case: Case, window_s: float) -> int:
    """Return how many steps fill the window, by a quick look at the plain script."""
    rate = plain(case, "plain_keras_mpi", case.look)
    return max(60, ceil(window_s * rate / (WORKERS * BATCH_SIZE)))


def sides(case: Case, window_s: float) -> dict[str, Measure]:
    """Return all ways to train a case; those that are compared closely stand beside each other.

    Ways in which a short step takes several times as long run fewer steps: a window is as long as others' in seconds.
    """
    steps = steps_of(case, window_s)
    fewer, few = (max(60, steps // divisor) if case.in_steps else steps for divisor in (2, 6))
    found: dict[str, Measure] = {
        "dlbench mpi": lambda: case.found(dlbench(case, steps)),
        "plain mpi": lambda: case.found(plain(case, "plain_keras_mpi", steps)),
        "dlbench horovod": lambda: case.found(dlbench(case, fewer, strategy="horovod")),
        "plain horovod": lambda: case.found(plain(case, "plain_keras_horovod", fewer, "horovod")),
        "plain horovod, one group": lambda: case.found(
            plain(case, "plain_keras_horovod", fewer, "horovod", words=("--groups=1",))
        ),
        "dlbench horovod, one group": lambda: case.found(
            dlbench(case, fewer, strategy="horovod", **{"strategy.groups": 1})
        ),
        "MultiWorkerMirroredStrategy": lambda: case.found(plain(case, "plain_keras_multi_worker", few)),
        "Keras fit, 1 worker": lambda: case.found(plain(case, "plain_keras_fit", few, workers=1), 1),
    }
    if case.in_steps:
        found = {name: measure for name, measure in found.items() if "group" not in name}
    if python := torch_python():
        found["PyTorch DDP over Gloo"] = lambda: case.found(plain(case, "plain_torch_ddp", steps, python=python))
    return found


def torch_python() -> str:
    """Return an interpreter that has PyTorch, or "" after saying that there is none."""
    python = os.environ.get(TORCH_PYTHON, sys.executable)
    if subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode:
        print(f"PyTorch is left out: {python} has none; {TORCH_PYTHON} may name an interpreter that has", flush=True)
        return ""
    return python


def hook(case: Case, window_s: float) -> dict[str, Measure]:
    """Return the plain script alone and started by dlbench, where it reports every step; the script's own window."""
    steps = steps_of(case, window_s)
    return {
        "reporting": lambda: case.found(_hooked(case, steps)),
        "alone": lambda: case.found(plain(case, "plain_keras_mpi", steps)),
    }


def _hooked(case: Case, steps: int) -> float:
    with tempfile.TemporaryDirectory(prefix="dlbench-bench-") as folder:
        line = Path(folder) / "line.json"
        words = script_words(case, "plain_keras_mpi", steps)
        command = " ".join(["python", *words, "--hook", f"--output={line}"])
        dlbench_row(settings_of(case, steps) | {"command": command})
        return rate_of(json.loads(line.read_text()))


def engines(case: Case, window_s: float) -> dict[str, Measure]:
    """Return dlbench on each engine beside a plain script on it; those that are compared stand beside each other."""
    steps = steps_of(case, window_s)

    def by_dlbench(backend: str, strategy: str, workers: int = WORKERS) -> Measure:
        return lambda: case.found(dlbench(case, steps, workers, trainer=f"keras_{backend}", strategy=strategy), workers)

    def by_script(name: str, *words: str, workers: int = WORKERS) -> Measure:
        return lambda: case.found(plain(case, name, steps, workers=workers, words=words), workers)

    return {
        "dlbench torch, ddp": by_dlbench("torch", "ddp"),
        "plain torch, ddp": by_script("plain_keras_torch"),
        "dlbench torch, mpi": by_dlbench("torch", "mpi"),
        "plain torch, mpi": by_script("plain_keras_torch", "--mpi"),
        "dlbench jax, 1 worker": by_dlbench("jax", "single", 1),
        "plain jax, 1 worker": by_script("plain_keras_jax", workers=1),
        "dlbench jax, mpi": by_dlbench("jax", "mpi"),
        "dlbench tensorflow, mpi": by_dlbench("tensorflow", "mpi"),
        "PyTorch's own layers, ddp": by_script("plain_torch_ddp"),
    }


WAYS: dict[str, dict[str, Any]] = {
    "single (1 worker)": {"strategy": "single", "workers": 1},
    "mpi, auto": {"strategy": "mpi"},
    "mpi, own-ring": {"strategy": "mpi", "algorithm": "own-ring"},
    "horovod over MPI": {"strategy": "horovod", "collectives": "mpi"},
    "horovod over Gloo": {"strategy": "horovod", "collectives": "gloo"},
    "multi_worker": {"strategy": "multi_worker"},
    "mirrored": {"strategy": "mirrored"},
}


NODES: dict[str, dict[str, Any]] = {
    "mpi, own-ring": {"strategy": "mpi", "algorithm": "own-ring"},
    "ring": {"strategy": "ring"},
    "parameter_server": {"strategy": "parameter_server"},
    "parameter_server, 2 servers": {"strategy": "parameter_server", "servers": 2},
    "asynchronous": {"strategy": "asynchronous"},
    "asynchronous, 2 servers": {"strategy": "asynchronous", "servers": 2},
}


def nodes(case: Case, window_s: float) -> dict[str, Measure]:
    """Return all-reduce and servers on one case: samples/s, and what a step waits for messages.

    A server applies the optimizer between the two; all-reduce does so after them, which `to next step` holds, too.
    """
    # Nodes cannot extend a window: it is made long enough even for what trains faster than the plain script.
    steps = ceil(1.5 * steps_of(case, window_s))

    def measure(changes: dict[str, Any]) -> Found:
        row = dlbench_row(settings_of(case, steps) | changes)
        in_steps = 1e6 / float(row["timed_steps"])
        return {
            f"{case.title}: rate": (float(row["samples_per_s"]), "samples/s"),
            f"{case.title}: waiting": (float(row["communication_time_s"]) * in_steps, "us/step"),
            f"{case.title}: to next step": (
                (float(row["communication_time_s"]) + float(row["update_time_s"])) * in_steps,
                "us/step",
            ),
        }

    return {name: lambda changes=changes: measure(changes) for name, changes in NODES.items()}  # type: ignore[misc]


def ways(case: Case, window_s: float, ways: dict[str, dict[str, Any]], **base: Any) -> dict[str, Measure]:
    """Return dlbench's runs of a case with each of some changes, by name."""
    steps = steps_of(case, window_s)

    def measure(changes: dict[str, Any]) -> Measure:
        return lambda: case.found(dlbench(case, steps, **{**base, **changes}), changes.get("workers", WORKERS))

    return {name: measure(changes) for name, changes in ways.items()}
