"""Train a few compiled steps on slices of each global batch and on the whole of it, sound and sabotaged.

For each case: the verdict on the agreement of workers after the first step and at the end, and the largest
difference to one worker that trained on the joined batches, relative to the largest weight.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from dlbench import plugins
from dlbench.communicators.horovod import HorovodCommunicator
from dlbench.scenario.settings import Settings
from dlbench.strategies import horovod
from dlbench.trainers import Threads, Trainer
from dlbench.worker.train.agreement import compare, weights_hash
from tests.functional.mpi_programs.train import (
    LEARNING_RATE,
    PROBLEM,
    batches,
    difference,
    from_worker_0,
    one_worker,
    rehearse,
    share,
)

# Shares of a batch that are weighted wrongly are no matter of Horovod's.
SABOTAGES = ("no-reduction", "no-broadcast")
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


EVERYWHERE = (Case("float64", {}), *(Case("float64", {}, sabotage) for sabotage in SABOTAGES))
# Each option under one of the libraries.
CASES = {
    "mpi": (*EVERYWHERE, Case("float64", {"groups": 1, "overlap": False})),
    "gloo": (
        *EVERYWHERE,
        Case("float32", {}),
        Case("float64", {"groups": 3, "overlap": False}),
        Case("float32", {"compression": "fp16"}),
    ),
}


def cases(communicator: HorovodCommunicator) -> list[dict[str, Any]]:
    """Run every case of the library and return what was found."""
    found = []
    of_library = CASES[communicator.facts()["collectives"]]
    for precision in dict.fromkeys(case.precision for case in of_library):
        trainer = build(precision, seed=communicator.rank)
        own_start = trainer.parameters()
        start = from_worker_0(own_start, communicator)
        # One worker trains once: elsewhere its batches would be traced for nothing.
        joined = from_worker_0(start if communicator.rank else one_worker(trainer, start), communicator)
        for case in (case for case in of_library if case.precision == precision):
            trainer.set_parameters(own_start)
            result = many_workers(trainer, communicator, case)
            result |= {"difference": difference(trainer.parameters(), joined)}
            found.append({**case._asdict(), **result})
    return found


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


def many_workers(trainer: Trainer, communicator: HorovodCommunicator, case: Case) -> dict[str, Any]:
    """Train on this worker's slices; return the verdicts and, of a sound case, the hash of its first local gradient."""
    strategy = horovod.create(horovod.OPTIONS(**case.options), communicator, None)
    if case.sabotage != "no-broadcast":
        start = trainer.parameters()
        communicator.broadcast(start)
        trainer.set_parameters(start)
    # What remains without a reduction: each worker follows its own gradient.
    alone: Callable[[list[Any]], list[Any]] = lambda gradients: [g * communicator.size for g in gradients]  # noqa: E731
    trainer.compile(alone if case.sabotage == "no-reduction" else strategy.in_graph)
    verdicts, gradient = [], ""
    for x, y in batches():
        own = share(x, y, communicator)
        if not case.sabotage and not gradient:
            gradient = weights_hash(trainer.gradient(*own)[0])
        trainer.step(*own, LEARNING_RATE)
        if not verdicts:
            rehearse(trainer, communicator)
        verdicts.append(compare(trainer.parameters(), communicator).verdict)
    return {"first": verdicts[0], "last": verdicts[-1], "gradient": gradient}
