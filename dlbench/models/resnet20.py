"""ResNet-20 for small images (He et al. 2016, section 4.2): 269,722 parameters, 40.55 million MAC on 32x32x3.

Three stages of residual blocks of two 3x3 convolutions with 16, 32 and 64 filters; shortcuts without parameters
("option A": every second pixel, missing channels zero). `num_blocks` of 5, 7, 9 gives ResNet-32, 44, 56.

Flat order of the weights: in the order of computation, each convolution's kernel [3, 3, inputs, filters] followed by
its gamma and beta (without batch norm by its bias), then the last layer's kernel and bias.
"""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from dlbench.plugins import Options
from dlbench.scenario.settings import Count

if TYPE_CHECKING:
    from dlbench.trainers import Problem

STAGES = 3


class Resnet20Options(Options):
    """Options of `resnet20`."""

    batch_norm: bool = Field(
        True,
        description="Normalise over the batch; without it convolutions have biases, and each block starts scaled "
        "down by the number of blocks, which keeps the depth trainable.",
    )
    batch_norm_momentum: float = Field(
        0.9,
        ge=0,
        lt=1,
        description="What the moving statistics keep in each step; Keras's own 0.99 still remembers its start after "
        "hundreds of steps.",
    )
    width: Count = Field(16, description="Filters of the first stage; each further stage has twice as many.")
    num_blocks: Count = Field(3, description="Residual blocks of each of the three stages.")


OPTIONS = Resnet20Options


def refuse(input_shape: tuple[int, ...], options: Resnet20Options) -> str:
    """Return why it cannot take samples of this shape, or an empty string."""
    if len(input_shape) != 3:
        return f"it takes images [height, width, channels], not samples of shape {list(input_shape)}"
    if min(input_shape[:2]) < 4:
        return "it halves the image twice and needs at least 4x4 pixels"
    return ""


def keras(problem: "Problem", options: Resnet20Options) -> Any:
    """Return a `keras.Model` that gives logits [n, num_classes]."""
    from keras import Model, layers

    inputs = layers.Input(problem.input_shape)
    x = layers.ReLU()(_convolution(inputs, options.width, 1, options, gain=2.0))
    for stage in range(STAGES):
        for block in range(options.num_blocks):
            x = _block(x, options.width * 2**stage, 2 if stage and not block else 1, options)
    x = layers.GlobalAveragePooling2D()(x)
    return Model(inputs, layers.Dense(problem.num_classes, kernel_initializer="lecun_normal")(x))


def _block(x: Any, filters: int, strides: int, options: Resnet20Options) -> Any:
    """Return relu(shortcut(x) + convolution(relu(convolution(x))))."""
    from keras import layers

    # Without batch norm the variance doubles with each block: He's gain is shared out over all blocks instead.
    gain = 2.0 if options.batch_norm else 2.0 / (STAGES * options.num_blocks)
    residual = layers.ReLU()(_convolution(x, filters, strides, options, gain=2.0))
    residual = _convolution(residual, filters, 1, options, gain)
    return layers.ReLU()(layers.Add()([_shortcut(x, filters, strides), residual]))


def _convolution(x: Any, filters: int, strides: int, options: Resnet20Options, gain: float) -> Any:
    """Return a 3x3 convolution, normalised if the options say so; its kernel has variance gain / inputs (He 2015)."""
    from keras import initializers, layers

    x = layers.Conv2D(
        filters,
        3,
        strides=strides,
        padding="same",
        use_bias=not options.batch_norm,
        kernel_initializer=initializers.VarianceScaling(gain, "fan_in", "truncated_normal"),
    )(x)
    return layers.BatchNormalization(momentum=options.batch_norm_momentum)(x) if options.batch_norm else x


def _shortcut(x: Any, filters: int, strides: int) -> Any:
    """Return x with every `strides`-th pixel and its channels padded with zeros on both sides to `filters`."""
    from keras import ops

    if strides > 1:
        x = x[:, ::strides, ::strides, :]
    missing = filters - x.shape[-1]
    if missing:
        x = ops.pad(x, [[0, 0], [0, 0], [0, 0], [missing // 2, missing - missing // 2]])
    return x
