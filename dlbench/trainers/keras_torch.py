"""Keras 3 models on PyTorch; `jit_compile` compiles the step with `torch.compile`."""

from dlbench.plugins import Options, Plugin
from dlbench.scenario.settings import Settings
from dlbench.trainers import BatchParts, Problem, Threads, _keras_model, _keras_start
from dlbench.trainers._flat_optimizers import FLAT_OPTIMIZERS, make_flat_optimizer
from dlbench.trainers._keras_optimizers import OPTIMIZER_SETTINGS, OPTIMIZERS, make_optimizer
from dlbench.trainers._keras_trainer import KerasTrainer
from dlbench.trainers._torch_graph import TorchGraph

OPTIONS = Options
BUILDER = _keras_model.BUILDER
PRECISIONS = ("float32", "float64", "mixed_bfloat16", "mixed_float16")
JIT = True
ACCUMULATES = HOLDS_SAMPLES = REPEATS_STEPS = True
BACKEND = "torch"
PACKAGE = "torch"
INSTALL = _keras_start.INSTALL[BACKEND]
__all__ = ["FLAT_OPTIMIZERS", "OPTIMIZERS", "OPTIMIZER_SETTINGS", "make_flat_optimizer"]


def start(settings: Settings, threads: Threads) -> None:
    """Load PyTorch and Keras with the run's threads, device and precision; `create` may follow.

    Raises:
        UserError: PyTorch or Keras is missing.
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
        UserError: PyTorch is missing, or the model, the optimizer or the precision cannot be used.
    """
    torch, keras = _keras_start.start(BACKEND, settings.precision.value, threads)
    _keras_start.seed(keras, seed)
    model = _keras_model.build(plugin, model_options, problem, settings)
    optimizer = make_optimizer(keras, settings, model)
    for layer in model._flatten_layers():
        # Else dropout is drawn by PyTorch's own generator: alike on all workers, and in no checkpoint.
        for generator in layer._seed_generators:
            if generator._initial_seed is None:
                generator._initial_seed = seed
    wrap = None if threads.distribution is None else threads.distribution(torch)
    wrapped = None if wrap is None else wrap(model)
    how = problem, settings.jit_compile, BatchParts.of(settings), wrapped
    graph = TorchGraph(torch, model, optimizer, *how)
    return KerasTrainer(keras, model, graph, settings.workers, threads.workers or (0,))
