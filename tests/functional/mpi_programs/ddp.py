"""Do as `train` with Keras on torch; then train with DistributedDataParallel, sound and sabotaged, and alone.

Rank r hands in, for each case, the verdict on the agreement of workers and the largest difference to one worker,
relative to the largest weight.
"""

import os
import socket
import sys
from typing import Any

from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from dlbench import plugins
from dlbench.communicators import mpi, torch
from dlbench.scenario.settings import Settings
from dlbench.strategies import Communicator, ddp
from dlbench.trainers import Threads, Trainer
from dlbench.worker.train.agreement import compare
from tests.functional.mpi_programs.launch import hand_in
from tests.functional.mpi_programs.train import (
    GLOBAL_BATCH,
    LEARNING_RATE,
    PROBLEM,
    batches,
    difference,
    rules,
    share,
)

MLP: tuple[str, dict[str, Any], str] = ("mlp", {"hidden": (9, 7)}, "float64")
# Means of the global batch: in one process those of its own.
SYNCHRONIZED: tuple[str, dict[str, Any], str] = ("cnn", {"filters": (3, 4), "batch_norm": "synchronized"}, "float64")
Case = tuple[str, tuple[str, dict[str, Any], str], dict[str, Any], int, str]
# Name, network, options of the strategy, parts in which a batch is computed, sabotage.
CASES: list[Case] = [
    ("plain", MLP, {}, 1, ""),
    ("float32", (*MLP[:2], "float32"), {}, 1, ""),
    ("parts", MLP, {"gradient_as_bucket_view": False}, 2, ""),
    ("static", MLP, {"static_graph": True, "bucket_cap_mb": 0.001}, 1, ""),
    ("synchronized", SYNCHRONIZED, {}, 1, ""),
    ("fp16", MLP, {"communication_hook": "fp16"}, 1, ""),
    ("power-sgd", MLP, {"communication_hook": "power-sgd", "power_sgd_start_step": 2, "bucket_cap_mb": 0.001}, 1, ""),
    ("no-reduction", MLP, {}, 1, "no-reduction"),
    ("full-weights", MLP, {}, 1, "full-weights"),
]


def main(trainer_name: str, workers: int) -> None:
    """Run every case and hand in what was found."""
    over_mpi = mpi.connect(workers)
    found: dict[str, Any] = {"rules": rules(trainer_name, over_mpi)}
    with socket.create_server(("127.0.0.1", 0)) as server:
        ports = over_mpi.all_gather(server.getsockname()[1])
    place = {"RANK": over_mpi.rank, "WORLD_SIZE": workers, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": ports[0]}
    os.environ.update({name: str(value) for name, value in place.items()})
    world = torch.connect(workers)
    hand_in(world.rank, found | {"ddp": {case[0]: attempt(case, world) for case in CASES}})
    world.close()
    over_mpi.close()


def attempt(case: Case, world: Communicator) -> dict[str, Any]:
    """Return the verdict on the agreement, and the difference to one worker."""
    _, network, options, parts, sabotage = case
    alone = build(network, parts, None, seed=0)
    start = alone.parameters()
    alone.compile(None, lambda tensor: tensor)
    for x, y in batches():
        alone.apply(alone.gradient(x, y, 1 / len(y))[0], LEARNING_RATE)
    strategy = ddp.create(ddp.OPTIONS(**options), world, None)
    trainer = build(network, parts, strategy, seed=world.rank)
    world.broadcast(start)
    trainer.set_parameters(start)
    step = strategy.bind(trainer, Reporter())
    wrapped = trainer._graph._wrapped  # type: ignore[attr-defined]
    reductions: list[int] = []
    if parts > 1:
        hook = default_hooks.allreduce_hook
        wrapped.register_comm_hook(reductions, lambda kept, bucket: kept.append(bucket.index()) or hook(None, bucket))
    for x, y in batches():
        my_x, my_y, _ = share(x, y, world)
        total = GLOBAL_BATCH if sabotage == "full-weights" else len(y)
        if sabotage == "no-reduction":
            with wrapped.no_sync():
                step.run(lambda mine=(my_x, my_y): mine, total, LEARNING_RATE, marked=False)
        else:
            step.run(lambda mine=(my_x, my_y): mine, total, LEARNING_RATE, marked=False)
    verdict = compare(trainer.parameters(), world).verdict
    statistics = (each.state("statistics")["statistics"] for each in (alone, trainer))
    return {
        "verdict": verdict,
        "reductions": reductions.count(0),
        "difference": difference(trainer.parameters(), alone.parameters()),
        "statistics": max((float(abs(a - b)) for a, b in zip(*statistics, strict=True)), default=0.0),
    }


class Reporter:
    """Takes the phase."""

    phase = ""


def build(network: tuple[str, dict[str, Any], str], parts: int, strategy: ddp.Ddp | None, seed: int) -> Trainer:
    """Return a trainer; its start depends on the worker."""
    model, options, precision = network
    settings = Settings.model_validate(
        {
            "model": model,
            "backend": "torch",
            "trainer": "keras_torch",
            "precision": precision,
            "gradient_accumulation_steps": parts,
            "workers": int(os.environ["WORLD_SIZE"]) if strategy else 1,
        }
    )
    plugin, engine = plugins.load("models", model), plugins.load("trainers", "keras_torch")
    distribution = None if strategy is None else strategy.distribution
    threads = Threads(1, 1, 0, None, distribution)
    trainer: Trainer = engine.get("create")(
        settings, plugin, plugin.options(**options), engine.options(), PROBLEM, seed, threads
    )
    return trainer


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
