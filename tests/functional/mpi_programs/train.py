"""Train a few steps on slices of each global batch and on all of it, with some algorithms, sound and sabotaged.

Hands in, for each case: the verdict on the agreement of workers after the first step and at the end, and the largest
difference to one worker that trained on the joined batches, relative to the largest weight.
"""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from dlbench import plugins
from dlbench.communicators.mpi import MpiCommunicator, connect
from dlbench.scenario.settings import Settings
from dlbench.strategies import Communicator, Strategy, mpi
from dlbench.trainers import Array, Problem, Threads, Trainer
from dlbench.worker.train.agreement import compare, weights_hash
from tests.functional.mpi_programs.launch import hand_in
from tests.functional.mpi_programs.switch import communicator_with
from tests.unit.trainers.contract import check_a_batch_on_the_device_trains_as_an_array

# By trainer: only gradients pass between it and the strategy, so NumPy tries every algorithm, Keras's engines one.
ALGORITHMS = {"numpy": mpi.NEEDS.algorithms} | dict.fromkeys(
    ("keras_tensorflow", "keras_torch", "keras_jax"), ("ring",)
)
SABOTAGES = ("", "no-reduction", "no-broadcast", "equal-weights", "full-weights")
# Those with which workers agree, and are wrong: a mean of means, and a remainder weighted as if its batch were full.
AGREEING = ("equal-weights", "full-weights")
# (model, its options, precision) of each trainer: no batch norm, no dropout.
Network = tuple[str, dict[str, Any], str]
_MLP: Network = ("mlp", {"hidden": (9, 7)}, "float64")
_CNN: Network = ("cnn", {"filters": (3, 4)}, "float64")
NETWORKS: dict[str, list[Network]] = {
    "numpy": [_MLP, (*_MLP[:2], "float32")],
    "keras_tensorflow": [_CNN],
    "keras_torch": [_CNN],
    "keras_jax": [_MLP],  # it compiles anew for each size of a batch
}
PROBLEM = Problem(input_shape=(8, 8, 1), num_classes=5)
GLOBAL_BATCH = 25  # divisible by none of 2, 3, 4
# Samples of each step: workers have unequal shares, and of the last one some have none.
STEPS = (GLOBAL_BATCH, GLOBAL_BATCH, GLOBAL_BATCH, 1)
LEARNING_RATE = 0.2
# By precision: the largest relative difference to one worker that rounding explains.
TOLERANCES = {"float64": 1e-12, "float32": 1e-5}
# A sabotaged run differs by far more than rounding, at least a hundred times the wider tolerance.
FAR = 1e-3


def main(trainer_name: str, workers: int) -> None:
    """Run every case and hand in what was found."""
    world = connect(workers)
    hand_in(world.rank, {"rules": rules(trainer_name, world)})
    world.close()


def rules(trainer_name: str, world: MpiCommunicator) -> list[dict[str, Any]]:
    """Return what was found in every case of one trainer."""
    cases = []
    for network in NETWORKS[trainer_name]:
        trainer = build(trainer_name, *network, seed=world.rank)
        own_start = trainer.parameters()
        joined = one_worker(trainer, from_worker_0(own_start, world))
        for algorithm in ALGORITHMS[trainer_name]:
            communicator = communicator_with(algorithm)
            for sabotage in SABOTAGES:
                strategy = mpi.create(mpi.OPTIONS(), communicator, algorithm)
                trainer.set_parameters(own_start)
                found = many_workers(trainer, strategy, communicator, sabotage)
                found |= {"difference": difference(trainer.parameters(), joined)}
                cases.append(
                    {"network": network[::2], "algorithm": algorithm, "sabotage": sabotage, "size": communicator.size}
                    | found
                )
            communicator.comm.Free()
        if trainer_name != "numpy":
            check_a_batch_on_the_device_trains_as_an_array(trainer, share(*next(batches()), world)[:2])
    return cases


