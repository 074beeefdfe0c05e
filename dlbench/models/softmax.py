"""Softmax regression: one linear layer, a convex problem; linear regression where a number is predicted.

Flat order of the weights: kernel [inputs, outputs] row by row, bias [outputs].
"""

from typing import TYPE_CHECKING, Any

from dlbench.models import SampleSpec
from dlbench.models._samples import refuse_unless_flat
from dlbench.plugins import Options

if TYPE_CHECKING:
    from dlbench.trainers import Problem

OPTIONS = Options


def refuse(samples: SampleSpec, options: Options) -> str:
    """Return why it cannot take these samples, or an empty string."""
    return refuse_unless_flat(samples)


def keras(problem: "Problem", options: Options) -> Any:
    """Return a `keras.Model` that gives outputs [n, num_outputs]."""
    from keras import Sequential, layers

    outputs = layers.Dense(problem.num_outputs, kernel_initializer="lecun_normal")
    return Sequential([layers.Input(problem.input_shape), layers.Flatten(), outputs])


def numpy(problem: "Problem", options: Options) -> tuple[int, ...]:
    """Return the widths of its hidden layers: it has none."""
    return ()
