"""CIFAR-10 and CIFAR-100: the official archives, or files of them that the user has.

The binary archive is downloaded (https://www.cs.toronto.edu/~kriz/cifar.html); `dataset.path` may also name the Python
archive, which Keras and torchvision keep. Every file is compared with its published checksum before it is read, so
that only the true data set is prepared, and a pickle of the Python archive is only loaded where it is the published
one. Identity and cache entry do not depend on the place.
"""

import hashlib
import pickle
import tarfile
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dlbench.datasets import Description
from dlbench.datasets._download import RemoteFile
from dlbench.datasets._writer import ArrayChecker, ArrayWriter
from dlbench.errors import UserError
from dlbench.plugins import Options

Array = npt.NDArray[np.uint8]

CHANNELS, HEIGHT, WIDTH = 3, 32, 32
NUM_TRAIN, NUM_VALIDATION = 50_000, 10_000


class Cifar10Options(Options):
    """Where the files are."""

    path: str | None = Field(
        None,
        min_length=1,
        description="An archive that you have (binary or Python version), its unpacked folder, or the folder that "
        "holds either; default: the binary archive is downloaded once into the cache (170 MB).",
    )


class Cifar100Options(Cifar10Options):
    """Where the files are, and which classes."""

    labels: Literal["fine", "coarse"] = Field("fine", description="fine: the 100 classes; coarse: the 20 superclasses.")


@dataclass(frozen=True)
class Archive:
    """One version of the published files.

    Attributes:
        name: Name of the archive.
        folder: The folder in it.
        train: Checksum of each file of the training part, in order: sha256 for the binary version, md5 for the Python
            version.
        test: The same of the test part.
    """

    name: str
    folder: str
    train: Mapping[str, str]
    test: Mapping[str, str]

    @property
    def files(self) -> dict[str, str]:
        """Checksum of every file."""
        return {**self.train, **self.test}

    def is_in(self, folder: Path) -> bool:
        """Return whether all files are in a folder."""
        return all((folder / name).is_file() for name in self.files)


@dataclass(frozen=True)
class Cifar:
    """One of the two data sets.

    Attributes:
        doc: What it is, in one line.
        OPTIONS: Its options.
        source: The binary archive.
        binary: Its files. A record is one byte for each kind of label, then the pixels, one plane for each color.
        python: The files of the Python version: pickled dictionaries of the same pixels and labels.
        class_names: Names of the classes for each kind of label, in the order of a binary record.
    """

    doc: str
    OPTIONS: type[Cifar10Options]
    source: RemoteFile
    binary: Archive
    python: Archive
    class_names: Mapping[str, tuple[str, ...]]

    def identity(self, options: Cifar10Options) -> dict[str, Any]:
        """Return the published checksum and the kind of label: the place of the files does not matter."""
        return {"sha256": self.source.sha256, "labels": self._labels(options)}

    def describe(self, options: Cifar10Options) -> Description:
        """Return the published sizes; nothing is downloaded."""
        if options.path is not None:
            self._given(options.path)
        num_classes = len(self.class_names[self._labels(options)])
        return Description(NUM_TRAIN, NUM_VALIDATION, (HEIGHT, WIDTH, CHANNELS), num_classes)

    def verify(self, options: Cifar10Options) -> str:
        """Read the files that the user has as `prepare` does; nothing is downloaded."""
        if options.path is None:
            return ""
        place = self._given(options.path)
        self._append(options, place, ArrayChecker(lambda line: None))
        return f"{place}: all files were read"

    def prepare(self, options: Cifar10Options, writer: ArrayWriter) -> None:
        """Write the images as uint8 [32, 32, 3], which enter the network as 0 to 1; the test part is for validation.

        Raises:
            UserError: The files do not exist, cannot be downloaded, or are not the published ones.
        """
        place = writer.download(self.source) if options.path is None else self._given(options.path)
        self._append(options, place, writer)

    def _append(self, options: Cifar10Options, place: Path, writer: ArrayChecker) -> None:
        writer.say(f"reading {place}")
        labels = self._labels(options)
        writer.describe(
            source=f"{self.source.url}, read from {place}; validation is the official test part",
            class_names=self.class_names[labels],
            scale=1 / 255,
            notes={"labels": labels},
            num_samples=NUM_TRAIN + NUM_VALIDATION,
        )
        for archive, name, content in self._contents(place):
            expected, is_python = archive.files[name], archive is self.python
            checksum = hashlib.new("md5" if is_python else "sha256", content, usedforsecurity=False).hexdigest()
            if checksum != expected:
                raise UserError(
                    f"{name} in {place} is not the published file: its checksum is {checksum}, not {expected}",
                    hint="remove it and download the archive again",
                )
            pixels, classes = self._decode(content, labels, is_python)
            x = pixels.reshape(-1, CHANNELS, HEIGHT, WIDTH).transpose(0, 2, 3, 1)
            writer.append(x, classes, "train" if name in archive.train else "validation")

    def _labels(self, options: Cifar10Options) -> str:
        return options.labels if isinstance(options, Cifar100Options) else "labels"

    def _given(self, path: str) -> Path:
        """Return the archive or the folder of files that a path means.

        Raises:
            UserError: It is neither.
        """
        versions = (self.binary, self.python)
        try:
            place = Path(path).expanduser().absolute()
            places = (place, *(place / it.folder for it in versions), *(place / it.name for it in versions))
            usable = [it for it in places if it.is_file() or any(version.is_in(it) for version in versions)]
        except (RuntimeError, ValueError, OSError) as error:
            raise UserError(f"{path!r} cannot be read: {error}") from error
        if not usable:
            names = " or ".join(version.name for version in versions)
            raise UserError(
                f"{path!r} is no archive and holds neither {names} nor their unpacked files",
                hint=f"the archive is {self.source.url}; without `dataset.path` it is downloaded",
            )
        return usable[0]

    def _contents(self, place: Path) -> Iterator[tuple[Archive, str, bytes]]:
        """Yield version, name and content of each file, one at a time: all of them are more than a small machine has.

        Raises:
            UserError: A file cannot be read, or the archive is damaged or neither version.
        """
        try:
            if place.is_dir():
                archive = self.binary if self.binary.is_in(place) else self.python
                for name in archive.files:
                    yield archive, name, (place / name).read_bytes()
                return
            with tarfile.open(place) as opened:
                members = set(opened.getnames())
                for archive in (self.binary, self.python):
                    if members >= {f"{archive.folder}/{name}" for name in archive.files}:
                        break
                else:
                    raise UserError(
                        f"{place} does not hold the files of {self.binary.name} or {self.python.name}",
                        hint=f"download {self.source.url}",
                    )
                for name in archive.files:
                    member = opened.extractfile(f"{archive.folder}/{name}")
                    yield archive, name, b"" if member is None else member.read()
        except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
            raise UserError(
                f"{place} cannot be read: {error}", hint="remove a damaged archive and download it again"
            ) from error

    def _decode(self, content: bytes, labels: str, is_python: bool) -> tuple[Array, Any]:
        """Return the pixels [n, 3072] and the class numbers [n] of a published file."""
        if is_python:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of how NumPy wrote arrays when the files were made
                batch = pickle.loads(content, encoding="bytes")  # noqa: S301  # its checksum is the published one
            key = labels if labels == "labels" else f"{labels}_labels"
            return batch[b"data"], np.asarray(batch[key.encode()])
        kinds = list(self.class_names)
        records = np.frombuffer(content, np.uint8).reshape(-1, len(kinds) + CHANNELS * HEIGHT * WIDTH)
        return records[:, len(kinds) :], records[:, kinds.index(labels)]
