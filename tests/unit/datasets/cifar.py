"""Small files in the formats of the official CIFAR archives, and rows of the table that have published them."""

import hashlib
import io
import pickle
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from dlbench.datasets._cifar import Archive, Cifar

NUM = 20  # samples of a file


def images(seed: int) -> np.ndarray:
    """Return the images of a file: [n, 32, 32, 3]."""
    return np.random.default_rng(seed).integers(0, 256, (NUM, 32, 32, 3)).astype(np.uint8)


def labels(seed: int, row: Cifar) -> dict[str, list[int]]:
    """Return the class numbers of a file for each kind of label."""
    return {
        kind: [(seed + 5 * number) % 100 * len(names) // 100 for number in range(NUM)]
        for kind, names in row.class_names.items()
    }


def files_of(row: Cifar, archive: Archive) -> dict[str, bytes]:
    """Return small files in an archive's format by name; both formats hold the same."""
    found = {}
    for seed, name in enumerate(archive.files):
        planes = images(seed).transpose(0, 3, 1, 2).reshape(NUM, -1)
        classes = labels(seed, row)
        if archive is row.binary:
            columns = np.array(list(classes.values()), np.uint8).T
            found[name] = np.concatenate([columns, planes], axis=1).tobytes()
        else:
            keys = {kind: kind if kind == "labels" else f"{kind}_labels" for kind in classes}
            batch = {b"data": planes} | {keys[kind].encode(): values for kind, values in classes.items()}
            # As NumPy called its module when the published files were made.
            found[name] = pickle.dumps(batch, protocol=2).replace(b"numpy._core", b"numpy.core")
    return found


def small(row: Cifar) -> tuple[Cifar, dict[str, bytes], dict[str, bytes]]:
    """Return a row that has published small files, and these files: of the binary and of the Python version."""
    binary, python = files_of(row, row.binary), files_of(row, row.python)
    return (
        replace(row, binary=published(row.binary, binary, "sha256"), python=published(row.python, python, "md5")),
        binary,
        python,
    )


def published(archive: Archive, files: Mapping[str, bytes], kind: str) -> Archive:
    """Return an archive whose published files are these."""

    def summed(names: Mapping[str, str]) -> dict[str, str]:
        return {name: hashlib.new(kind, files[name], usedforsecurity=False).hexdigest() for name in names}

    return replace(archive, train=summed(archive.train), test=summed(archive.test))


def write_folder(folder: Path, files: Mapping[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def write_archive(path: Path, folder: str, files: Mapping[str, bytes], mode: str = "w:gz") -> Path:
    """Pack files into an archive, in an order that is not theirs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in reversed({"readme.html": b"<html>", **files}.items()):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path
