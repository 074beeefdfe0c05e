"""Softmax regression: one linear layer, a convex problem.

Flat order of the weights: kernel [inputs, classes] row by row, bias [classes].
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
    """Return a `keras.Model` that gives logits [n, num_classes]."""
    from keras import Sequential, layers

    return Sequential(
        [
            layers.Input(problem.input_shape),
            layers.Flatten(),
            layers.Dense(problem.num_classes, kernel_initializer="lecun_normal"),
        ]
    )


def numpy(problem: "Problem", options: Options) -> tuple[int, ...]:
    """Return the widths of its hidden layers: it has none."""
    return ()
