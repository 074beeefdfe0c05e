"""Keras 3 models on TensorFlow, each step one or two compiled calls."""

from typing import Any

from dlbench.plugins import Options, Plugin
from dlbench.scenario.settings import Settings
from dlbench.trainers import BatchParts, Problem, Threads, _keras_model, _keras_start
from dlbench.trainers._flat_optimizers import FLAT_OPTIMIZERS, make_flat_optimizer
from dlbench.trainers._keras_optimizers import OPTIMIZER_SETTINGS, OPTIMIZERS, make_optimizer
from dlbench.trainers._keras_replicas import Devices, ReplicatedTrainer
from dlbench.trainers._keras_trainer import KerasTrainer
from dlbench.trainers._tensorflow_graph import TensorFlowGraph

OPTIONS = Options
BUILDER = _keras_model.BUILDER
PRECISIONS = ("float32", "float64", "mixed_bfloat16", "mixed_float16")
JIT = True
ACCUMULATES = HOLDS_SAMPLES = REPEATS_STEPS = True
BACKEND = "tensorflow"
PACKAGE = "tensorflow"
INSTALL = _keras_start.INSTALL[BACKEND]
# What strategies of nodes use in place of Keras's own optimizers: the same formulas on flat vectors.
__all__ = ["FLAT_OPTIMIZERS", "OPTIMIZERS", "OPTIMIZER_SETTINGS", "make_flat_optimizer"]


def start(settings: Settings, threads: Threads) -> None:
    """Load TensorFlow and Keras with the run's threads, devices and precision; `create` may follow.

    Raises:
        UserError: TensorFlow or Keras is missing, or there are too few accelerators.
    """
    _keras_start.start(BACKEND, settings.precision.value, threads)


def create(
    settings: Settings,
    plugin: Plugin,
    model_options: Options,
    options: Options,
    problem: Problem,
    seed: int,
    threads: Threads,
) -> KerasTrainer:
    """Return a replica of the model; see `dlbench.trainers`.

    Raises:
        UserError: TensorFlow is missing, or the model, the optimizer or the precision cannot be used.
    """
    tf, keras = _keras_start.start(BACKEND, settings.precision.value, threads)
    # Before the first operation: several processes cannot connect after it.
    distribution = None if threads.distribution is None else threads.distribution(tf)
    _keras_start.seed(keras, seed)

    def make() -> tuple[Any, Any]:
        model = _keras_model.build(plugin, model_options, problem, settings)
        return model, make_optimizer(keras, settings, model)

    num_replicas = 1 if distribution is None else threads.replicas or 1
    workers = threads.workers or tuple(range(num_replicas))
    how = problem, settings.jit_compile, BatchParts.of(settings)
    if distribution is None:
        model, optimizer = make()
        return KerasTrainer(keras, model, TensorFlowGraph(tf, model, optimizer, *how), settings.workers, workers)
    devices = Devices(tf, distribution, num_replicas)
    with distribution.scope():
        model, optimizer = make()
        graph = TensorFlowGraph(tf, model, optimizer, *how, devices.everywhere)
    return ReplicatedTrainer(keras, model, graph, settings.workers, workers, devices)
