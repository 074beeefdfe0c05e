"""A small convolutional network: blocks of 3x3 convolution, ReLU and 2x2 pooling, then one linear layer.

Flat order of the weights: block by block, kernel [3, 3, inputs, filters], bias [filters] (with batch norm gamma and
beta instead), then the last layer's kernel and bias.
"""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from dlbench.plugins import Options
from dlbench.scenario.settings import Count

if TYPE_CHECKING:
    from dlbench.trainers import Problem


class CnnOptions(Options):
    """Options of `cnn`."""

    filters: tuple[Count, ...] = Field(
        (32, 64), min_length=1, description="Filters of each block; each block halves the image's sides."
    )
    batch_norm: bool = Field(False, description="Normalise over the batch before each ReLU.")
    batch_norm_momentum: float = Field(
        0.9, ge=0, lt=1, description="What the moving statistics of batch norm keep in each step."
    )


OPTIONS = CnnOptions


def refuse(input_shape: tuple[int, ...], options: CnnOptions) -> str:
    """Return why it cannot take samples of this shape, or an empty string."""
    if len(input_shape) != 3:
        return f"it takes images [height, width, channels], not samples of shape {list(input_shape)}"
    smallest = 2 ** len(options.filters)
    if min(input_shape[:2]) < smallest:
        return f"{len(options.filters)} poolings need images of at least {smallest}x{smallest} pixels"
    return ""


def keras(problem: "Problem", options: CnnOptions) -> Any:
    """Return a `keras.Model` that gives logits [n, num_classes]; He's initialisation below each ReLU."""
    from keras import Sequential, layers

    stack = [layers.Input(problem.input_shape)]
    for filters in options.filters:
        stack.append(
            layers.Conv2D(filters, 3, padding="same", use_bias=not options.batch_norm, kernel_initializer="he_normal")
        )
        if options.batch_norm:
            stack.append(layers.BatchNormalization(momentum=options.batch_norm_momentum))
        stack += [layers.ReLU(), layers.MaxPooling2D()]
    logits = layers.Dense(problem.num_classes, kernel_initializer="lecun_normal")
    return Sequential([*stack, layers.Flatten(), logits])
