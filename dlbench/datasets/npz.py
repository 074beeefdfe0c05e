"""Arrays in one NumPy .npz file: x and y, or x_train and y_train, perhaps with a part of their own for validation."""

import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dlbench.datasets import Description
from dlbench.datasets._writer import ArrayWriter
from dlbench.errors import UserError, nearest
from dlbench.plugins import Options
from dlbench.regular_file import open_regular

Array = npt.NDArray[Any]
# Names that people give samples and classes, for training and for validation; the first pair that is there counts.
_TRAIN = (("x_train", "y_train"), ("x", "y"), ("images", "labels"), ("X_train", "Y_train"), ("X", "Y"), ("X", "y"))
_VALIDATION = (("x_validation", "y_validation"), ("x_val", "y_val"), ("x_test", "y_test"), ("X_test", "Y_test"))
_PIECE = 2**22


class NpzOptions(Options):
    """Which file, and which of its arrays."""

    path: str = Field(min_length=1, description="The .npz file; relative to the folder dlbench is started in.")
    x: str | None = Field(None, description="Name of the samples [n, ...]; default: x_train, x or images.")
    y: str | None = Field(
        None, description="Name of their classes [n], or one-hot [n, classes]; default: y_train, y or labels."
    )


OPTIONS = NpzOptions


def identity(options: NpzOptions) -> dict[str, Any]:
    """Return the file's checksum and the names; where the file lies does not matter."""
    digest = hashlib.sha256()
    with _opened(options) as (path, _), open_regular(path) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return {"sha256": digest.hexdigest(), "x": options.x, "y": options.y, "version": 1}


def describe(options: NpzOptions) -> Description:
    """Read the sizes of the arrays."""
    with _opened(options) as (path, arrays):
        names = _names(options, path, arrays)
        x, y = (arrays[name] for name in names["train"])
        if not x.ndim or not y.ndim:
            raise UserError(f"npz: {path}: {' and '.join(names['train'])} must be arrays of samples and classes")
        samples = _samples(x)
        y = _classes(y)
        validation = len(arrays[names["validation"][0]]) if "validation" in names else None
        classes = int(y.max()) + 1 if len(y) and np.issubdtype(y.dtype, np.integer) else None
        return Description(len(samples), validation, samples.shape[1:], classes)


def prepare(options: NpzOptions, writer: ArrayWriter) -> None:
    """Write the arrays; images of bytes [n, height, width] get a channel, and bytes enter the network as 0 to 1.

    Raises:
        UserError: The file is none, or an array is not there or has objects or texts in it.
    """
    with _opened(options) as (path, arrays):
        names = _names(options, path, arrays)
        are_bytes = {arrays[x].dtype for x, _ in names.values()} == {np.dtype(np.uint8)}
        used = ", ".join(name for pair in names.values() for name in pair)
        writer.describe(source=f"{used} of {path}", scale=1 / 255 if are_bytes else 1.0)
        found = {part: (_samples(arrays[x]), _classes(arrays[y])) for part, (x, y) in names.items()}
    # Outside, so that a full disk is not taken for a fault of the file.
    for part, (x, y) in found.items():
        writer.append(x, y, part)


@contextmanager
def _opened(options: NpzOptions) -> Iterator[tuple[Path, Mapping[str, Array]]]:
    path = Path(options.path).expanduser()
    try:
        with open_regular(path) as file:
            arrays = np.load(file, allow_pickle=False)
            if not isinstance(arrays, np.lib.npyio.NpzFile):
                raise UserError(f"npz: {options.path!r} holds one array, not several with names", hint="use np.savez")
            yield path, arrays
    except FileNotFoundError as error:
        near = nearest(path.name, [one.name for one in path.parent.glob("*.npz")])
        raise UserError(f"npz: {options.path!r} does not exist", hint=near) from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"npz: {options.path!r} cannot be read: {error}") from error


def _names(options: NpzOptions, path: Path, arrays: Mapping[str, Array]) -> dict[Any, tuple[str, str]]:
    """Return the names of samples and classes by part."""
    known = list(arrays)
    train = next((pair for pair in _TRAIN if set(pair) <= set(known)), (None, None))
    chosen = (options.x or train[0], options.y or train[1])
    if None in chosen:
        raise UserError(
            f"npz: {path} has {', '.join(known) or 'no array'}, neither x and y nor x_train and y_train",
            hint="name them with `dataset.x` and `dataset.y`",
        )
    missing = [name for name in chosen if name not in known]
    if missing:
        raise UserError(f"npz: {path} has no array {missing[0]!r}; it has {', '.join(known) or 'no array'}")
    found: dict[Any, tuple[str, str]] = {"train": (str(chosen[0]), str(chosen[1]))}
    validation = next((pair for pair in _VALIDATION if set(pair) <= set(known)), None)
    # Who names arrays of his own has named all that count.
    if validation is not None and options.x is None and options.y is None:
        found["validation"] = validation
    return found


def _samples(x: Array) -> Array:
    return x[..., np.newaxis] if x.dtype == np.uint8 and x.ndim == 3 else x


def _classes(y: Array) -> Array:
    """Return classes as one number each [n], also of a file that has them as [n, 1] or one-hot [n, classes]."""
    if y.ndim != 2 or y.dtype.kind not in "biuf":
        return y
    if y.shape[1] == 1:
        return y[:, 0]
    is_one_hot = bool(((y == 0) | (y == 1)).all() and (y.sum(axis=1) == 1).all())
    return y.argmax(axis=1) if is_one_hot else y
