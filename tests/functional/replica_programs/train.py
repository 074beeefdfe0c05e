"""Train a few compiled steps on the replicas of one process and on one worker, sound and sabotaged.

Hands in, for each case: the verdict on the agreement of replicas after the first step and at the end; how far the first
replica's weights and all replicas' moving statistics are from one worker that trained on the joined batches, relative
to the largest; and, of sound cases, how the replicas evaluate, and the verdict once a copy of a weight is changed.
"""

import functools
import sys
from typing import Any, NamedTuple

import numpy as np

from dlbench import plugins
from dlbench.communicators import _single
from dlbench.scenario.settings import Settings
from dlbench.strategies import mirrored
from dlbench.trainers import Array, Problem, Threads, Trainer
from dlbench.worker.train.agreement import compare
from tests.functional.mpi_programs.launch import hand_in
from tests.functional.mpi_programs.train import GLOBAL_BATCH, LEARNING_RATE, PROBLEM, batches, difference, rehearse
from tests.functional.replica_programs.masks import build as build_masked
from tests.functional.replica_programs.masks import masks
from tests.functional.replica_programs.sabotaged import without_reduction

SEED = 5


MOMENTUM = {"optimizer": "sgd", "momentum": 0.9}


class Case(NamedTuple):
    """What is trained, how it is summed, and what is left out of it."""

    model: str = "mlp"
    precision: str = "float64"
    settings: dict[str, Any] = MOMENTUM
    model_options: dict[str, Any] = {"hidden": (9, 7)}  # noqa: RUF012 - read only
    cross_device_ops: str = "auto"
    sabotage: str = ""


CNN: dict[str, Any] = {"filters": (3,)}
IN_PARTS = {"optimizer": "adam", "gradient_accumulation_steps": 3}
SYNCHRONIZED = Case("cnn", model_options=CNN | {"batch_norm": "synchronized"})
LOCAL = Case("cnn", model_options=CNN | {"batch_norm": "local"}, sabotage="local-batch-norm")
# By number of workers; in all of them each optimizer, way of summing, network and sabotage.
CASES: dict[int, tuple[Case, ...]] = {
    2: (
        Case(sabotage="no-reduction"),
        Case(settings=IN_PARTS, cross_device_ops="hierarchical_copy"),
        Case(sabotage="second-reduction"),
        SYNCHRONIZED._replace(cross_device_ops="reduce_to_one_device"),
    ),
    3: (
        Case(),
        Case(precision="float32"),
        Case(cross_device_ops="hierarchical_copy"),
        Case(settings=IN_PARTS),
        Case(sabotage="full-weights"),
        SYNCHRONIZED,
        LOCAL,
    ),
}
# On JAX, where one program sums over all samples: batch norm is the joined batch's, whatever it is called.
JAX = "jax"
_WITH_BATCH_NORM = Case("cnn", settings=IN_PARTS, model_options=CNN | {"batch_norm": "local"})
JAX_CASES = {3: (Case(),), 2: (Case(), _WITH_BATCH_NORM)}
# So many workers also draw masks: each is built many times for them.
MASKED = 2


def main(workers: int, engine: str) -> None:
    """Run every case and hand in what was found."""
    if engine == JAX:
        hand_in(0, {"cases": [case._asdict() | found(case, workers, engine) for case in JAX_CASES[workers]]})
        return
    cases = [case._asdict() | found(case, workers, engine) for case in CASES[workers]]
    threads = Threads(1, 2, replicas=workers, distribution=functools.partial(made, "auto"))
    drawn = {"masks": masks(workers, lambda: build_masked(threads, workers))} if workers == MASKED else {}
    hand_in(0, {"cases": cases, **drawn})


class Alone(NamedTuple):
    """One worker, and what became of it on the joined batches."""

    trainer: Trainer
    sums: list[list[float]]
    start: Array
    end: Array
    statistics: Array


ALONE: dict[str, Alone] = {}


def alone(case: Case, workers: int, engine: str) -> Alone:
    """Train one worker, once for all cases that differ in what replicas do alone."""
    key = str((case.model, case.precision, case.settings, case.model_options))
    if key not in ALONE:
        trainer = build(case, workers, engine, replicated=False)
        start = trainer.parameters()
        sums = [list(trainer.step(x, y, 1 / len(y), LEARNING_RATE).values()) for x, y in batches()]
        end = trainer.parameters()
        if difference(end, start) < 0.01:
            raise RuntimeError("training moved nothing: the comparison would prove nothing")
        ALONE[key] = Alone(trainer, sums, start, end, trainer.state("statistics")["statistics"])
    return ALONE[key]


