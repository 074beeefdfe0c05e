"""Train a few compiled steps on slices of each global batch and on the whole of it, sound and sabotaged.

Hands in, for each case: the verdict on the agreement of workers after the first step and at the end, and the largest
difference to one worker that trained on the joined batches, relative to the largest weight.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dlbench import plugins
from dlbench.drivers.horovod import HorovodDriver, connect
from dlbench.scenario.settings import Settings
from dlbench.strategies import horovod
from dlbench.trainers import Array, Threads, Trainer
from dlbench.worker.agreement import compare, weights_hash
from tests.functional.mpi_programs.launch import hand_in
from tests.functional.mpi_programs.train import GLOBAL_BATCH, LEARNING_RATE, PROBLEM, batches, difference, one_worker

SABOTAGES = ("no-reduction", "no-broadcast", "equal-weights")
# No batch norm, no dropout.
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "float64": ("mlp", {"hidden": (9, 7)}),
    "float32": ("cnn", {"filters": (3, 4)}),
}


class Case(NamedTuple):
    """What is trained, how it is reduced, and what is left out of it."""

    precision: str
    options: dict[str, Any]
    sabotage: str = ""


WAYS: tuple[dict[str, Any], ...] = ({}, {"overlap": False}, {"groups": 1}, {"groups": 3, "overlap": False})
CASES = (
    *(Case("float64", options) for options in WAYS),
    *(Case("float64", {}, sabotage) for sabotage in SABOTAGES),
    Case("float32", {}),
    *(Case("float32", {}, sabotage) for sabotage in SABOTAGES),
    Case("float32", {"compression": "fp16"}),
)


def main(workers: int) -> None:
    """Run every case and hand in what was found."""
    plugins.load("trainers", "keras_tensorflow").get("start")(Settings(), Threads(1, 1))
    driver = connect(workers)
    found = []
    for precision in NETWORKS:
        trainer = build(precision, seed=driver.rank)
        own_start = trainer.parameters()
        joined = one_worker(trainer, from_worker_0(own_start, driver))
        for case in (case for case in CASES if case.precision == precision):
            trainer.set_parameters(own_start)
            result = many_workers(trainer, driver, case)
            result |= {"difference": difference(trainer.parameters(), joined)}
            found.append({**case._asdict(), "size": driver.size, **result})
    hand_in(driver.rank, found)
    driver.close()


def build(precision: str, seed: int) -> Trainer:
    """Return a trainer whose start depends on the worker: only a broadcast makes them alike."""
    name, model_options = NETWORKS[precision]
    settings = Settings.model_validate({"model": name, "precision": precision})
    plugin, model = plugins.load("trainers", "keras_tensorflow"), plugins.load("models", name)
    options = model.options(**model_options)
    create: Callable[..., Trainer] = plugin.get("create")
    trainer = create(settings, model, options, plugin.options(), PROBLEM, seed, Threads(1, 1))
    trainer.compile(None)
    return trainer


def many_workers(trainer: Trainer, driver: HorovodDriver, case: Case) -> dict[str, Any]:
    """Train on this worker's slices; return the verdicts and the hash of its first local gradient."""
    strategy = horovod.create(horovod.OPTIONS(**case.options), driver, None)
    if case.sabotage != "no-broadcast":
        start = trainer.parameters()
        strategy.broadcast(start)
        trainer.set_parameters(start)
    # What remains without a reduction: each worker follows its own gradient.
    alone: Callable[[list[Any]], list[Any]] = lambda gradients: [g * driver.size for g in gradients]  # noqa: E731
    trainer.compile(alone if case.sabotage == "no-reduction" else strategy.in_graph)
    verdicts, hashes = [], []
    for x, y in batches():
        mine = np.array_split(np.arange(GLOBAL_BATCH), driver.size)[driver.rank]
        scale = 1 / (driver.size * len(mine)) if case.sabotage == "equal-weights" else 1 / GLOBAL_BATCH
        own = np.ascontiguousarray(x[mine]), y[mine]
        if not hashes:
            hashes.append(weights_hash(trainer.gradient(*own, scale)[0]))
        trainer.step(*own, scale, LEARNING_RATE)
        verdicts.append(compare(trainer.parameters(), driver).verdict)
    return {"first": verdicts[0], "last": verdicts[-1], "gradient": hashes[0]}


def from_worker_0(parameters: Array, driver: HorovodDriver) -> Array:
    """Return worker 0's parameters, by way of text: not by the broadcast that is tested."""
    texts = driver.all_gather(parameters.tobytes().hex())
    return np.frombuffer(bytes.fromhex(texts[0]), parameters.dtype).copy()


if __name__ == "__main__":
    main(int(sys.argv[1]))
