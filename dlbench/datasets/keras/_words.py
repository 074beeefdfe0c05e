"""Texts that Keras loads as numbers of words, made equally long: tokens, with Keras's test part for validation.

Numbers are Keras's: 0 fills up, 1 starts a text, 2 is a word that is too rare, and n + 3 is the n-th frequent word.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dlbench.datasets._description import Description
from dlbench.datasets._writer import ArrayWriter
from dlbench.datasets.keras import _load
from dlbench.plugins import Options
from dlbench.scenario.settings import Count

Array = npt.NDArray[Any]
Side = Literal["pre", "post"]

# Texts are made equally long so many at once.
ROWS = 4096


class WordsOptions(Options):
    """How texts become samples."""

    num_words: Annotated[Count, Field(ge=4, le=200_000)] = Field(
        10_000, description="Different tokens; words that are too rare for a number below this become one, the unknown."
    )
    sequence_length: Annotated[Count, Field(le=10_000)] = Field(
        200, description="Words of a sample; longer texts are cut, shorter ones filled up with 0."
    )
    padding: Side = Field("pre", description="Where a shorter text is filled up: pre (before it) or post (after it).")
    truncating: Side = Field("pre", description="Where a longer text is cut: pre (its start) or post (its end).")


def identity(options: WordsOptions) -> dict[str, Any]:
    """Return the version of Keras, and the options."""
    return {**_load.identity(), **options.model_dump(mode="json"), "version": 1}


def describe(options: WordsOptions, num_train: int, num_test: int, num_classes: int) -> Description:
    """Return the known sizes and what the options make of a text."""
    return Description(num_train, num_test, (options.sequence_length,), num_classes, vocabulary=options.num_words)


def write(name: str, options: WordsOptions, class_names: tuple[str, ...], writer: ArrayWriter) -> None:
    """Write texts as tokens [sequence_length], uint16 where that suffices.

    Args:
        name: The data set's name in Keras.
        options: What they become.
        class_names: Names of the classes.
        writer: Takes them.
    """
    train, test = _load.load(name, num_words=options.num_words)
    writer.describe(
        source=f"keras.datasets.{name}; validation is its test part",
        class_names=class_names,
        notes={"tokens": "0 fills up, 1 starts, 2 is a word too rare, n + 3 the n-th frequent word"},
        num_samples=len(train[0]) + len(test[0]),
        vocabulary=options.num_words,
    )
    for part, (texts, classes) in (("train", train), ("validation", test)):
        for start, tokens in _equally_long(texts, options):
            writer.append(tokens, np.asarray(classes[start : start + len(tokens)]), part)


def _equally_long(texts: Sequence[Sequence[int]], options: WordsOptions) -> Iterator[tuple[int, Array]]:
    """Yield where a piece starts, and its texts as [n, sequence_length]."""
    dtype, length = np.min_scalar_type(options.num_words - 1), options.sequence_length
    for start in range(0, len(texts), ROWS):
        piece = texts[start : start + ROWS]
        tokens = np.zeros((len(piece), length), dtype)
        for row, text in zip(tokens, piece, strict=True):
            kept = text[-length:] if options.truncating == "pre" else text[:length]
            place = slice(length - len(kept), length) if options.padding == "pre" else slice(0, len(kept))
            row[place] = kept
        yield start, tokens
