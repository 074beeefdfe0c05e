"""ResNet-50 v1.5 (He et al. 2016, stride in the 3x3 convolution): 25,557,032 parameters, 4.089 GMAC at 224x224x3.

A 7x7 convolution and a pooling, each of stride 2, then four stages of bottleneck blocks: 1x1, 3x3 and 1x1
convolutions, the last with four times the filters; where the shape changes the shortcut is a 1x1 convolution. The
numbers are for 1000 classes. `stem: small` starts with one 3x3 convolution of stride 1, for images such as CIFAR's.
`num_blocks` of [3, 4, 23, 3] gives ResNet-101.

Flat order of the weights: in the order of computation, each convolution's kernel [size, size, inputs, filters]
followed by its gamma and beta (without batch norm by its bias), then the last layer's kernel and bias. In a block
with a projection, what belongs to the projection stands before its like of the block's last convolution: kernel
before kernel, gamma and beta before gamma and beta.
"""

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from dlbench.models import SampleSpec
from dlbench.models._layers import ResidualOptions, added, convolution, last_gain, projected, residual_network
from dlbench.models._samples import refuse_unless_images
from dlbench.scenario.settings import Count

if TYPE_CHECKING:
    from dlbench.trainers import Problem

EXPANSION = 4


class Stem(StrEnum):
    """How an image enters: reduced to a quarter of its sides, or as it is."""

    LARGE = "large"
    SMALL = "small"


class Resnet50Options(ResidualOptions):
    """Options of `resnet50`."""

    width: Count = Field(
        64, description="Filters inside the first stage's blocks; each further stage has twice as many."
    )
    num_blocks: tuple[Count, ...] = Field(
        (3, 4, 6, 3),
        min_length=1,
        description="Bottleneck blocks of each stage; each stage but the first halves sides.",
    )
    stem: Stem = Field(
        Stem.LARGE,
        description="`large`: 7x7 convolution and 3x3 pooling, each of stride 2, as published; `small`: one 3x3 "
        "convolution of stride 1, for images of 32 pixels or so.",
    )


OPTIONS = Resnet50Options


def refuse(samples: SampleSpec, options: Resnet50Options) -> str:
    """Return why it cannot take these samples, or an empty string."""
    halvings = len(options.num_blocks) - 1 + (2 if options.stem is Stem.LARGE else 0)
    hint = " (or `stem: small`)" if options.stem is Stem.LARGE else ""
    return refuse_unless_images(samples, 2**halvings, f"{halvings} halvings{hint} need images of")


def keras(problem: "Problem", options: Resnet50Options) -> Any:
    """Return a `keras.Model` that gives outputs [n, num_outputs]."""
    from keras import layers

    inputs = layers.Input(problem.input_shape)
    is_small = options.stem is Stem.SMALL
    size, strides = (3, 1) if is_small else (7, 2)
    x = layers.ReLU()(convolution(inputs, options.width, size, strides, options))
    x = x if is_small else layers.MaxPooling2D(3, 2, padding="same")(x)
    block = partial(_block, options)
    return residual_network(inputs, x, block, options.num_blocks, options.width, problem.num_outputs)


def _block(options: Resnet50Options, x: Any, filters: int, strides: int) -> Any:
    """Return relu(shortcut(x) + 1x1(relu(3x3(relu(1x1(x)))))): the stride is that of the 3x3 convolution."""
    from keras import layers

    shortcut = projected(x, EXPANSION * filters, strides, options)
    residual = layers.ReLU()(convolution(x, filters, 1, 1, options))
    residual = layers.ReLU()(convolution(residual, filters, 3, strides, options))
    gain = last_gain(options, sum(options.num_blocks))
    return added(shortcut, convolution(residual, EXPANSION * filters, 1, 1, options, gain))
