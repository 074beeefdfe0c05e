"""Layers and options that several models share: batch norm, convolutions, dropout.

Dropout is off unless asked for, since with it N workers no longer compute what one does. What is dropped is drawn from
the run's seed and the worker's number, so that no two workers drop the same places in a step, and each drops the same
under every strategy.
"""

import functools
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dlbench.plugins import Options


class BatchNorm(StrEnum):
    """The samples that batch norm takes its means over: none, those of one worker, or those of all workers."""

    NONE = "none"
    LOCAL = "local"
    SYNCHRONIZED = "synchronized"


def _from_bool(value: Any) -> Any:
    """Read true as `local` and false as `none`."""
    if isinstance(value, bool):
        return BatchNorm.LOCAL if value else BatchNorm.NONE
    return value


Choice = Annotated[BatchNorm, BeforeValidator(_from_bool, json_schema_input_type=BatchNorm | bool)]
Momentum = Annotated[float, Field(ge=0, lt=1)]
Dropout = Annotated[float, Field(ge=0, lt=1)]

MEANING = (
    "`none`; `local`: means and variances of a worker's own batch; `synchronized`: those of the global batch, summed "
    "over workers inside the step, so that N workers equal one."
)


class BatchNormOptions(Options):
    """Options of every model with batch norm; a model may have other defaults and say more."""

    batch_norm: Choice = Field(BatchNorm.LOCAL, description=MEANING)
    batch_norm_momentum: Momentum = Field(
        0.9,
        description="What the moving statistics keep in each step; Keras's own 0.99 still remembers its start after "
        "hundreds of steps.",
    )

    @property
    def has_batch_norm(self) -> bool:
        """Whether there is any."""
        return self.batch_norm is not BatchNorm.NONE


@functools.cache
def torch_layer() -> Any:
    """Return the class of a `BatchNormalization` by PyTorch's own function: Keras's is many, which is slower.

    Its sums differ from theirs by rounding. `torch.compile` sees it whole, where it stops at Keras's list of axes.
    """
    import keras
    import torch

    class TorchBatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]  # keras is untyped
        has_products = False

        def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
            if not training or not self.trainable or mask is not None or inputs.is_meta:
                return super().call(inputs, training=training, mask=mask)
            gamma, beta = (
                weight.value.to(torch.promote_types(inputs.dtype, torch.float32)) for weight in self.trainable_variables
            )
            normal, mean, inverse = torch.native_batch_norm(
                inputs.movedim(-1, 1), gamma, beta, None, None, True, 0.0, self.epsilon
            )
            with torch.no_grad():
                variance = inverse.pow(-2) - self.epsilon
                for moving, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
                    moving.value.lerp_(value.to(moving.value.dtype), 1 - self.momentum)
            return normal.movedim(1, -1)

    return TorchBatchNormalization


@functools.cache
def synchronized_layer() -> Any:
    """Return the class of a `BatchNormalization` over the samples of all workers.

    Its attribute `reduce` is the sum of a tensor over workers inside the compiled step, differentiable (the gradient
    of a sum over workers is the sum of the workers' gradients); the trainer sets it. Without one, it is a batch norm
    over its own samples.

    Each worker contributes its number of samples n, n x its mean and n x its mean square, in one vector of float64.
    The local variance is taken about the local mean, and E[x^2] - E[x]^2 loses precision at float64 only: a single
    reduction of 16 bytes per channel, not two. Local batches of unequal size are weighted by their samples.
    """
    import keras

    class SynchronizedBatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]  # keras is untyped
        has_products = False

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.reduce: Any = None

        def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
            if not training or not self.trainable or self.reduce is None:
                return super().call(inputs, training=training, mask=mask)
            x = keras.ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
            mean, variance, has_samples = _global_moments(x, self.reduce)
            _remember(self.moving_mean, mean, self.momentum, has_samples)
            _remember(self.moving_variance, variance, self.momentum, has_samples)
            normal = keras.ops.batch_normalization(
                x, mean, variance, axis=-1, offset=self.beta, scale=self.gamma, epsilon=self.epsilon
            )
            return keras.ops.cast(normal, self.compute_dtype)

    return SynchronizedBatchNormalization


def _global_moments(x: Any, reduce: Any) -> tuple[Any, Any, Any]:
    """Return mean and variance of each channel (the last axis) over all workers, in the dtype of x.

    And whether any worker had a sample: with accumulated gradients, the first parts of an epoch's last, smaller step
    may have none anywhere.
    """
    from keras import ops

    axes = list(range(len(x.shape) - 1))
    mean, variance = (ops.cast(moment, "float64") for moment in ops.moments(x, axes=axes))
    shape = ops.shape(x)
    count = ops.cast(functools.reduce(lambda a, b: a * b, [shape[axis] for axis in axes]), "float64")
    mine = ops.concatenate([ops.reshape(count, [1]), count * mean, count * (variance + ops.square(mean))])
    total = reduce(mine)
    channels = x.shape[-1]
    number = ops.maximum(total[0], 1.0)
    mean = total[1 : 1 + channels] / number
    variance = ops.maximum(total[1 + channels :] / number - ops.square(mean), 0.0)
    return ops.cast(mean, x.dtype), ops.cast(variance, x.dtype), total[0] > 0


def _remember(moving: Any, value: Any, momentum: float, has_samples: Any) -> None:
    """Update a moving statistic as Keras's own layer does; without samples leave it."""
    from keras import ops

    # JAX takes no variable for an array.
    moving.assign(ops.where(has_samples, moving * momentum + value * (1.0 - momentum), moving.value))


def dropped(x: Any, rate: float) -> Any:
    """Return x with this share of its numbers set to zero in training; no layer where there is nothing to drop."""
    from keras import layers

    return layers.Dropout(rate)(x) if rate > 0 else x


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
    from keras import backend, initializers, layers

    x = layers.Conv2D(
        filters,
        size,
        strides=strides,
        padding="same",
        use_bias=not options.has_batch_norm,
        kernel_initializer=initializers.VarianceScaling(gain, "fan_in", "truncated_normal"),
    )(x)
    if not options.has_batch_norm:
        return x
    normalization = layers.BatchNormalization if backend.backend() != "torch" else torch_layer()
    if options.batch_norm is BatchNorm.SYNCHRONIZED:
        normalization = synchronized_layer()
    return normalization(momentum=options.batch_norm_momentum)(x)
