"""What models accept: flat samples, images or sequences; and how a sequence enters a network."""

import math
from typing import TYPE_CHECKING, Any

from dlbench.models import SampleSpec

if TYPE_CHECKING:
    from dlbench.trainers import Problem


def refuse_unless_flat(samples: SampleSpec) -> str:
    """Return why samples are not numbers with one class each, or "". Networks that flatten a sample ask this."""
    if samples.vocabulary is not None:
        return "it takes numbers, not tokens: token 4 is not twice token 2; use lstm or transformer"
    if samples.target_shape:
        return f"it gives one class for each sample, not one at each of {list(samples.target_shape)} positions"
    return ""


def refuse_unless_images(samples: SampleSpec, min_side: int, why: str) -> str:
    """Return why samples are not images with one class each of at least `min_side` pixels a side, or ""."""
    shape = list(samples.input_shape)
    if samples.vocabulary is not None:
        return "it takes images, not tokens"
    if len(shape) != 3:
        return f"it takes images [height, width, channels], not samples of shape {shape}"
    if samples.target_shape:
        return f"it gives one class for each image, not one at each of {list(samples.target_shape)} positions"
    if min(shape[:2]) < min_side:
        return f"{why} at least {min_side}x{min_side} pixels"
    return ""


def refuse_unless_sequences(samples: SampleSpec) -> str:
    """Return why samples are not sequences, or ""."""
    shape, is_tokens = samples.input_shape, samples.vocabulary is not None
    if is_tokens and len(shape) != 1:
        return f"it takes tokens [steps], not tokens of shape {list(shape)}"
    if not is_tokens and len(shape) not in (2, 3):
        return f"it takes tokens, [steps, features] or the rows of images, not samples of shape {list(shape)}"
    if samples.target_shape not in ((), shape[:1]):
        return f"it gives one class, or one at each of {shape[0]} positions, not {list(samples.target_shape)}"
    return ""


def sequence_input(problem: "Problem") -> tuple[Any, Any]:
    """Return (the model's input, the same as [n, steps] of tokens or [n, steps, features]).

    An image [height, width, channels] is a sequence of its rows.
    """
    from keras import layers

    inputs = layers.Input(problem.input_shape, dtype=None if problem.vocabulary is None else "int32")
    if problem.vocabulary is not None or len(problem.input_shape) == 2:
        return inputs, inputs
    return inputs, layers.Reshape((problem.input_shape[0], math.prod(problem.input_shape[1:])))(inputs)
