"""Keras's own loaders of data: Keras is imported quietly, and what goes wrong is said so that a user can mend it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dlbench.datasets._cifar_files import keras_home
from dlbench.datasets._quiet import quiet
from dlbench.errors import UserError

# What a part of a data set is: samples and classes.
Part = tuple[Any, Any]


@dataclass(frozen=True)
class File:
    """A file whose checksum Keras does not look at: where it is, its published md5, and its folder in Keras's."""

    url: str
    md5: str
    folder: str


def load(name: str, files: Sequence[File] = (), **arguments: Any) -> tuple[Part, Part]:
    """Return what `keras.datasets.<name>.load_data` returns: the training and the test part.

    Args:
        name: The data set's name in Keras.
        files: Files whose checksums are to be looked at before.
        arguments: Of `load_data`.

    Raises:
        UserError: Keras is not there, or the data set is not there and cannot be loaded, or is damaged.
    """
    keras = _keras()
    try:
        for file in files:
            keras.utils.get_file(origin=file.url, file_hash=file.md5, cache_subdir=file.folder)
        train, test = getattr(keras.datasets, name).load_data(**arguments)
    except Exception as error:  # Keras raises bare `Exception` where it cannot load
        raise UserError(
            f"Keras cannot load {name}: {type(error).__name__}: {error}",
            hint=f"without a network put the file that it names into {keras_home() / 'datasets'}; remove a damaged one",
        ) from error
    return train, test


def label_names(name: str) -> tuple[str, ...]:
    """Return the class names that Keras knows of a data set."""
    return tuple(getattr(_keras().datasets, name).get_label_names())


def identity() -> dict[str, Any]:
    """Return the version of Keras, whose loader checks and orders the samples.

    Raises:
        UserError: Keras is not installed.
    """
    try:
        return {"keras": version("keras")}
    except PackageNotFoundError as error:
        raise _not_installed("keras") from error


def _keras() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        with quiet():
            import keras
    except ModuleNotFoundError as error:
        raise _not_installed((error.name or "keras").partition(".")[0]) from error
    # Its bar of progress is made for terminals.
    keras.utils.disable_interactive_logging()
    return keras


def _not_installed(package: str) -> UserError:
    return UserError(f"a data set of Keras needs {package}, which is not installed", hint="pip install 'dlbench[cpu]'")
