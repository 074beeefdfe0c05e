"""A feed-forward language model (Bengio et al. 2003): embeddings of the last tokens, one hidden layer, logits.

At each position the embeddings of a window of tokens, which ends there, are joined and enter a dense tanh layer: a
convolution whose kernel is as wide as the window. Logits are those of every position or, where the data set has one
class for a sample, of the mean over positions.

The embedding has a row for each token of the data set's vocabulary, of which a batch reads few; all other layers are
dense, the last one too: its width is the number of classes, which a large vocabulary need not have (`synthetic` with
`vocabulary`, `keras:imdb` with `num_words`).

Flat order of the weights: the embedding [vocabulary, size]; kernel [window, size, units] and bias [units]; the last
layer's kernel and bias.
"""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from dlbench.models import SampleSpec
from dlbench.models._samples import refuse_unless_sequences
from dlbench.plugins import Options
from dlbench.scenario.settings import Count

if TYPE_CHECKING:
    from dlbench.trainers import Problem


class FeedForwardOptions(Options):
    """Options of `feed_forward_lm`."""

    embedding_size: Count = Field(64, description="Width of a token's embedding.")
    window: Count = Field(4, description="Tokens that the hidden layer sees at each position, the last one its own.")
    units: Count = Field(64, description="Width of the hidden layer.")


OPTIONS = FeedForwardOptions


def refuse(samples: SampleSpec, options: FeedForwardOptions) -> str:
    """Return why it cannot take these samples, or an empty string."""
    if samples.vocabulary is None:
        return "it takes tokens, and its samples are not tokens"
    return refuse_unless_sequences(samples)


def keras(problem: "Problem", options: FeedForwardOptions) -> Any:
    """Return a `keras.Model` that gives outputs [n, num_outputs], or [n, steps, num_outputs]."""
    from keras import Model, layers

    tokens = layers.Input(problem.input_shape, dtype="int32")
    x = layers.Embedding(problem.vocabulary, options.embedding_size, name="embedding")(tokens)
    x = layers.Conv1D(options.units, options.window, padding="causal", activation="tanh")(x)
    x = x if problem.target_shape else layers.GlobalAveragePooling1D()(x)
    return Model(tokens, layers.Dense(problem.num_outputs)(x))
