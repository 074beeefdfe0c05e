"""VGG-16 (Simonyan and Zisserman 2015, configuration D): 138,357,544 parameters, 15.47 GMAC at 224x224x3.

Five blocks of 3x3 convolutions with ReLU (2, 2, 3, 3 and 3 of them, 64 to 512 filters), each followed by 2x2 pooling,
then two dense layers of 4096 and the logits. The numbers are for 1000 classes. `hidden: []` is the head used for
CIFAR: one linear layer on the 512 channels. `num_convolutions` of [2, 2, 4, 4, 4] gives VGG-19. The paper trains with
dropout 0.5 on the dense layers and starts deep networks from shallow ones; here He's initialisation takes the place
of the latter.

Flat order of the weights: in the order of computation, each convolution's kernel [3, 3, inputs, filters] and bias
(with batch norm gamma and beta instead), then each dense layer's kernel and bias.
"""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from dlbench.models import SampleSpec
from dlbench.models._layers import MEANING, BatchNorm, BatchNormOptions, Choice, Dropout, convolution, dropped
from dlbench.models._samples import refuse_unless_images
from dlbench.scenario.settings import Count

if TYPE_CHECKING:
    from dlbench.trainers import Problem

MAX_DOUBLINGS = 3


class Vgg16Options(BatchNormOptions):
    """Options of `vgg16`."""

    width: Count = Field(
        64, description="Filters of the first block; each further block has twice as many, up to eight times."
    )
    num_convolutions: tuple[Count, ...] = Field(
        (2, 2, 3, 3, 3), min_length=1, description="Convolutions of each block; each block halves the image's sides."
    )
    hidden: tuple[Count, ...] = Field(
        (4096, 4096), description="Widths of the dense layers before the logits; [] for the head used for CIFAR."
    )
    batch_norm: Choice = Field(BatchNorm.NONE, description="Batch norm before each convolution's ReLU. " + MEANING)
    dropout: Dropout = Field(0.0, description="Share of a hidden dense layer's outputs that each step drops.")


OPTIONS = Vgg16Options


def refuse(samples: SampleSpec, options: Vgg16Options) -> str:
    """Return why it cannot take these samples, or an empty string."""
    num_blocks = len(options.num_convolutions)
    return refuse_unless_images(samples, 2**num_blocks, f"{num_blocks} poolings need images of")


def keras(problem: "Problem", options: Vgg16Options) -> Any:
    """Return a `keras.Model` that gives outputs [n, num_outputs]."""
    from keras import Model, layers

    inputs = x = layers.Input(problem.input_shape)
    for block, num_convolutions in enumerate(options.num_convolutions):
        filters = options.width * 2 ** min(block, MAX_DOUBLINGS)
        for _ in range(num_convolutions):
            x = layers.ReLU()(convolution(x, filters, 3, 1, options))
        x = layers.MaxPooling2D()(x)
    x = layers.Flatten()(x)
    for width in options.hidden:
        x = layers.Dense(width, activation="relu", kernel_initializer="he_normal")(x)
        x = dropped(x, options.dropout)
    return Model(inputs, layers.Dense(problem.num_outputs, kernel_initializer="lecun_normal")(x))
