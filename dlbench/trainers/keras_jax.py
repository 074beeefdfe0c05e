"""Keras 3 models on JAX: every step is compiled with XLA, whatever `jit_compile` says.

JAX's attention has its softmax in float32 where the precision is float64, too (`jax.nn.dot_product_attention`).
"""

from dlbench.plugins import Options, Plugin
from dlbench.scenario.settings import Settings
from dlbench.trainers import Problem, Threads, _keras_model, _keras_start
from dlbench.trainers._flat_optimizers import FLAT_OPTIMIZERS, make_flat_optimizer
from dlbench.trainers._jax_graph import JaxGraph
from dlbench.trainers._keras_optimizers import OPTIMIZER_SETTINGS, OPTIMIZERS, make_optimizer
from dlbench.trainers._keras_trainer import KerasTrainer

OPTIONS = Options
BUILDER = _keras_model.BUILDER
PRECISIONS = ("float32", "float64", "mixed_bfloat16")
JIT = True
ACCUMULATES = True
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
    _keras_start.seed(keras, seed)
    model = _keras_model.build(plugin, model_options, problem)
    optimizer = make_optimizer(keras, settings, model)
    graph = JaxGraph(jax, keras, model, optimizer, problem, settings.gradient_accumulation_steps)
    return KerasTrainer(keras, model, graph, settings.workers, threads.workers or (0,))
