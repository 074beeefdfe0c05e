"""Checks of samples and class numbers, the same for every data set."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dlbench.errors import UserError

Array = npt.NDArray[Any]


def stored_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that samples are stored in: their own in native byte order, uint8 for bool."""
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("=")


def as_array(name: str, value: Any) -> Array:
    """Return a value as an array; an array is not copied.

    Raises:
        UserError: It is not one, such as a list of rows of different lengths.
    """
    try:
        array: Array = np.asanyarray(value)
    except ValueError as error:
        raise UserError(f"{name} is not an array: {error}") from error
    return array


def checked_samples(name: str, x: Array) -> Array:
    """Return samples [n, ...] after checking that they are numbers.

    Raises:
        UserError: They are something else, or have no axis of their own.
    """
    if x.dtype.kind not in "buif":
        raise UserError(f"{name} holds {x.dtype}; samples are numbers (integers or floating point)")
    if x.ndim < 2:
        raise UserError(f"{name} has shape {x.shape}; one sample needs at least one axis of its own: [n, ...]")
    if x[:1].size == 0 and len(x):
        raise UserError(f"{name} has shape {x.shape}: its samples are empty")
    return x


def checked_classes(name: str, y: Array, target_shape: tuple[int, ...] = ()) -> Array:
    """Return class numbers [n, *target_shape] after checking that they are integers.

    Raises:
        UserError: They are not.
    """
    if y.ndim != 1 and not target_shape:
        raise UserError(
            f"{name} has shape {y.shape}; it must be [n], one class number for each sample",
            hint="one-hot rows become class numbers by `.argmax(axis=1)`, a column by `.ravel()`",
        )
    if y.shape[1:] != target_shape:
        raise UserError(f"{name} has shape {y.shape}; each sample needs class numbers of shape {target_shape}")
    if y.dtype.kind not in "ui" and len(y):
        raise UserError(f"{name} holds {y.dtype}; class numbers are integers", hint="`.astype(int)`")
    return y


def check_tokens(name: str, x: Array, vocabulary: int) -> None:
    """Refuse samples that are not whole numbers from 0 to below `vocabulary`.

    Raises:
        UserError: They are not.
    """
    if x.dtype.kind not in "ui":
        raise UserError(f"{name} holds {x.dtype}; tokens are integers")
    if x.size and (int(x.min()) < 0 or int(x.max()) >= vocabulary):
        raise UserError(f"{name} holds tokens from {x.min()} to {x.max()}; there are {vocabulary:,}, numbered from 0")


def check_finite(name: str, x: Array) -> None:
    """Refuse samples with numbers that are not finite.

    Raises:
        UserError: There is a NaN or an infinity.
    """
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        raise UserError(f"{name} holds numbers that are not finite (NaN or infinity)")
