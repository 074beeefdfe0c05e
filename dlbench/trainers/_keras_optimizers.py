"""Keras's optimizers by dlbench's names, made with a run's settings."""

from typing import Any

import numpy as np

from dlbench.errors import UserError, nearest
from dlbench.scenario.settings import Settings

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


def make_optimizer(keras: Any, settings: Settings, model: Any) -> Any:
    """Return the optimizer, built for a model; its rate is set before each step. float16 alone needs its losses scaled.

    Weight decay is decoupled (Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101), in Keras's form: before
    the step every weight, biases and batch norm's too, loses learning rate x weight decay x itself. 0 means none, also
    for `adamw` and `muon`, whose own default would be 0.004.

    Raises:
        UserError: There is no such optimizer.
    """
    if settings.optimizer not in OPTIMIZERS:
        raise UserError(
            f"the trainer {settings.trainer} has no optimizer {settings.optimizer!r}; it has: {', '.join(OPTIMIZERS)}",
            hint=nearest(settings.optimizer, OPTIMIZERS),
        )
    kind = getattr(keras.optimizers, CLASSES[settings.optimizer])
    taken = [name for name in ("momentum", "nesterov") if settings.optimizer in OPTIMIZER_SETTINGS[name]]
    optimizer = kind(settings.learning_rate, **{name: getattr(settings, name) for name in taken})
    # None spares Keras a subtraction of zeros, which `adamw` would not take when it is made.
    optimizer.weight_decay = settings.weight_decay or None
    if hasattr(optimizer, "adam_weight_decay"):  # Muon's, for what it leaves to Adam
        optimizer.adam_weight_decay = settings.weight_decay or None
    if settings.precision == "float64":
        _make_exact(optimizer)
    if settings.precision == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    return optimizer


def all_variables(keras: Any, optimizer: Any) -> list[Any]:
    """Return an optimizer's variables, also those that Keras does not list.

    `LossScaleOptimizer` builds the inner one while nothing is tracked: Nadam's product of momenta is missing then.
    """
    listed = list(optimizer.variables)
    listed_ids = {id(variable) for variable in listed}
    held = vars(getattr(optimizer, "inner_optimizer", optimizer)).values()
    return listed + [each for each in held if isinstance(each, keras.Variable) and id(each) not in listed_ids]


def _make_exact(optimizer: Any) -> None:
    """Keep the optimizer's constants in float64."""
    for name in _CAST_BY_MUON if hasattr(optimizer, "adam_beta_1") else _CAST:
        value = getattr(optimizer, name, None)
        if isinstance(value, float):
            setattr(optimizer, name, np.float64(value))