def build(trainer_name: str, model: str, model_options: dict[str, Any], precision: str, seed: int) -> Trainer:
    """Return a trainer whose start depends on the worker: only a broadcast makes them alike."""
    settings = Settings.model_validate({"model": model, "trainer": trainer_name, "precision": precision})
    plugin, model_plugin = plugins.load("trainers", trainer_name), plugins.load("models", model)
    options = model_plugin.options(**model_options)
    create = plugin.get("create")
    trainer: Trainer = create(settings, model_plugin, options, plugin.options(), PROBLEM, seed, Threads(1, 1))
    trainer.compile(None)
    return trainer


def batches() -> Iterator[tuple[Array, Array]]:
    """Yield the global batches; samples of a class lie about its own mean, sorted, so that slices differ much."""
    random = np.random.default_rng(7)
    means = random.normal(size=(PROBLEM.num_classes, *PROBLEM.input_shape))
    for size in STEPS:
        y = np.sort(random.integers(PROBLEM.num_classes, size=size))
        yield (means[y] + random.normal(size=(size, *PROBLEM.input_shape))).astype(np.float32), y


def share(x: Array, y: Array, communicator: Communicator, sabotage: str = "") -> tuple[Array, Array, float]:
    """Return this worker's slice of a batch, which may be empty, and what its losses are scaled by."""
    mine = np.array_split(np.arange(len(y)), communicator.size)[communicator.rank]
    weights = {"equal-weights": communicator.size * max(1, len(mine)), "full-weights": GLOBAL_BATCH}
    return np.ascontiguousarray(x[mine]), y[mine], 1 / weights.get(sabotage, len(y))


def rehearse(trainer: Trainer, communicator: Communicator) -> None:
    """Prepare for both sizes; nothing may come of it."""
    for x, y in list(batches())[-2:]:
        trainer.rehearse(*share(x, y, communicator))  # type: ignore[attr-defined]


def one_worker(trainer: Trainer, start: Array) -> Array:
    """Return the weights of one worker after training on the whole batches."""
    trainer.set_parameters(start)
    for x, y in batches():
        gradient, _ = trainer.gradient(x, y, 1 / len(y))
        trainer.apply(gradient, LEARNING_RATE)
    end = trainer.parameters()
    if difference(end, start) < 0.01:
        raise RuntimeError("training moved nothing: the comparison would prove nothing")
    return end


def many_workers(trainer: Trainer, strategy: Strategy, communicator: Communicator, sabotage: str) -> dict[str, Any]:
    """Train on this worker's slices; return the verdicts and the hash of its first gradient."""
    if sabotage != "no-broadcast":
        start = trainer.parameters()
        communicator.broadcast(start)
        trainer.set_parameters(start)
    verdicts, hashes = [], []
    if hasattr(trainer, "rehearse"):
        rehearse(trainer, communicator)
    for x, y in batches():
        gradient, _ = trainer.gradient(*share(x, y, communicator, sabotage))
        hashes.append(weights_hash(gradient))
        # What remains without a reduction: each worker follows its own gradient.
        update = gradient * communicator.size if sabotage == "no-reduction" else strategy.all_reduce(gradient)
        trainer.apply(update, LEARNING_RATE)
        verdicts.append(compare(trainer.parameters(), communicator).verdict)
    return {"first": verdicts[0], "last": verdicts[-1], "gradient": hashes[0]}


def from_worker_0(parameters: Array, communicator: Communicator) -> Array:
    """Return worker 0's parameters, by way of text: not by the broadcast that is tested."""
    texts = communicator.all_gather(parameters.tobytes().hex())
    return np.frombuffer(bytes.fromhex(texts[0]), parameters.dtype).copy()


def difference(a: Array, b: Array) -> float:
    """Return the largest difference, relative to the largest weight."""
    return float(np.max(np.abs(a - b)) / np.max(np.abs(b)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
