"""Checkpoints on disk: the state of a run after an epoch, whole or not there at all. Knows nothing of training.

A checkpoint is one file, `epoch-<n>.npz`: the arrays (NumPy's format, without pickle) and, as an array of bytes, a
manifest in JSON with everything else. It is written under another name, forced to disk and renamed; the checksums of
the zip file find damage. The two newest stay, so that a damaged one has a second choice behind it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dlbench.records.files import replacing, sync_folder

FORMAT = "dlbench checkpoint"
FORMAT_VERSION = 3
# How many of a run's checkpoints stay: the newest and a second choice.
NUM_KEPT = 2

_PREFIX = "epoch-"
# The manifest's name among the arrays.
MANIFEST = "dlbench.manifest"

Arrays = Mapping[str, npt.NDArray[Any]]


class CheckpointError(Exception):
    """A checkpoint that cannot be resumed from, and why."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run.

    Attributes:
        identity: Of what run, on what data and in what layout: only the same one may go on from it.
        epoch: Epochs that were trained.
        states: Of each process, by rank, what JSON can hold.
        arrays: Flat vectors by name.
    """

    identity: str
    epoch: int
    states: list[dict[str, Any]]
    arrays: Arrays


def write(folder: Path, checkpoint: Checkpoint) -> int:
    """Write a checkpoint, and take away all but the newest ones; return its size in bytes.

    Raises:
        OSError: It cannot be written, as on a full disk; those before it are as they were.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f".{_PREFIX}*"):  # of writers that were killed
        left.unlink(missing_ok=True)
    path = _path(folder, checkpoint.epoch)
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "identity": checkpoint.identity,
        "epoch": checkpoint.epoch,
        "arrays": {name: array.nbytes for name, array in checkpoint.arrays.items()},
        "states": checkpoint.states,
    }
    text = np.frombuffer(json.dumps(manifest, allow_nan=False).encode(), np.uint8)
    with replacing(path, "wb") as file:
        np.savez(file, allow_pickle=False, **{MANIFEST: text}, **checkpoint.arrays)
    sync_folder(folder)
    epochs = _epochs(folder)
    # Those of later epochs could not be used, or the run would be beyond them.
    kept = [epoch for epoch in epochs if epoch <= checkpoint.epoch][:NUM_KEPT]
    for epoch in set(epochs).difference(kept):
        _path(folder, epoch).unlink(missing_ok=True)
    return path.stat().st_size


def read(folder: Path, epoch: int, identity: str) -> Checkpoint:
    """Return the checkpoint of an epoch.

    Raises:
        CheckpointError: It is damaged, of another run, or of another version of the format.
    """
    try:
        manifest, arrays = _load(_path(folder, epoch))
        there = manifest["format"], manifest["version"]
        if there != (FORMAT, FORMAT_VERSION):
            raise CheckpointError(f"it is a {there[0]} of version {there[1]}, not {FORMAT_VERSION}")
        if manifest["identity"] != identity:
            raise CheckpointError("it is of another run, other data or another layout of processes")
        if manifest["epoch"] != epoch or manifest["arrays"] != {name: array.nbytes for name, array in arrays.items()}:
            raise CheckpointError("it is of another epoch, or arrays are missing")
        return Checkpoint(identity, epoch, manifest["states"], arrays)
    except (CheckpointError, MemoryError):
        raise
    except Exception as error:  # a damaged zip file raises errors of many types
        raise CheckpointError(f"it cannot be read ({type(error).__name__}: {error})") from error


def _load(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Return the manifest and the arrays of a file, all of whose checksums are right."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as loaded:
        # Checksums first: a damaged shape may ask for any memory, or end an array before its checksum is compared.
        if loaded.zip.testzip() is not None:
            raise CheckpointError("its arrays are damaged")
        if MANIFEST not in loaded:
            raise CheckpointError(f"it has no manifest, as one of a version before {FORMAT_VERSION}")
        arrays = {name: loaded[name] for name in loaded.files}
    return json.loads(arrays.pop(MANIFEST).tobytes()), arrays


def newest(folder: Path, identity: str) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest checkpoint that can be used, or None, and what is wrong with those that cannot."""
    notes: list[str] = []
    for epoch in _epochs(folder):
        try:
            return read(folder, epoch, identity), notes
        except CheckpointError as error:
            notes.append(f"the checkpoint after epoch {epoch} was not used: {error}")
    return None, notes


def _epochs(folder: Path) -> list[int]:
    """Return the epochs of all checkpoints, the newest first."""
    names = [path.stem.removeprefix(_PREFIX) for path in folder.glob(f"{_PREFIX}*.npz")]
    return sorted((int(name) for name in names if name.isdecimal()), reverse=True)


def _path(folder: Path, epoch: int) -> Path:
    return folder / f"{_PREFIX}{epoch}.npz"
