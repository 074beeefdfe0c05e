"""Film reviews of IMDB as Keras ships them: 25,000 + 25,000 texts as numbers of words, negative or positive."""

from typing import Any

from dlbench.datasets._description import Description
from dlbench.datasets._writer import ArrayWriter
from dlbench.datasets.keras import _words
from dlbench.datasets.keras._words import WordsOptions

CLASS_NAMES = ("negative", "positive")


class ImdbOptions(WordsOptions):
    """How reviews become samples."""


OPTIONS = ImdbOptions


def identity(options: ImdbOptions) -> dict[str, Any]:
    """Return the version of Keras, which checks what it loads, and the options."""
    return _words.identity(options)


def describe(options: ImdbOptions) -> Description:
    """Return the known sizes; nothing is loaded for it."""
    return _words.describe(options, 25_000, 25_000, len(CLASS_NAMES))


def prepare(options: ImdbOptions, writer: ArrayWriter) -> None:
    """Write the reviews as tokens of one length; Keras's test part is the validation part."""
    _words.write("imdb", options, CLASS_NAMES, writer)
