"""Residual networks (He et al. 2016): a stem, stages of blocks, and a linear layer on the mean over all pixels.

Flat order of the weights: in the order of computation, each convolution's kernel [size, size, inputs, filters]
followed by its gamma and beta (without batch norm by its bias), then the last layer's kernel and bias. In a block
with a projection, what belongs to the projection stands before its like of the block's last convolution: kernel
before kernel, gamma and beta before gamma and beta.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from dlbench.models import SampleSpec
from dlbench.models._layers import MEANING, BatchNorm, BatchNormOptions, Choice, convolution
from dlbench.models._samples import refuse_unless_images
from dlbench.scenario.settings import Count

if TYPE_CHECKING:
    from dlbench.trainers import Problem


class ResidualOptions(BatchNormOptions):
    """Options of every residual network."""

    batch_norm: Choice = Field(
        BatchNorm.LOCAL,
        description=MEANING + " Without it convolutions have biases, and each block starts scaled down by the number "
        "of blocks, which keeps the depth trainable.",
    )
    width: Count = Field(64, description="Filters of the first stage; each further stage has twice as many.")
    num_blocks: Count | tuple[Count, ...]

    @property
    def stages(self) -> tuple[int, ...]:
        """Number of blocks of each stage: of three, where it is one number."""
        return self.num_blocks if isinstance(self.num_blocks, tuple) else (self.num_blocks,) * 3

    @property
    def last_gain(self) -> float:
        """Gain of each block's last convolution.

        Without batch norm the variance doubles with each block: He's gain is shared out over all blocks instead.
        """
        return 2.0 if self.has_batch_norm else 2.0 / sum(self.stages)


class Resnet18Options(ResidualOptions):
    """Options of `resnet18`."""

    num_blocks: tuple[Count, ...] = Field(
        (2, 2, 2, 2), min_length=1, description="Residual blocks of each stage; each stage but the first halves sides."
    )


class Resnet20Options(ResidualOptions):
    """Options of `resnet20`."""

    width: Count = Field(16, description="Filters of the first stage; each further stage has twice as many.")
    num_blocks: Count = Field(3, description="Residual blocks of each of the three stages.")


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
    stem: Literal["large", "small"] = Field(
        "large",
        description="`large`: 7x7 convolution and 3x3 pooling, each of stride 2, as published; `small`: one 3x3 "
        "convolution of stride 1, for images of 32 pixels or so.",
    )


@dataclass(frozen=True)
class ResidualNetwork:
    """One residual network.

    Attributes:
        doc: What it is, in one line.
        OPTIONS: Its options.
        shortcut: Called with x, a block's last filters, its stride and the options.
        sizes: Of a block's convolutions, the sides of their kernels; the stride is that of the first 3x3 convolution.
        expansion: How many times as many filters a block's last convolution has.
    """

    doc: str
    OPTIONS: type[ResidualOptions]
    shortcut: Callable[[Any, int, int, ResidualOptions], Any]
    sizes: tuple[int, ...] = (3, 3)
    expansion: int = 1

    def refuse(self, samples: SampleSpec, options: ResidualOptions) -> str:
        """Return why it cannot take these samples, or an empty string."""
        is_large = _has_large_stem(options)
        halvings = len(options.stages) - 1 + 2 * is_large
        hint = " (or `stem: small`)" if is_large else ""
        return refuse_unless_images(samples, 2**halvings, f"{halvings} halvings{hint} need images of")

    def keras(self, problem: "Problem", options: ResidualOptions) -> Any:
        """Return a `keras.Model` that gives outputs [n, num_outputs]."""
        from keras import Model, layers

        is_large = _has_large_stem(options)
        inputs = layers.Input(problem.input_shape)
        size, strides = (7, 2) if is_large else (3, 1)
        x = layers.ReLU()(convolution(inputs, options.width, size, strides, options))
        x = layers.MaxPooling2D(3, 2, padding="same")(x) if is_large else x
        for stage, num_blocks in enumerate(options.stages):
            for index in range(num_blocks):
                x = self._block(x, options.width * 2**stage, 2 if stage and not index else 1, options)
        x = layers.GlobalAveragePooling2D()(x)
        return Model(inputs, layers.Dense(problem.num_outputs, kernel_initializer="lecun_normal")(x))

    def _block(self, x: Any, filters: int, strides: int, options: ResidualOptions) -> Any:
        """Return relu(shortcut(x) + convolution(...relu(convolution(x))))."""
        from keras import layers

        last_filters = self.expansion * filters
        shortcut = self.shortcut(x, last_filters, strides, options)
        *sizes, last_size = self.sizes
        for size in sizes:
            x = layers.ReLU()(convolution(x, filters, size, strides if size == 3 else 1, options))
        x = convolution(x, last_filters, last_size, 1, options, options.last_gain)
        return layers.ReLU()(layers.Add()([shortcut, x]))


def padded(x: Any, filters: int, strides: int, options: ResidualOptions) -> Any:
    """Return every `strides`-th pixel of x, its channels padded with zeros on both sides to `filters` ("option A")."""
    from keras import ops

    x = x[:, ::strides, ::strides, :] if strides > 1 else x
    missing = filters - x.shape[-1]
    return ops.pad(x, [[0, 0], [0, 0], [0, 0], [missing // 2, missing - missing // 2]]) if missing else x


def projected(x: Any, filters: int, strides: int, options: ResidualOptions) -> Any:
    """Return x, through a 1x1 convolution where its shape changes ("option B")."""
    if strides == 1 and x.shape[-1] == filters:
        return x
    return convolution(x, filters, 1, strides, options, gain=1.0)


def _has_large_stem(options: ResidualOptions) -> bool:
    return isinstance(options, Resnet50Options) and options.stem == "large"
