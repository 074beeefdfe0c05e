"""Maps a prepared data set: what every worker of a host shares."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dlbench.datasets._meta import Meta, read_meta
from dlbench.datasets._verify import damage
from dlbench.errors import UserError

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Arrays:
    """A prepared data set, mapped read-only: its pages are shared by all processes of a host and held by none.

    Attributes:
        x: Training samples [n, *input_shape] as stored; they enter the network as `x * scale + offset`.
        y: Their class numbers [n, *target_shape], int32.
        validation_x: Samples of the data set's own validation part, or None where it has none.
        validation_y: Their class numbers.
        num_classes: Number of classes.
        input_shape: Shape of one sample.
        scale: See `x`.
        offset: See `x`.
        class_names: Names by class number.
        vocabulary: Where samples are tokens, whole numbers below this.
        target_shape: () where a sample has one class, (T,) where it has one at each of T positions.
    """

    x: Array
    y: Array
    validation_x: Array | None
    validation_y: Array | None
    num_classes: int
    input_shape: tuple[int, ...]
    scale: float
    offset: float
    class_names: tuple[str, ...]
    vocabulary: int | None = None
    target_shape: tuple[int, ...] = ()


def open_arrays(folder: Path, checksum: str) -> Arrays:
    """Map a prepared data set; quick, reads no samples.

    Args:
        folder: Its folder in the cache.
        checksum: What its `meta.json` must say.

    Raises:
        UserError: It is not there, damaged, or another one.
    """
    meta = _checked_meta(folder, checksum)
    content = meta.content
    mapped = {name: _map(folder / f"{name}.npy") for name in content.arrays}
    return Arrays(
        x=mapped["x"],
        y=mapped["y"],
        validation_x=mapped.get("validation_x"),
        validation_y=mapped.get("validation_y"),
        num_classes=content.num_classes,
        input_shape=content.input_shape,
        scale=content.scale,
        offset=content.offset,
        class_names=content.class_names,
        vocabulary=content.vocabulary,
        target_shape=content.target_shape,
    )


def _checked_meta(folder: Path, checksum: str) -> Meta:
    hint = "prepare it again on this host: `python -m dlbench.datasets._prepare`"
    try:
        meta = read_meta(folder)
    except (OSError, ValueError) as error:
        raise UserError(f"no prepared data set in {folder}: {error}", hint=hint) from error
    if meta.checksum != checksum:
        raise UserError(f"{folder} holds other samples: checksum {meta.checksum[:12]}, not {checksum[:12]}", hint=hint)
    if wrong := damage(folder, meta, fully=False):
        raise UserError(f"the prepared data set in {folder} is damaged: {wrong}", hint=hint)
    return meta


def _map(path: Path) -> Array:
    array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array
