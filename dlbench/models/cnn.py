"""A small convolutional network: blocks of 3x3 convolution, ReLU and 2x2 pooling, then one linear layer.

Flat order of the weights: block by block, kernel [3, 3, inputs, filters], bias [filters] (with batch norm gamma and
beta instead), then the last layer's kernel and bias.
"""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from dlbench.models import SampleSpec
from dlbench.models._layers import MEANING, BatchNorm, BatchNormOptions, Choice, convolution
from dlbench.models._samples import refuse_unless_images
from dlbench.scenario.settings import Count

if TYPE_CHECKING:
    from dlbench.trainers import Problem


class CnnOptions(BatchNormOptions):
    """Options of `cnn`."""

    filters: tuple[Count, ...] = Field(
        (32, 64), min_length=1, description="Filters of each block; each block halves the image's sides."
    )
    batch_norm: Choice = Field(BatchNorm.NONE, description="Batch norm before each ReLU. " + MEANING)


OPTIONS = CnnOptions


def refuse(samples: SampleSpec, options: CnnOptions) -> str:
    """Return why it cannot take these samples, or an empty string."""
    return refuse_unless_images(samples, 2 ** len(options.filters), f"{len(options.filters)} poolings need images of")


def keras(problem: "Problem", options: CnnOptions) -> Any:
    """Return a `keras.Model` that gives outputs [n, num_outputs]; He's initialisation below each ReLU."""
    from keras import Model, layers

    inputs = x = layers.Input(problem.input_shape)
    for filters in options.filters:
        x = layers.MaxPooling2D()(layers.ReLU()(convolution(x, filters, 3, 1, options)))
    outputs = layers.Dense(problem.num_outputs, kernel_initializer="lecun_normal")
    return Model(inputs, outputs(layers.Flatten()(x)))
