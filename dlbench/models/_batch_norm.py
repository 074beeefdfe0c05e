"""Batch normalisation, the same option with the same meaning in every model that has it."""

import functools
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dlbench.plugins import Options


class BatchNorm(StrEnum):
    """Over which samples batch norm takes its means: it has none, those of one worker, or those of all."""

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


def normalized(x: Any, options: BatchNormOptions) -> Any:
    """Return x behind the batch norm that the options ask for; x itself where they ask for none."""
    from keras import layers

    if not options.has_batch_norm:
        return x
    is_local = options.batch_norm is BatchNorm.LOCAL
    kind = layers.BatchNormalization if is_local else synchronized_layer()
    return kind(momentum=options.batch_norm_momentum)(x)


@functools.cache
def synchronized_layer() -> Any:
    """Return the class of a `BatchNormalization` over the samples of all workers.

    Its attribute `reduce` is the sum of a tensor over workers inside the compiled step, differentiable (the gradient
    of a sum over workers is the sum of the workers' gradients); the trainer sets it. Without one, it is a batch norm
    over its own samples.

    Each worker gives its number of samples n, n x its mean and n x its mean square, in one vector of float64: the
    local variance is taken about the local mean, and what is lost in E[x^2] - E[x]^2 is lost at float64's precision,
    which costs a single reduction of 16 bytes for each channel, not two. Local batches of unequal size weigh what
    they hold.
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
            mean, variance = _global_moments(x, self.reduce)
            _remember(self.moving_mean, mean, self.momentum)
            _remember(self.moving_variance, variance, self.momentum)
            normal = keras.ops.batch_normalization(
                x, mean, variance, axis=-1, offset=self.beta, scale=self.gamma, epsilon=self.epsilon
            )
            return keras.ops.cast(normal, self.compute_dtype)

    return SynchronizedBatchNormalization


def _global_moments(x: Any, reduce: Any) -> tuple[Any, Any]:
    """Return mean and variance of each channel (the last axis) over all workers, in the dtype of x."""
    from keras import ops

    axes = list(range(len(x.shape) - 1))
    mean, variance = (ops.cast(moment, "float64") for moment in ops.moments(x, axes=axes))
    shape = ops.shape(x)
    count = ops.cast(functools.reduce(lambda a, b: a * b, [shape[axis] for axis in axes]), "float64")
    mine = ops.concatenate([ops.reshape(count, [1]), count * mean, count * (variance + ops.square(mean))])
    total = reduce(mine)
    channels = x.shape[-1]
    mean = total[1 : 1 + channels] / total[0]
    variance = ops.maximum(total[1 + channels :] / total[0] - ops.square(mean), 0.0)
    return ops.cast(mean, x.dtype), ops.cast(variance, x.dtype)


def _remember(moving: Any, value: Any, momentum: float) -> None:
    """Let a moving statistic forget, as Keras's own layer does."""
    moving.assign(moving * momentum + value * (1.0 - momentum))
