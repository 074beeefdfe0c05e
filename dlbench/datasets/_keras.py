"""Data sets that Keras ships, loaded by Keras itself into its own cache: images, and texts as numbers of words."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from dlbench.datasets import Description
from dlbench.datasets._quiet import UNNEEDED, quiet, without
from dlbench.datasets._writer import ArrayWriter
from dlbench.errors import UserError
from dlbench.plugins import Options
from dlbench.scenario.settings import Count

# Samples and classes.
Part = tuple[Any, Any]
Side = Literal["pre", "post"]

# Texts are brought to one length in pieces of this size.
ROWS = 4096


class WordsOptions(Options):
    """How texts become samples."""

    num_words: Annotated[Count, Field(ge=4, le=200_000)] = Field(
        10_000, description="Different tokens; words that are too rare for a number below this become one, the unknown."
    )
    sequence_length: Annotated[Count, Field(le=10_000)] = Field(
        200, description="Words of a sample; longer texts are cut, shorter ones padded with 0."
    )
    padding: Side = Field("pre", description="Where a shorter text is padded: pre (before it) or post (after it).")
    truncating: Side = Field("pre", description="Where a longer text is cut: pre (its start) or post (its end).")


def load(name: str, files: Mapping[str, str], **arguments: Any) -> tuple[Part, Part]:
    """Return what `keras.datasets.<name>.load_data` returns: the training and the test part.

    Args:
        name: The data set's name in Keras.
        files: The md5 of each file that Keras does not verify itself, by its address.
        arguments: Of `load_data`.

    Raises:
        UserError: Keras is not installed, or the data set cannot be downloaded or is damaged.
    """
    keras = import_keras()
    try:
        for url, md5 in files.items():
            keras.utils.get_file(origin=url, file_hash=md5, cache_subdir=f"datasets/{name.replace('_', '-')}")
        train, test = getattr(keras.datasets, name).load_data(**arguments)
    except Exception as error:  # Keras raises bare `Exception` where it cannot download
        home = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
        raise UserError(
            f"Keras cannot load {name}: {type(error).__name__}: {error}",
            hint=f"without a network copy the file that it names into {home}/datasets; remove a damaged one",
        ) from error
    return train, test


def import_keras() -> Any:
    """Return Keras, imported without what its engine writes to stderr.

    Raises:
        UserError: It is not installed.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        with quiet(), without(UNNEEDED):
            import keras
    except ModuleNotFoundError as error:
        raise _not_installed((error.name or "keras").partition(".")[0]) from error
    # Its progress bar is made for terminals.
    keras.utils.disable_interactive_logging()
    return keras


def _version() -> dict[str, Any]:
    """Return the version of Keras, whose loader verifies and orders the samples.

    Raises:
        UserError: Keras is not installed.
    """
    try:
        return {"keras": version("keras")}
    except PackageNotFoundError as error:
        raise _not_installed("keras") from error


def _not_installed(package: str) -> UserError:
    return UserError(f"a data set of Keras needs {package}, which is not installed", hint="pip install 'dlbench[cpu]'")


@dataclass(frozen=True, kw_only=True)
class KerasDataset:
    """One data set of Keras; its test part is the validation part.

    Attributes:
        doc: What it is, in one line.
        name: Its name in Keras.
        class_names: Names of the classes.
        num_train: Samples of the training part.
        num_test: Samples of the test part.
    """

    doc: str
    name: str
    class_names: tuple[str, ...]
    num_train: int
    num_test: int

    def _describe(self, writer: ArrayWriter, train: Part, test: Part, **described: Any) -> Iterator[tuple[str, Part]]:
        """Set what the samples mean; yield both parts by name."""
        writer.describe(
            source=f"keras.datasets.{self.name}; validation is its test part",
            class_names=self.class_names,
            num_samples=len(train[0]) + len(test[0]),
            **described,
        )
        yield from (("train", train), ("validation", test))


@dataclass(frozen=True, kw_only=True)
class Images(KerasDataset):
    """One data set of images.

    Attributes:
        shape: Shape of an image: [height, width, channels].
        files: See `load`.
    """

    shape: tuple[int, int, int]
    files: Mapping[str, str] = field(default_factory=dict)
    OPTIONS: type[Options] = Options

    def identity(self, options: Options) -> dict[str, Any]:
        """Return the version of Keras."""
        return _version()

    def describe(self, options: Options) -> Description:
        """Return the known sizes; nothing is loaded."""
        return Description(self.num_train, self.num_test, self.shape, len(self.class_names))

    def prepare(self, options: Options, writer: ArrayWriter) -> None:
        """Write the images as uint8 [height, width, channels]; pixels enter the network as 0 to 1."""
        for part, (x, y) in self._describe(writer, *load(self.name, self.files), scale=1 / 255):
            writer.append(np.asarray(x).reshape(-1, *self.shape), np.asarray(y).ravel(), part)


@dataclass(frozen=True, kw_only=True)
class Words(KerasDataset):
    """One data set of texts as tokens.

    Tokens are Keras's: 0 pads, 1 starts a text, 2 is a word that is too rare, and n + 3 is the n-th frequent word.
    """

    OPTIONS: type[Options] = WordsOptions

    def identity(self, options: WordsOptions) -> dict[str, Any]:
        """Return the version of Keras, and the options."""
        return {**_version(), **options.model_dump(mode="json"), "version": 1}

    def describe(self, options: WordsOptions) -> Description:
        """Return the known sizes; nothing is loaded."""
        shape, num_words = (options.sequence_length,), options.num_words
        return Description(self.num_train, self.num_test, shape, len(self.class_names), vocabulary=num_words)

    def prepare(self, options: WordsOptions, writer: ArrayWriter) -> None:
        """Write the texts as tokens [sequence_length], of the smallest type that has `num_words` values."""
        notes = {"tokens": "0 pads, 1 starts, 2 is a word too rare, n + 3 the n-th frequent word"}
        parts = load(self.name, {}, num_words=options.num_words)
        pad_sequences = partial(
            import_keras().utils.pad_sequences,
            maxlen=options.sequence_length,
            dtype=np.min_scalar_type(options.num_words - 1),
            padding=options.padding,
            truncating=options.truncating,
        )
        for part, (texts, classes) in self._describe(writer, *parts, notes=notes, vocabulary=options.num_words):
            for start in range(0, len(texts), ROWS):
                rows = slice(start, start + ROWS)
                writer.append(pad_sequences(texts[rows]), np.asarray(classes[rows]), part)
