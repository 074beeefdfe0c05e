"""News of Reuters as Keras ships them: 8,982 + 2,246 texts as numbers of words, in 46 subjects."""

from typing import Any

from dlbench.datasets._description import Description
from dlbench.datasets._writer import ArrayWriter
from dlbench.datasets.keras import _load, _words
from dlbench.datasets.keras._words import WordsOptions


class ReutersOptions(WordsOptions):
    """How news become samples."""


OPTIONS = ReutersOptions


def identity(options: ReutersOptions) -> dict[str, Any]:
    """Return the version of Keras, which checks what it loads, and the options."""
    return _words.identity(options)


def describe(options: ReutersOptions) -> Description:
    """Return the known sizes; nothing is loaded for it."""
    return _words.describe(options, 8_982, 2_246, 46)


def prepare(options: ReutersOptions, writer: ArrayWriter) -> None:
    """Write the news as tokens of one length; Keras's test part (a fifth, drawn by Keras) is the validation part."""
    _words.write("reuters", options, _load.label_names("reuters"), writer)
