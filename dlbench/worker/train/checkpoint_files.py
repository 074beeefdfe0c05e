"""Checkpoints on disk: the state of a run after an epoch, whole or not there at all. Knows nothing of training.

A checkpoint is two files: `epoch-<n>.npz`, the arrays (NumPy's format, without pickle), and `epoch-<n>.json`, a
manifest with everything else, a checksum over the arrays' file and one over itself. Both are written under another
name, forced to disk and renamed, the manifest last: a checkpoint without its manifest is none. The two newest stay,
so that a damaged one has a second choice behind it.
"""

import hashlib
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dlbench.records.files import replacing, sync_folder

FORMAT = "dlbench checkpoint"
FORMAT_VERSION = 2
# How many of a run's checkpoints stay: the newest and a second choice.
NUM_KEPT = 2

_PREFIX = "epoch-"

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
    _sweep(folder)
    arrays = _arrays_path(folder, checkpoint.epoch)
    with replacing(arrays, "wb") as file:
        np.savez(file, allow_pickle=False, **checkpoint.arrays)
    manifest = _manifest(checkpoint, _checksum(arrays))
    with replacing(arrays.with_suffix(".json"), "wb") as file:
        file.write(manifest)
    sync_folder(folder)
    num_bytes = arrays.stat().st_size + len(manifest)
    _discard(folder, checkpoint.epoch)
    return num_bytes


def read(folder: Path, epoch: int, identity: str) -> Checkpoint:
    """Return the checkpoint of an epoch.

    Raises:
        CheckpointError: It is damaged, of another run, or of another version of the format.
    """
    arrays = _arrays_path(folder, epoch)
    try:
        content = _content(arrays.with_suffix(".json").read_bytes(), identity)
        if content["epoch"] != epoch or _checksum(arrays) != content["arrays"]:
            raise CheckpointError("its arrays are damaged or another's")
        with np.load(arrays, allow_pickle=False) as loaded:
            return Checkpoint(identity, epoch, content["states"], {name: loaded[name] for name in loaded.files})
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"it cannot be read ({type(error).__name__}: {error})") from error


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
    """Return the epochs that have a manifest, the newest first."""
    names = [path.stem.removeprefix(_PREFIX) for path in folder.glob(f"{_PREFIX}*.json")]
    return sorted((int(name) for name in names if name.isdecimal()), reverse=True)


def _arrays_path(folder: Path, epoch: int) -> Path:
    return folder / f"{_PREFIX}{epoch}.npz"


def _discard(folder: Path, current: int) -> None:
    """Take away old checkpoints, and those of later epochs: they could not be used, or the run would be beyond them."""
    epochs = _epochs(folder)
    earlier = [epoch for epoch in epochs if epoch < current]
    for epoch in [*(epoch for epoch in epochs if epoch > current), *earlier[NUM_KEPT - 1 :]]:
        _remove(folder, epoch)


def _remove(folder: Path, epoch: int) -> None:
    """Take a checkpoint away, the manifest first: what is left of one that is half removed is none."""
    path = _arrays_path(folder, epoch)
    path.with_suffix(".json").unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Take away what writers that were killed have left: temporary files, and arrays without a manifest."""
    for path in folder.glob(f".{_PREFIX}*"):
        path.unlink(missing_ok=True)
    for path in folder.glob(f"{_PREFIX}*.npz"):
        if not path.with_suffix(".json").exists():
            path.unlink(missing_ok=True)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest(checkpoint: Checkpoint, arrays_checksum: str) -> bytes:
    content = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "identity": checkpoint.identity,
        "epoch": checkpoint.epoch,
        "arrays": arrays_checksum,
        "states": checkpoint.states,
    }
    return json.dumps({"checksum": _checksum_of(content), "content": content}, allow_nan=False).encode() + b"\n"


def _checksum_of(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _content(text: bytes, identity: str) -> dict[str, Any]:
    """Return what a manifest says.

    Raises:
        CheckpointError: It is damaged, of another run, or of another version of the format.
        ValueError: It is no JSON.
        KeyError: It is no manifest.
        TypeError: It is no manifest.
    """
    manifest = json.loads(text)
    content: dict[str, Any] = manifest["content"]
    if _checksum_of(content) != manifest["checksum"]:
        raise CheckpointError("its manifest is damaged")
    if (content["format"], content["version"]) != (FORMAT, FORMAT_VERSION):
        raise CheckpointError(f"it is a {content['format']} of version {content['version']}, not {FORMAT_VERSION}")
    if content["identity"] != identity:
        raise CheckpointError("it is of another run, other data or another layout of processes")
    return content
