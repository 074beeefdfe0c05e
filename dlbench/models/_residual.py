"""The parts that residual networks are made of."""

from typing import Any

from pydantic import Field

from dlbench.models._batch_norm import MEANING, BatchNorm, BatchNormOptions, Choice, normalized


class ResidualOptions(BatchNormOptions):
    """Options of every residual network."""

    batch_norm: Choice = Field(
        BatchNorm.LOCAL,
        description=MEANING + " Without it convolutions have biases, and each block starts scaled down by the number "
        "of blocks, which keeps the depth trainable.",
    )


def convolution(x: Any, filters: int, size: int, strides: int, options: BatchNormOptions, gain: float = 2.0) -> Any:
    """Return a convolution, normalised if the options say so; its kernel has variance gain / inputs (He et al. 2015).

    Args:
        x: What enters.
        filters: Number of channels that leave.
        size: Side of the kernel.
        strides: Of each side of the image.
        options: Say whether and how it is normalised; without batch norm it has a bias.
        gain: 2 below a ReLU.
    """
    from keras import initializers, layers

    x = layers.Conv2D(
        filters,
        size,
        strides=strides,
        padding="same",
        use_bias=not options.has_batch_norm,
        kernel_initializer=initializers.VarianceScaling(gain, "fan_in", "truncated_normal"),
    )(x)
    return normalized(x, options)


def last_gain(options: BatchNormOptions, num_blocks: int) -> float:
    """Return the gain of a block's last convolution.

    Without batch norm the variance doubles with each block: He's gain is shared out over all blocks instead.
    """
    return 2.0 if options.has_batch_norm else 2.0 / num_blocks


def projected(x: Any, filters: int, strides: int, options: BatchNormOptions) -> Any:
    """Return x, through a 1x1 convolution where its shape changes ("option B" of He et al. 2016)."""
    if strides == 1 and x.shape[-1] == filters:
        return x
    return convolution(x, filters, 1, strides, options, gain=1.0)


def added(shortcut: Any, residual: Any) -> Any:
    """Return relu(shortcut + residual)."""
    from keras import layers

    return layers.ReLU()(layers.Add()([shortcut, residual]))


def classified(x: Any, num_classes: int) -> Any:
    """Return logits of the mean over all pixels."""
    from keras import layers

    x = layers.GlobalAveragePooling2D()(x)
    return layers.Dense(num_classes, kernel_initializer="lecun_normal")(x)
