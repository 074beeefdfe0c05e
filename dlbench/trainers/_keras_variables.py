"""Keras variables as one flat vector, and back."""

from typing import Any

import numpy as np

from dlbench.trainers import Array, flatten


def read(variables: list[Any], dtype: Any) -> Array:
    """Return a copy of all values, flat. float64 holds each exactly: whole numbers in them are far below 2**53."""
    return flatten([variable.numpy() for variable in variables], dtype)


def assign(variables: list[Any], flat: Array) -> None:
    """Overwrite all values.

    Raises:
        ValueError: There are more or fewer numbers than the variables hold.
    """
    ends = np.cumsum([int(np.prod(v.shape)) for v in variables], dtype=np.int64)
    if flat.size != (ends[-1] if len(ends) else 0):
        raise ValueError(f"{flat.size} numbers do not fill variables of shapes {[tuple(v.shape) for v in variables]}")
    for variable, part in zip(variables, np.split(flat, ends[:-1]), strict=False):
        # Keras names a variable's dtype, TensorFlow has its own kind for it.
        dtype = getattr(variable.dtype, "as_numpy_dtype", variable.dtype)
        variable.assign(part.reshape(variable.shape).astype(dtype, copy=False))
