"""ResNet-20 for small images (He et al. 2016, section 4.2): 269,722 parameters, 40.55 million MAC on 32x32x3.

Three stages of residual blocks of two 3x3 convolutions with 16, 32 and 64 filters; shortcuts without parameters
("option A": every second pixel, missing channels zero). `num_blocks` of 5, 7, 9 gives ResNet-32, 44, 56.

Flat order of the weights: in the order of computation, each convolution's kernel [3, 3, inputs, filters] followed by
its gamma and beta (without batch norm by its bias), then the last layer's kernel and bias.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from dlbench.models import SampleSpec
from dlbench.models._layers import ResidualOptions, added, convolution, last_gain, residual_network
from dlbench.models._samples import refuse_unless_images
from dlbench.scenario.settings import Count

if TYPE_CHECKING:
    from dlbench.trainers import Problem

STAGES = 3


class Resnet20Options(ResidualOptions):
    """Options of `resnet20`."""

    width: Count = Field(16, description="Filters of the first stage; each further stage has twice as many.")
    num_blocks: Count = Field(3, description="Residual blocks of each of the three stages.")


OPTIONS = Resnet20Options


def refuse(samples: SampleSpec, options: Resnet20Options) -> str:
    """Return why it cannot take these samples, or an empty string."""
    return refuse_unless_images(samples, 4, "it halves the image twice and needs")


def keras(problem: "Problem", options: Resnet20Options) -> Any:
    """Return a `keras.Model` that gives outputs [n, num_outputs]."""
    from keras import layers

    inputs = layers.Input(problem.input_shape)
    x = layers.ReLU()(convolution(inputs, options.width, 3, 1, options))
    block = partial(_block, options)
    return residual_network(inputs, x, block, [options.num_blocks] * STAGES, options.width, problem.num_outputs)


def _block(options: Resnet20Options, x: Any, filters: int, strides: int) -> Any:
    """Return relu(shortcut(x) + convolution(relu(convolution(x)))).

    The shortcut is every `strides`-th pixel of x, its channels padded with zeros on both sides to `filters`.
    """
    from keras import layers, ops

    residual = layers.ReLU()(convolution(x, filters, 3, strides, options))
    residual = convolution(residual, filters, 3, 1, options, last_gain(options, STAGES * options.num_blocks))
    shortcut = x[:, ::strides, ::strides, :] if strides > 1 else x
    if missing := filters - x.shape[-1]:
        shortcut = ops.pad(shortcut, [[0, 0], [0, 0], [0, 0], [missing // 2, missing - missing // 2]])
    return added(shortcut, residual)
