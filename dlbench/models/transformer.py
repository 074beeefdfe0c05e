"""A small transformer (Vaswani et al. 2017, pre-norm): one class of a sequence, or one at each position of a text.

Tokens enter through an embedding, other samples through a linear layer, images row by row. Each block adds attention
and then a feed-forward layer with GELU to its input, both behind a layer norm, and a layer norm ends the stack (Xiong
et al. 2020). Logits are those of the mean over positions or, where the data set asks for a class at each position (a
character model), of every position, whose attention then sees only itself and what came before. Weights start as
those of GPT-2 (Radford et al. 2019): normal with deviation 0.02, at the end of each residual branch divided by sqrt(2
x layers), biases 0.

Flat order of the weights: the embedding [vocabulary, width] (or kernel and bias of the linear layer); the positions
[steps, width] where learned; block by block gamma and beta of the norm, query, key and value with kernel [width,
heads, width / heads] and bias, the attention's output with kernel [heads, width / heads, width] and bias, gamma and
beta of the second norm, both dense layers' kernels and biases; gamma and beta of the last norm; the last layer's
kernel and bias.
"""

import functools
import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dlbench.models import SampleSpec
from dlbench.models._layers import Dropout, dropped
from dlbench.models._samples import refuse_unless_sequences, sequence_input
from dlbench.plugins import Options
from dlbench.scenario.settings import Count

if TYPE_CHECKING:
    from dlbench.trainers import Problem

DEVIATION = 0.02
EPSILON = 1e-5


class Positions(StrEnum):
    """How positions are encoded: a trained vector for each, or fixed waves."""

    LEARNED = "learned"
    SINUSOIDAL = "sinusoidal"


class TransformerOptions(Options):
    """Options of `transformer`."""

    width: Count = Field(128, description="Width of the vectors between blocks; a multiple of `num_heads`.")
    num_layers: Count = Field(2, description="Blocks of attention and feed-forward layer.")
    num_heads: Count = Field(4, description="Attention heads of each block, each of width / num_heads.")
    feed_forward_width: Count | None = Field(
        None, description="Width inside the feed-forward layer; default: 4 x `width`."
    )
    positions: Positions = Field(
        Positions.LEARNED,
        description="`learned`: a trained vector for each position; `sinusoidal`: fixed waves (Vaswani et al. 2017).",
    )
    dropout: Dropout = Field(
        0.0, description="Share dropped in each step of what enters the stack and of each residual branch."
    )


OPTIONS = TransformerOptions


def refuse(samples: SampleSpec, options: TransformerOptions) -> str:
    """Return why it cannot take these samples, or an empty string."""
    if options.width % options.num_heads:
        return f"its width {options.width} is no multiple of its {options.num_heads} heads"
    if options.positions is Positions.SINUSOIDAL and options.width % 2:
        return f"sinusoidal positions need an even width, not {options.width}"
    return refuse_unless_sequences(samples)


def keras(problem: "Problem", options: TransformerOptions) -> Any:
    """Return a `keras.Model` that gives outputs [n, num_outputs], or [n, steps, num_outputs]."""
    from keras import Model, layers, ops

    inputs, x = sequence_input(problem)
    x = _embedded(x, problem, options)
    if options.positions is Positions.SINUSOIDAL:
        x = x + ops.cast(sinusoidal_encoding(*x.shape[1:]), x.dtype)
    else:
        x = learned_positions_layer()()(x)
    x = dropped(x, options.dropout)
    is_causal = bool(problem.target_shape)
    for _ in range(options.num_layers):
        x = _attended(x, is_causal, options)
        x = _fed_forward(x, options)
    x = layers.LayerNormalization(epsilon=EPSILON)(x)
    x = x if is_causal else layers.GlobalAveragePooling1D()(x)
    return Model(inputs, layers.Dense(problem.num_outputs, kernel_initializer=_normal(DEVIATION))(x))


def _embedded(x: Any, problem: "Problem", options: TransformerOptions) -> Any:
    """Return a vector for each token, or for each step's features."""
    from keras import layers

    if problem.vocabulary is None:
        return layers.Dense(options.width, kernel_initializer="lecun_normal")(x)
    # Fixed waves have amplitude 1: beside them an embedding is scaled up to unit variance (Vaswani et al. 2017, 3.4).
    if options.positions is Positions.SINUSOIDAL:
        scale = math.sqrt(options.width)
        x = layers.Embedding(problem.vocabulary, options.width, embeddings_initializer=_normal(1 / scale))(x)
        return layers.Rescaling(scale)(x)
    return layers.Embedding(problem.vocabulary, options.width, embeddings_initializer=_normal(DEVIATION))(x)


def _attended(x: Any, is_causal: bool, options: TransformerOptions) -> Any:
    """Return x + attention(norm(x)), in which a position sees all others or, causal, none that follow."""
    from keras import layers

    inner = layers.LayerNormalization(epsilon=EPSILON)(x)
    attention = layers.MultiHeadAttention(
        options.num_heads, options.width // options.num_heads, kernel_initializer=_normal(DEVIATION)
    )
    residual = attention(inner, inner, use_causal_mask=is_causal)
    # All of its kernels start alike; the last one ends a residual branch.
    kernel = attention.output_dense.kernel
    kernel.assign(kernel * (_last_deviation(options) / DEVIATION))
    return layers.Add()([x, dropped(residual, options.dropout)])


def _fed_forward(x: Any, options: TransformerOptions) -> Any:
    """Return x + feed-forward layer(norm(x))."""
    from keras import layers

    inner = layers.LayerNormalization(epsilon=EPSILON)(x)
    width = options.feed_forward_width or 4 * options.width
    inner = layers.Dense(width, activation="gelu", kernel_initializer=_normal(DEVIATION))(inner)
    residual = layers.Dense(options.width, kernel_initializer=_normal(_last_deviation(options)))(inner)
    return layers.Add()([x, dropped(residual, options.dropout)])


def _last_deviation(options: TransformerOptions) -> float:
    """Return the deviation at the end of a residual branch, so that all branches together add variance once."""
    return DEVIATION / math.sqrt(2 * options.num_layers)


def _normal(deviation: float) -> Any:
    from keras import initializers

    return initializers.RandomNormal(stddev=deviation)


def sinusoidal_encoding(steps: int, width: int) -> npt.NDArray[np.float64]:
    """Return [steps, width], sines in even columns and cosines in odd ones (Vaswani et al. 2017, section 3.5).

    Column 2i and 2i + 1 hold waves of position / 10000^(2i / width).
    """
    angles = np.arange(steps)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(steps, width)


@functools.cache
def learned_positions_layer() -> Any:
    """Return the class of a layer that adds a trained vector to each position."""
    import keras

    class LearnedPositions(keras.layers.Layer):  # type: ignore[misc]  # keras is untyped
        has_products = False

        def build(self, shape: Any) -> None:
            self.table = self.add_weight(shape=tuple(shape[1:]), initializer=_normal(DEVIATION), name="table")

        def call(self, inputs: Any) -> Any:
            return inputs + keras.ops.cast(self.table, inputs.dtype)

    return LearnedPositions
