"""Writes small data sets in the format of the official CIFAR archives: pickles of Python 2."""

import hashlib
import io
import struct
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dlbench.datasets._cifar import Edition

PROTOCOL, STOP, MARK, REDUCE, BUILD, TUPLE = b"\x80\x02", b".", b"(", b"R", b"b", b"t"


def text(value: bytes) -> bytes:
    """Return what Python 2 wrote for a `str`."""
    return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value


def tuple_of(*parts: bytes) -> bytes:
    return MARK + b"".join(parts) + TUPLE


def array(value: np.ndarray, code: bytes = b"u1") -> bytes:
    """Return what NumPy wrote for an array of uint8."""
    made = (
        b"cnumpy.core.multiarray\n_reconstruct\n" + tuple_of(b"cnumpy\nndarray\n", integers((0,)), text(b"b")) + REDUCE
    )
    dtype = b"cnumpy\ndtype\n" + tuple_of(text(code), integer(0), integer(1)) + REDUCE
    dtype += tuple_of(integer(3), text(b"|"), b"N", b"N", b"N", integer(-1), integer(-1), integer(0)) + BUILD
    state = tuple_of(integer(1), integers(value.shape), dtype, b"\x89", text(value.tobytes()))
    return made + state + BUILD


def integer(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def integers(values: tuple[int, ...]) -> bytes:
    return tuple_of(*map(integer, values))


def value_of(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        return array(value)
    if isinstance(value, list):
        return b"](" + b"".join(map(value_of, value)) + b"e"
    return integer(value) if isinstance(value, int) else text(value)


def pickled(values: dict[bytes, Any]) -> bytes:
    """Return the pickle of a dictionary as Python 2 wrote it."""
    return PROTOCOL + b"}(" + b"".join(text(key) + value_of(value) for key, value in values.items()) + b"u" + STOP


def pictures(seed: int, num: int) -> np.ndarray:
    """Return pictures as they are meant: [n, 32, 32, 3]."""
    return np.random.default_rng(seed).integers(0, 256, (num, 32, 32, 3)).astype(np.uint8)


def batch(seed: int, num: int, labels: dict[bytes, list[int]]) -> bytes:
    """Return a batch: pictures as planes of each color, one after the other."""
    planes = pictures(seed, num).transpose(0, 3, 1, 2).reshape(num, -1)
    names = [f"{seed}_{number}.png".encode() for number in range(num)]
    return pickled({b"batch_label": b"a batch", b"filenames": names, b"data": planes, **labels})


def cifar10(num: int = 20) -> dict[str, bytes]:
    """Return small files of CIFAR-10 by name."""
    names = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
    found = {
        name: batch(seed, num, {b"labels": [(seed + row) % 10 for row in range(num)]})
        for seed, name in enumerate(names)
    }
    classes = [f"class {number}".encode() for number in range(10)]
    return {**found, "batches.meta": pickled({b"num_cases_per_batch": num, b"label_names": classes, b"num_vis": 3072})}


def cifar100(num: int = 200) -> dict[str, bytes]:
    """Return small files of CIFAR-100 by name."""
    labels = {
        b"fine_labels": [row % 100 for row in range(num)],
        b"coarse_labels": [row % 100 // 5 for row in range(num)],
    }
    meta = {
        b"fine_label_names": [f"fine {number}".encode() for number in range(100)],
        b"coarse_label_names": [f"coarse {number}".encode() for number in range(20)],
    }
    return {"train": batch(0, num, labels), "test": batch(1, num, labels), "meta": pickled(meta)}


def edition_of(edition: Edition, files: dict[str, bytes]) -> Edition:
    """Return an edition whose published files are these."""

    def summed(named: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple((name, md5(files[name])) for name, _ in named)

    return replace(edition, train=summed(edition.train), test=summed(edition.test), meta=summed((edition.meta,))[0])


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def write_folder(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def write_archive(path: Path, folder: str, files: dict[str, bytes], mode: str = "w:gz") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in reversed({"readme.html": b"<html>", **files}.items()):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path
