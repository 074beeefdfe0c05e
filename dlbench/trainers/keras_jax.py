"""Keras 3 models on JAX: every step is compiled with XLA, whatever `jit_compile` says.

JAX's attention has its softmax in float32 where the precision is float64, too (`jax.nn.dot_product_attention`).
"""

from typing import Any

import numpy as np

from dlbench.plugins import Options, Plugin
from dlbench.scenario.settings import Settings
from dlbench.trainers import Array, BatchParts, Problem, Threads, _keras_model, _keras_start
from dlbench.trainers._flat_optimizers import FLAT_OPTIMIZERS, make_flat_optimizer
from dlbench.trainers._jax_graph import JaxGraph
from dlbench.trainers._keras_optimizers import OPTIMIZER_SETTINGS, OPTIMIZERS, make_optimizer
from dlbench.trainers._keras_trainer import KerasTrainer

OPTIONS = Options
BUILDER = _keras_model.BUILDER
PRECISIONS = ("float32", "float64", "mixed_bfloat16")
JIT = True
ACCUMULATES = HOLDS_SAMPLES = REPEATS_STEPS = True
BACKEND = "jax"
PACKAGE = "jax"
INSTALL = _keras_start.INSTALL[BACKEND]
__all__ = ["FLAT_OPTIMIZERS", "OPTIMIZERS", "OPTIMIZER_SETTINGS", "make_flat_optimizer"]


def start(settings: Settings, threads: Threads) -> None:
    """Load JAX and Keras with the run's threads, device and precision; `create` may follow.

    Raises:
        UserError: JAX or Keras is missing.
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
        UserError: JAX is missing, or the model, the optimizer or the precision cannot be used.
    """
    jax, keras = _keras_start.start(BACKEND, settings.precision.value, threads)
    distribution = None
    if threads.distribution is not None:
        distribution = threads.distribution(jax)(devices=keras.distribution.list_devices()[: threads.replicas])
    keras.distribution.set_distribution(distribution)
    _keras_start.seed(keras, seed)
    model = _keras_model.build(plugin, model_options, problem, settings)
    optimizer = make_optimizer(keras, settings, model)
    mesh = None if distribution is None else distribution.device_mesh.backend_mesh
    graph = JaxGraph(jax, keras, model, optimizer, problem, BatchParts.of(settings), mesh)
    if mesh is not None:
        return DataParallelTrainer(keras, model, graph, settings.workers, mesh.size)
    return KerasTrainer(keras, model, graph, settings.workers, threads.workers or (0,))


class DataParallelTrainer(KerasTrainer):
    """All devices of one process, each with a copy of the weights and its part of every batch.

    The program is one worker's on the joined batch: so are batch norm's statistics and what dropout draws.
    """

    def __init__(self, keras: Any, model: Any, graph: JaxGraph, num_workers: int, num_replicas: int) -> None:
        super().__init__(keras, model, graph, num_workers, (0,))
        self._num_replicas = num_replicas

    def replicas(self) -> list[Array]:
        """Return a copy of the trainable weights of each device, flat."""
        shards = [variable.value.addressable_shards for variable in self._weights]
        return [
            np.concatenate([np.asarray(of_variable[index].data).ravel() for of_variable in shards])
            for index in range(self._num_replicas)
        ]

    def _read_statistics(self) -> Array:
        return np.tile(super()._read_statistics(), self._num_replicas)

    def _set_statistics(self, flat: Array) -> None:
        super()._set_statistics(np.split(flat, self._num_replicas)[0])
