"""Simulated runs on a small made-up problem, without a process or a study around them."""

from typing import Any, NamedTuple

import numpy as np

from dlbench import plugins
from dlbench.records.result import Result
from dlbench.scenario.needs import SERVER
from dlbench.scenario.run_spec import RunSpec, Target
from dlbench.scenario.settings import Settings
from dlbench.trainers import Problem, Threads
from dlbench.trainers import numpy as engine
from dlbench.worker.simulate.training import Simulation
from dlbench.worker.train.batches import TrainingData

NUM_TRAIN, NUM_VALIDATION = 240, 80


class Report:
    """Keeps the rows of epochs."""

    def __init__(self) -> None:
        self.phase, self.step, self.epoch = "", 0, 0
        self.loss = self.accuracy = None
        self.rows: list[dict[str, Any]] = []

    def send_epoch(self, row: dict[str, Any]) -> None:
        self.rows.append(row)


class Clouds(NamedTuple):
    """Points around one centre for each class."""

    inputs: int
    classes: int
    data: TrainingData


def clouds(inputs: int = 12, classes: int = 4, num_train: int = NUM_TRAIN) -> Clouds:
    """Return samples of a problem that softmax regression solves."""
    random = np.random.default_rng(5)
    centres = random.normal(size=(classes, inputs)) * 1.2
    y = random.integers(0, classes, num_train + NUM_VALIDATION)
    x = (centres[y] + random.normal(size=(len(y), inputs))).astype(np.float32)
    return Clouds(inputs, classes, TrainingData(x, y, np.arange(num_train), x, y, np.arange(num_train, len(y))))


SMALL = clouds()


def simulation(
    strategy: str, workers: int, target: Target | None = None, problem: Clouds = SMALL, **chosen: Any
) -> Simulation:
    """Return a simulation; keys with a double underscore are options: `strategy__bound`, `communicator__latency_s`."""
    plugin = plugins.load("strategies", strategy)
    given = {key: value for key, value in chosen.items() if "__" not in key}
    defaults = {
        "trainer": "numpy", "communicator": "simulated", "model": "softmax", "precision": "float64", "batch_size": 6,
        "epochs": 3, "learning_rate": 0.1, "servers": 1 if SERVER in plugin.get("NEEDS").roles else None,
        "server_placement": "own",
    }  # fmt: skip
    settings = Settings(strategy=strategy, workers=workers, **defaults | given)
    options: dict[str, Any] = {}
    named = {"strategy": plugin, "communicator": plugins.load("communicators", "simulated")}
    if settings.compression is not None:
        named["compression"] = plugins.load("compressors", settings.compression)
    for prefix, found in named.items():
        own = {key.split("__")[1]: value for key, value in chosen.items() if key.startswith(f"{prefix}__")}
        options |= {f"{prefix}.{k}": v for k, v in found.options(**own).model_dump(mode="json").items()}
    run = RunSpec(scenario="s", label="", repeat=0, settings=settings, options=options, target=target)
    model = plugins.load("models", "softmax")
    shape = Problem((problem.inputs,), problem.classes)
    trainer = engine.create(settings, model, model.options(), plugins.Options(), shape, 0, Threads(1, 1))
    return Simulation(run, trainer, problem.data, Report())  # type: ignore[arg-type]


def trained(strategy: str, workers: int, **chosen: Any) -> tuple[Result, np.ndarray, Simulation]:
    """Return the account of a run, its last parameters, and itself."""
    found = simulation(strategy, workers, **chosen)
    return found.train(), found.parameters(), found
