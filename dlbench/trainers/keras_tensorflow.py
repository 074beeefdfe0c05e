"""Keras 3 models on TensorFlow, each step one or two compiled calls."""

from typing import Any

import numpy as np

from dlbench.errors import UserError, nearest
from dlbench.plugins import Options, Plugin
from dlbench.scenario.settings import Settings
from dlbench.trainers import Problem, Threads, _keras_model, _keras_start
from dlbench.trainers._flat_optimizers import FLAT_OPTIMIZERS, make_flat_optimizer
from dlbench.trainers._keras_graph import Graph
from dlbench.trainers._keras_replicas import Devices, ReplicatedTrainer
from dlbench.trainers._keras_trainer import KerasTrainer

OPTIONS = Options
BUILDER = _keras_model.BUILDER
PRECISIONS = ("float32", "float64", "mixed_bfloat16", "mixed_float16")
JIT = True
ACCUMULATES = True
BACKEND = "tensorflow"
PACKAGE = "tensorflow"
# What strategies of nodes use in place of Keras's own optimizers: the same formulas on flat vectors.
__all__ = ["FLAT_OPTIMIZERS", "make_flat_optimizer"]

# Keras 3's optimizers that need nothing but a gradient, by dlbench's name. `schedule_free_adamw` is left out: it
# evaluates at other weights than those it trains, and swapping them is a step that no other optimizer has.
CLASSES = {
    "sgd": "SGD",
    "rmsprop": "RMSprop",
    "adam": "Adam",
    "adamw": "AdamW",
    "adadelta": "Adadelta",
    "adagrad": "Adagrad",
    "adamax": "Adamax",
    "adafactor": "Adafactor",
    "nadam": "Nadam",
    "ftrl": "Ftrl",
    "lion": "Lion",
    "lamb": "Lamb",
    "muon": "Muon",
}
OPTIMIZERS = tuple(CLASSES)
# Which optimizers take a setting. What others have of their own (Muon's momentum of 0.95) stays Keras's default.
OPTIMIZER_SETTINGS = {"momentum": ("sgd", "rmsprop"), "nesterov": ("sgd",), "weight_decay": OPTIMIZERS}
# Constants that Keras casts to the weights' dtype through float32: 0.9 would be wrong by 2.4e-8.
_CAST = ("momentum", "beta_1", "beta_2", "epsilon_2", "weight_decay")
_CAST_BY_MUON = ("adam_beta_1", "adam_beta_2", "weight_decay", "adam_weight_decay")  # it multiplies by its momentum


def start(settings: Settings, threads: Threads) -> None:
    """Load TensorFlow and Keras with the run's threads, devices and precision; `create` may follow.

    Raises:
        UserError: TensorFlow or Keras is missing, or there are too few accelerators.
    """
    _keras_start.start(settings.precision.value, threads)


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
    if settings.optimizer not in OPTIMIZERS:
        raise UserError(
            f"the keras_tensorflow trainer has no optimizer {settings.optimizer!r}; it has: {', '.join(OPTIMIZERS)}",
            hint=nearest(settings.optimizer, OPTIMIZERS),
        )
    tf, keras = _keras_start.start(settings.precision.value, threads)
    # Before the first operation: several processes cannot connect after it.
    distribution = None if threads.distribution is None else threads.distribution(tf)
    keras.utils.set_random_seed(seed)

    def make() -> tuple[Any, Any]:
        model, optimizer = _keras_model.build(plugin, model_options, problem), make_optimizer(keras, settings)
        optimizer.build(model.trainable_variables)
        return model, optimizer

    num_replicas = 1 if distribution is None else threads.replicas or 1
    workers = threads.workers or tuple(range(num_replicas))
    how = problem, settings.jit_compile, settings.gradient_accumulation_steps
    if distribution is None:
        model, optimizer = make()
        return KerasTrainer(tf, keras, model, Graph(tf, model, optimizer, *how), settings.workers, workers)
    devices = Devices(tf, distribution, num_replicas)
    with distribution.scope():
        model, optimizer = make()
        graph = Graph(tf, model, optimizer, *how, devices.everywhere)
    return ReplicatedTrainer(tf, keras, model, graph, settings.workers, workers, devices)


def make_optimizer(keras: Any, settings: Settings) -> Any:
    """Return the optimizer; its rate is set before each step. float16 alone needs its losses scaled.

    Weight decay is decoupled (Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101), in Keras's form: before
    the step every weight, biases and batch norm's too, loses learning rate x weight decay x itself. 0 means none, also
    for `adamw` and `muon`, whose own default would be 0.004.
    """
    kind = getattr(keras.optimizers, CLASSES[settings.optimizer])
    optimizer = kind(settings.learning_rate, **_taken(settings))
    _set_weight_decay(optimizer, settings.weight_decay)
    if settings.precision == "float64":
        _make_exact(optimizer)
    return keras.optimizers.LossScaleOptimizer(optimizer) if settings.precision == "mixed_float16" else optimizer


def _taken(settings: Settings) -> dict[str, Any]:
    names = [name for name in ("momentum", "nesterov") if settings.optimizer in OPTIMIZER_SETTINGS[name]]
    return {name: getattr(settings, name) for name in names}


def _set_weight_decay(optimizer: Any, weight_decay: float) -> None:
    """Set or remove it; None spares Keras a subtraction of zeros, which `adamw` would not take when it is made."""
    optimizer.weight_decay = weight_decay or None
    if hasattr(optimizer, "adam_weight_decay"):  # Muon's, for what it leaves to Adam
        optimizer.adam_weight_decay = weight_decay or None


def _make_exact(optimizer: Any) -> None:
    """Keep the optimizer's constants in float64."""
    for name in _CAST_BY_MUON if hasattr(optimizer, "adam_beta_1") else _CAST:
        value = getattr(optimizer, name, None)
        if isinstance(value, float):
            setattr(optimizer, name, np.float64(value))
