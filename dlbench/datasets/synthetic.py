"""Made-up samples of any shape and number: class means plus noise, the same for the same options; can be learned.

With `vocabulary` samples are tokens. Each class has every `num_classes`-th token, from its own number on, as its words;
words are drawn by Zipf's law, the lowest numbers the most frequent. A token of a sample is a word of its class or, with
probability noise / (1 + noise), of a class drawn at random. However large the vocabulary, a batch holds few of the rare
words, so that the share of it that a batch touches falls.
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from dlbench.datasets import Description
from dlbench.datasets._format import Array
from dlbench.datasets._writer import PIECE_BYTES, ArrayWriter
from dlbench.plugins import Options
from dlbench.scenario.settings import Count, Natural

# Numbers in one sample, and in all class means together: small enough for any machine.
MAX_NUMBERS = 10**7
# Makes samples of these classes.
Make = Callable[[Array, np.random.Generator], Array]
# Which independent draw of the seed.
_MEANS, _TRAIN, _VALIDATION = 0, 1, 2


class SyntheticOptions(Options):
    """How many samples of which shape, and how hard they are to classify."""

    num_samples: Count = Field(10_000, description="Training samples (a validation part is split off these by seed).")
    num_validation: Natural = Field(0, description="Samples of the validation part; 0: none.")
    shape: Annotated[tuple[Count, ...], Field(min_length=1, max_length=4)] = Field(
        (32, 32, 3), description="Shape of one sample, such as [height, width, channels] or [features]."
    )
    num_classes: Annotated[Count, Field(ge=2)] = Field(10, description="Number of classes, equally frequent.")
    noise: float = Field(
        1.0,
        ge=0,
        le=10**6,
        strict=True,
        description="Standard deviation of the noise added to each number; class means have one of 1.",
    )
    vocabulary: Annotated[Count | None, Field(ge=2, le=MAX_NUMBERS)] = Field(
        None, description="Different tokens; samples are then sequences of them, `shape` their length."
    )
    seed: Natural = Field(0, description="Draws the class means and the samples.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.num_classes > self.num_samples:
            raise ValueError(f"num_classes {self.num_classes} is more than num_samples {self.num_samples}")
        if (size := math.prod(self.shape)) * self.num_classes > MAX_NUMBERS:
            raise ValueError(
                f"shape times num_classes is {size * self.num_classes:,} numbers, and {MAX_NUMBERS:,} are the most: "
                f"at this shape at most {MAX_NUMBERS // size:,} classes"
            )
        if self.vocabulary is not None and len(self.shape) != 1:
            raise ValueError(f"with vocabulary, shape is one length, such as [20], not {list(self.shape)}")
        if self.vocabulary is not None and self.vocabulary < self.num_classes:
            raise ValueError(f"vocabulary {self.vocabulary} is less than num_classes {self.num_classes}")
        return self


OPTIONS = SyntheticOptions


def identity(options: SyntheticOptions) -> dict[str, Any]:
    """Return the options and the version of NumPy, which draws the numbers."""
    chosen = options.model_dump(mode="json", exclude={"vocabulary"} if options.vocabulary is None else None)
    return {**chosen, "numpy": np.__version__}


def describe(options: SyntheticOptions) -> Description:
    """Return the sizes that the options ask for."""
    sizes = options.num_samples, options.num_validation or None
    return Description(*sizes, options.shape, options.num_classes, options.vocabulary)


def prepare(options: SyntheticOptions, writer: ArrayWriter) -> None:
    """Write tokens as int32, or x = class mean + noise as float32; that enters the network with a variance of 1."""
    writer.describe(
        source="made up by dlbench",
        class_names=tuple(str(number) for number in range(options.num_classes)),
        scale=1.0 if options.vocabulary else 1 / math.sqrt(1 + options.noise**2),
        vocabulary=options.vocabulary,
        num_samples=options.num_samples + options.num_validation,
    )
    of_means, *of_parts = (np.random.default_rng([options.seed, draw]) for draw in (_MEANS, _TRAIN, _VALIDATION))
    make = _normal_samples(options, of_means) if options.vocabulary is None else _token_samples(options)
    rows = max(1, PIECE_BYTES // (4 * math.prod(options.shape)))
    sizes = {"train": options.num_samples, "validation": options.num_validation}
    for (part, num_samples), generator in zip(sizes.items(), of_parts, strict=True):
        for start in range(0, num_samples, rows):
            y = np.arange(start, min(start + rows, num_samples)) % options.num_classes
            writer.append(make(y, generator), y, part)


def _normal_samples(options: SyntheticOptions, of_means: np.random.Generator) -> Make:
    means = of_means.standard_normal((options.num_classes, *options.shape), dtype=np.float32)

    def make(y: Array, generator: np.random.Generator) -> Array:
        x: Array = generator.standard_normal((len(y), *options.shape), dtype=np.float32)
        x *= np.float32(options.noise)
        x += means[y]
        return x

    return make


def _token_samples(options: SyntheticOptions) -> Make:
    num_words = (options.vocabulary or 0) // options.num_classes
    frequencies = np.cumsum(1 / np.arange(1, num_words + 1))

    def make(y: Array, generator: np.random.Generator) -> Array:
        # Three numbers for each token, sample by sample, so that pieces of any size draw the same.
        word, is_noise, other = np.moveaxis(generator.random((len(y), *options.shape, 3)), -1, 0)
        words = np.searchsorted(frequencies, word * frequencies[-1])
        own = is_noise >= options.noise / (1 + options.noise)
        classes = np.where(own, y[:, np.newaxis], (other * options.num_classes).astype(np.int64))
        x: Array = (words * options.num_classes + classes).astype(np.int32)
        return x

    return make
