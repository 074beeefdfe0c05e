"""A multilayer perceptron: dense ReLU layers on the flattened sample.

Flat order of the weights: layer by layer, kernel [inputs, outputs] row by row, bias [outputs].
"""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from dlbench.models import SampleSpec
from dlbench.models._samples import refuse_unless_flat
from dlbench.plugins import Options
from dlbench.scenario.settings import Count

if TYPE_CHECKING:
    from dlbench.trainers import Problem


class MlpOptions(Options):
    """Options of `mlp`."""

    hidden: tuple[Count, ...] = Field((128,), min_length=1, description="Widths of the hidden layers.")


OPTIONS = MlpOptions


def refuse(samples: SampleSpec, options: MlpOptions) -> str:
    """Return why it cannot take these samples, or an empty string."""
    return refuse_unless_flat(samples)


def keras(problem: "Problem", options: MlpOptions) -> Any:
    """Return a `keras.Model` that gives outputs [n, num_outputs]; He's initialisation below each ReLU."""
    from keras import Sequential, layers

    hidden = [layers.Dense(width, activation="relu", kernel_initializer="he_normal") for width in options.hidden]
    outputs = layers.Dense(problem.num_outputs, kernel_initializer="lecun_normal")
    return Sequential([layers.Input(problem.input_shape), layers.Flatten(), *hidden, outputs])


def numpy(problem: "Problem", options: MlpOptions) -> tuple[int, ...]:
    """Return the widths of its hidden layers."""
    return options.hidden
