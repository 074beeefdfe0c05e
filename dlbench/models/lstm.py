"""An LSTM network (Hochreiter and Schmidhuber 1997): one class of a sequence, or one at each position of a text.

Tokens enter through an embedding, other samples as they are, images row by row. Layers are stacked; their input
kernels start uniform (Glorot and Bengio 2010), their recurrent kernels orthogonal, their forget gates open (bias 1:
Gers et al. 2000). Logits are those of the last step or, where the data set asks for a class at each position (a
character model), of every step, which has then seen only what came before. Each sample starts from a state of zero.

On GPUs cuDNN computes the layers where it can; XLA (`jit_compile`) cannot compile that and needs `cudnn: false`.

Flat order of the weights: the embedding [vocabulary, size]; layer by layer, input kernel [inputs, 4 units], recurrent
kernel [units, 4 units], bias [4 units] (gates: input, forget, cell, output); the last layer's kernel and bias.
"""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from dlbench.models import SampleSpec
from dlbench.models._layers import Dropout, dropped
from dlbench.models._samples import refuse_unless_sequences, sequence_input
from dlbench.plugins import Options
from dlbench.scenario.settings import Count

if TYPE_CHECKING:
    from dlbench.trainers import Problem


class LstmOptions(Options):
    """Options of `lstm`."""

    units: Count = Field(128, description="Width of each layer.")
    num_layers: Count = Field(1, description="Layers, each reading the outputs of the one before.")
    embedding_size: Count | None = Field(
        None, description="Width of a token's embedding; default: that of a layer. Only where samples are tokens."
    )
    dropout: Dropout = Field(
        0.0,
        description="Share of each layer's outputs that each step drops, none of what a layer hands to its own next "
        "step (Zaremba et al. 2014).",
    )
    cudnn: bool = Field(True, description="Let cuDNN compute it on a GPU; `jit_compile` there needs false.")


OPTIONS = LstmOptions


def refuse(samples: SampleSpec, options: LstmOptions) -> str:
    """Return why it cannot take these samples, or an empty string."""
    if options.embedding_size is not None and samples.vocabulary is None:
        return "embedding_size is for tokens, and its samples are not tokens"
    return refuse_unless_sequences(samples)


def keras(problem: "Problem", options: LstmOptions) -> Any:
    """Return a `keras.Model` that gives outputs [n, num_outputs], or [n, steps, num_outputs]."""
    from keras import Model, layers

    inputs, x = sequence_input(problem)
    if problem.vocabulary is not None:
        x = layers.Embedding(problem.vocabulary, options.embedding_size or options.units)(x)
    for layer in range(options.num_layers):
        has_more = layer + 1 < options.num_layers
        x = layers.LSTM(
            options.units,
            return_sequences=has_more or bool(problem.target_shape),
            use_cudnn="auto" if options.cudnn else False,
        )(x)
        x = dropped(x, options.dropout)
    return Model(inputs, layers.Dense(problem.num_outputs)(x))
