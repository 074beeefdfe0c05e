"""ResNet-18 for small images (He et al. 2016 with the stem used for CIFAR): 11,173,962 parameters, 0.5554 GMAC.

A 3x3 convolution without pooling, then four stages of residual blocks of two 3x3 convolutions with 64, 128, 256 and
512 filters; where the shape changes the shortcut is a 1x1 convolution ("option B"). Both numbers are for 32x32x3 and
10 classes. `num_blocks` of [3, 4, 6, 3] gives ResNet-34.

Flat order of the weights: in the order of computation, each convolution's kernel [size, size, inputs, filters]
followed by its gamma and beta (without batch norm by its bias), then the last layer's kernel and bias. In a block
with a projection, what belongs to the projection stands before its like of the block's last convolution: kernel
before kernel, gamma and beta before gamma and beta.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from dlbench.models import SampleSpec
from dlbench.models._layers import ResidualOptions, added, convolution, last_gain, projected, residual_network
from dlbench.models._samples import refuse_unless_images
from dlbench.scenario.settings import Count

if TYPE_CHECKING:
    from dlbench.trainers import Problem


class Resnet18Options(ResidualOptions):
    """Options of `resnet18`."""

    width: Count = Field(64, description="Filters of the first stage; each further stage has twice as many.")
    num_blocks: tuple[Count, ...] = Field(
        (2, 2, 2, 2), min_length=1, description="Residual blocks of each stage; each stage but the first halves sides."
    )


OPTIONS = Resnet18Options


def refuse(samples: SampleSpec, options: Resnet18Options) -> str:
    """Return why it cannot take these samples, or an empty string."""
    halvings = len(options.num_blocks) - 1
    return refuse_unless_images(samples, 2**halvings, f"{halvings} halvings need images of")


def keras(problem: "Problem", options: Resnet18Options) -> Any:
    """Return a `keras.Model` that gives outputs [n, num_outputs]."""
    from keras import layers

    inputs = layers.Input(problem.input_shape)
    x = layers.ReLU()(convolution(inputs, options.width, 3, 1, options))
    block = partial(_block, options)
    return residual_network(inputs, x, block, options.num_blocks, options.width, problem.num_outputs)


def _block(options: Resnet18Options, x: Any, filters: int, strides: int) -> Any:
    """Return relu(shortcut(x) + convolution(relu(convolution(x))))."""
    from keras import layers

    shortcut = projected(x, filters, strides, options)
    residual = layers.ReLU()(convolution(x, filters, 3, strides, options))
    residual = convolution(residual, filters, 3, 1, options, last_gain(options, sum(options.num_blocks)))
    return added(shortcut, residual)
