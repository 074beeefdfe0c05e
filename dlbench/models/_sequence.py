"""How a sample becomes a sequence of vectors, and vectors become logits, in networks for sequences."""

import math
from typing import TYPE_CHECKING, Any

from dlbench.models import Samples

if TYPE_CHECKING:
    from dlbench.trainers import Problem


def refuse(samples: Samples) -> str:
    """Return why samples are no sequences, or ""."""
    shape, is_tokens = samples.input_shape, samples.vocabulary is not None
    if is_tokens and len(shape) != 1:
        return f"it takes tokens [steps], not tokens of shape {list(shape)}"
    if not is_tokens and len(shape) not in (2, 3):
        return f"it takes tokens, [steps, features] or the rows of images, not samples of shape {list(shape)}"
    if samples.target_shape not in ((), shape[:1]):
        return f"it gives one class, or one at each of {shape[0]} positions, not {list(samples.target_shape)}"
    return ""


def entrance(problem: "Problem") -> tuple[Any, Any]:
    """Return (the model's input, the same as [n, steps] of tokens or [n, steps, features]).

    An image [height, width, channels] is a sequence of its rows.
    """
    from keras import layers

    if problem.vocabulary is not None:
        inputs = layers.Input(problem.input_shape, dtype="int32")
        return inputs, inputs
    inputs = layers.Input(problem.input_shape)
    if len(problem.input_shape) == 2:
        return inputs, inputs
    return inputs, layers.Reshape((problem.input_shape[0], math.prod(problem.input_shape[1:])))(inputs)
