"""Whether a prepared data set is whole: quickly by sizes, fully by checksums."""

import hashlib
from pathlib import Path

import numpy as np

from dlbench.datasets._meta import ArrayMeta, Meta

BLOCK_BYTES = 2**20


def damage(folder: Path, meta: Meta, fully: bool) -> str:
    """Return what is wrong with the array files beside a `meta.json`, or an empty string.

    Args:
        folder: The prepared data set.
        meta: Its `meta.json`.
        fully: Also read every array and compare its checksum.
    """
    for name, array in meta.content.arrays.items():
        path = folder / f"{name}.npy"
        try:
            wrong = _damage_of(path, array, fully)
        except (OSError, ValueError) as error:
            wrong = f"{path.name}: {error}"
        if wrong:
            return wrong
    return ""


def _damage_of(path: Path, array: ArrayMeta, fully: bool) -> str:
    size = path.stat().st_size
    if size != array.file_bytes:
        return f"{path.name} has {size:,} bytes, not {array.file_bytes:,}"
    if fully and _elements_sha256(path) != array.sha256:
        return f"{path.name} does not match its checksum"
    return ""


def _elements_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
