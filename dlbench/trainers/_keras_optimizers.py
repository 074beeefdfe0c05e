"""Keras's optimizers by name, made from a run's settings.

All of Keras 3 that need nothing but a gradient. `schedule_free_adamw` is left out: it evaluates at other weights than
those it trains, and swapping them is a step that no other optimizer has.
"""

from typing import Any

import numpy as np

from dlbench.scenario.settings import Settings

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
# Which optimizers take a setting. What others remember of their own (Muon's momentum of 0.95) stays Keras's default.
OPTIMIZER_SETTINGS = {"momentum": ("sgd", "rmsprop"), "nesterov": ("sgd",), "weight_decay": tuple(CLASSES)}
# Constants that Keras casts to the weights' kind of number by way of float32: 0.9 would be wrong by 2.4e-8.
CAST = ("momentum", "beta_1", "beta_2", "epsilon_2", "weight_decay")
CAST_BY_MUON = ("adam_beta_1", "adam_beta_2", "weight_decay", "adam_weight_decay")  # it multiplies by its momentum


def make(keras: Any, settings: Settings) -> Any:
    """Return the optimizer; its rate is set before each step. float16 alone needs its losses scaled.

    Weight decay is decoupled (Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101), in Keras's form: before
    the step every weight, biases and batch norm's too, loses learning rate x weight decay x itself. 0 means none, also
    for `adamw` and `muon`, whose own default would be 0.004.
    """
    kind = getattr(keras.optimizers, CLASSES[settings.optimizer])
    made = kind(settings.learning_rate, **_taken(settings))
    _set_weight_decay(made, settings.weight_decay)
    if settings.precision == "float64":
        _make_exact(made)
    return keras.optimizers.LossScaleOptimizer(made) if settings.precision == "mixed_float16" else made


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
    for name in CAST_BY_MUON if hasattr(optimizer, "adam_beta_1") else CAST:
        value = getattr(optimizer, name, None)
        if isinstance(value, float):
            setattr(optimizer, name, np.float64(value))
