"""The pictures of CIFAR-10 and CIFAR-100, from the official Python archive or its unpacked batches.

Every file is compared with its published checksum before it is read, so that only the true data set is prepared,
wherever it was found: identity and cache entry do not depend on the place.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dlbench.datasets import _cifar_files, _unpickle
from dlbench.datasets._writer import ArrayWriter
from dlbench.errors import UserError

SHAPE = (32, 32, 3)
NUM_TRAIN, NUM_VALIDATION = 50_000, 10_000

Array = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Edition:
    """One of the two data sets as it is published.

    Attributes:
        name: Name of the dlbench data set.
        url: Where Keras and others load the archive from.
        archive_md5: Its md5, as the data set's page says; https://www.cs.toronto.edu/~kriz/cifar.html.
        folder: The folder in the archive.
        train: The files of the training part, in order, with their md5 (as torchvision checks them).
        test: The same of the test part.
        meta: The file with the names of the classes, and its md5.
        labels: Key of the class numbers.
        label_names: Key of the classes' names.
        keras_folder: Where Keras 3 unpacks the archive to, below `datasets`.
    """

    name: str
    url: str
    archive_md5: str
    folder: str
    train: tuple[tuple[str, str], ...]
    test: tuple[tuple[str, str], ...]
    meta: tuple[str, str]
    labels: bytes
    label_names: bytes
    keras_folder: str

    @property
    def checksums(self) -> dict[str, str]:
        """Every file that is needed, with its md5."""
        return dict((*self.train, *self.test, self.meta))

    @property
    def archive(self) -> str:
        """Name of the archive."""
        return self.url.rpartition("/")[2]


def write(edition: Edition, path: str | None, writer: ArrayWriter) -> None:
    """Write the pictures as uint8 [32, 32, 3] with the test part for validation; pixels enter the network as 0 to 1.

    Args:
        edition: Which data set; tests give one with the checksums of files of their own.
        path: The archive or the folder of batches, or None to look in the usual places and then load it.
        writer: Takes them.

    Raises:
        UserError: There is nothing there, it cannot be loaded, or it is not what was published.
    """
    found, content = _cifar_files.read(edition, path, writer.say)
    _check(edition, found, content)
    # Each file is let go once it is read: all of them, twice, are more than a small machine has.
    names = _class_names(edition, found, content.pop(edition.meta[0]))
    writer.describe(
        source=f"{edition.name}: {edition.url}, found in {found}; validation is the official test part",
        class_names=names,
        scale=1 / 255,
        notes={"md5": edition.archive_md5, "labels": edition.labels.decode()},
        num_samples=NUM_TRAIN + NUM_VALIDATION,
    )
    for part, files in (("train", edition.train), ("validation", edition.test)):
        for name, _ in files:
            writer.append(*_pictures(edition, found, name, content.pop(name)), part)


def _check(edition: Edition, found: Path, content: dict[str, bytes]) -> None:
    for name, expected in edition.checksums.items():
        md5 = hashlib.md5(content[name], usedforsecurity=False).hexdigest()
        if md5 != expected:
            raise UserError(
                f"{edition.name}: {name} in {found} is not the published file: its md5 is {md5}, not {expected}",
                hint=f"remove {found} and load {edition.url} anew",
            )


def _class_names(edition: Edition, found: Path, content: bytes) -> tuple[str, ...]:
    values = _unpickled(edition, found, edition.meta[0], content).get(edition.label_names)
    if not isinstance(values, list) or not all(isinstance(value, bytes) for value in values):
        raise _unusable(edition, found, edition.meta[0], f"it has no list {edition.label_names.decode()!r}")
    return tuple(value.decode("utf-8", "replace") for value in values)


def _pictures(edition: Edition, found: Path, name: str, content: bytes) -> tuple[Array, list[int]]:
    batch = _unpickled(edition, found, name, content)
    pixels, labels = batch.get(b"data"), batch.get(edition.labels)
    height, width, channels = SHAPE
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != height * width * channels:
        raise _unusable(edition, found, name, "it has no pictures of 32 x 32 pixels in 3 colors")
    if not isinstance(labels, list) or not all(type(label) is int for label in labels) or len(labels) != len(pixels):
        raise _unusable(edition, found, name, f"it has no class number {edition.labels.decode()!r} for each picture")
    # The file holds one plane for each color.
    return pixels.reshape(-1, channels, height, width).transpose(0, 2, 3, 1), labels


def _unpickled(edition: Edition, found: Path, name: str, content: bytes) -> dict[bytes, Any]:
    try:
        return _unpickle.load(content)
    except _unpickle.Refused as error:
        raise _unusable(edition, found, name, str(error)) from error


def _unusable(edition: Edition, found: Path, name: str, why: str) -> UserError:
    return UserError(f"{edition.name}: {name} in {found} cannot be read: {why}")