def found(case: Case, workers: int, engine: str) -> dict[str, Any]:
    """Train both ways and return what is to be judged."""
    one, many = alone(case, workers, engine), build(case, workers, engine, replicated=True)
    if difference(one.start, many.parameters()) != 0:
        raise RuntimeError("the same seed gave other first weights")
    verdicts, sums = [], []
    for x, y in batches():
        scale = 1 / (GLOBAL_BATCH if case.sabotage == "full-weights" else len(y))
        sums.append(list(many.step(x, y, scale, LEARNING_RATE).values()))
        if not verdicts:
            rehearse(many, _single.connect(1))
        verdicts.append(verdict(many))
    judged = {
        "first": verdicts[0],
        "last": verdicts[-1],
        "difference": difference(many.parameters(), one.end),
        "statistics_difference": [
            difference(own, one.statistics)
            for own in np.split(many.state("statistics")["statistics"], workers)
            if one.statistics.size
        ],
        "sums": list(zip(one.sums, sums, strict=True)),
        "num_replicas": len(many.replicas()),
    }
    return judged if case.sabotage else judged | others_of_the_contract(many, one.trainer, engine)


def verdict(many: Trainer) -> str:
    """Return whether replicas agree."""
    first, *others = many.replicas()
    return compare(first, _single.connect(1), others).verdict


def build(case: Case, workers: int, engine: str, *, replicated: bool) -> Trainer:
    """Return a compiled trainer; both kinds see a processor that looks like so many devices."""
    given = {"model": case.model, "precision": case.precision, "workers": workers, **case.settings}
    plugin, model = plugins.load("trainers", f"keras_{engine}"), plugins.load("models", case.model)
    strategy = mirrored.create(mirrored.OPTIONS(), _single.connect(1), None)
    distribution = strategy.distribution if engine == JAX else functools.partial(made, case.cross_device_ops)
    threads = Threads(1, 2, replicas=workers, distribution=distribution if replicated else None)
    options = model.options(**case.model_options), plugin.options()
    problem = Problem(PROBLEM.input_shape, PROBLEM.num_classes)
    trainer: Trainer = plugin.get("create")(Settings.model_validate(given), model, *options, problem, SEED, threads)
    if replicated:
        in_graph = strategy.in_graph if engine == JAX else hook(case, strategy, trainer)
        trainer.compile(in_graph, strategy.in_forward)
    else:
        trainer.compile(lambda gradients: gradients, lambda tensor: tensor)
    return trainer


@functools.cache
def made(cross_device_ops: str, tf: Any) -> Any:
    """Return one distribution for all cases: two in a process would number their sums alike, and mix them up."""
    options = mirrored.MirroredOptions.model_validate({"cross_device_ops": cross_device_ops})
    return mirrored.create(options, _single.connect(1), None).distribution(tf)


def hook(case: Case, strategy: Any, trainer: Any) -> Any:
    """Return what the compiled step does with gradients."""
    if case.sabotage == "no-reduction":
        return without_reduction
    if case.sabotage == "second-reduction":
        del trainer._graph.optimizer._all_reduce_sum_gradients
    return strategy.in_graph


def change_other_copies(trainer: Any, engine: str) -> None:
    """Change the first weights on every device but the first."""
    first = trainer._weights[0]
    if engine != JAX:
        for copy in first.value.values[1:]:
            copy.assign_add(copy * 0 + 0.01)
        return
    import jax

    copies = [shard.data + (0.01 if number else 0) for number, shard in enumerate(first.value.addressable_shards)]
    first._direct_assign(jax.make_array_from_single_device_arrays(first.shape, first.value.sharding, copies))


def others_of_the_contract(many: Trainer, joined: Trainer, engine: str) -> dict[str, Any]:
    """Return evaluations (more samples than replicas, and fewer), gradients and state, next to those of one worker.

    Agreement also where replicas that are not the first are changed.
    """
    x, y = next(batches())
    joined.set_parameters(many.parameters())
    size = joined.state("statistics")["statistics"].size
    first = many.state("statistics")["statistics"][:size]
    joined.set_state({"statistics": first})
    many.set_state({"statistics": np.tile(first, len(many.replicas()))})
    scores = [[list(t.evaluate(x[:n], y[:n]).values()) for t in (joined, many)] for n in (len(y), 1)]
    one, several = (np.array(trainer.gradient(x, y, 0.1)[0]) for trainer in (joined, many))
    state: Array = many.state("optimizer")["optimizer"]
    many.set_state({"optimizer": state})
    comes_back = bool(np.array_equal(many.state("optimizer")["optimizer"], state))
    change_other_copies(many, engine)
    return {
        "scores": scores,
        "gradient_difference": difference(several, one),
        "state_comes_back": comes_back,
        "changed": verdict(many),
        "statistics": [
            many.state("statistics")["statistics"].size,
            size,
        ],
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
