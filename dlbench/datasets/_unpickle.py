"""Reads the Python pickles of the CIFAR archives without running anything that a pickle could ask for.

They were written by Python 2 and hold a dictionary of byte strings, numbers, lists and arrays of uint8. A pickle names
functions to call; the four names that such an array needs are answered with stand-ins that take nothing but the bytes
of a uint8 array, and any other name is refused. The same names of newer versions of NumPy are understood, too.
"""

import io
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt

# What pickles of `uint8` arrays call the element type.
_UINT8 = ("u1", b"u1")
_RECONSTRUCT = frozenset({("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")})


class Refused(Exception):  # noqa: N818 - it says what it is
    """The pickle holds something that this format does not need."""


def load(content: bytes) -> dict[bytes, Any]:
    """Return the dictionary of a pickle: byte strings, whole numbers, lists and uint8 arrays.

    Raises:
        Refused: It is damaged, holds something else, or asks for a function to be called.
    """
    try:
        found = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except Refused:
        raise
    except Exception as error:  # a damaged pickle makes Python raise anything
        raise Refused(f"it is damaged: {type(error).__name__}: {error}") from error
    if type(found) is not dict:
        raise Refused(f"it holds {type(found).__name__}, not a dictionary")
    return {_key(key): _plain(value) for key, value in found.items()}


class _Unpickler(pickle.Unpickler):
    """An unpickler that knows no function but the stand-ins below."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in of a name.

        Raises:
            Refused: Arrays of uint8 do not need it.
        """
        if (module, name) in _RECONSTRUCT:
            return _Array
        if module == "numpy" and name in ("ndarray", "dtype"):
            return _Name if name == "ndarray" else _Dtype
        raise Refused(f"it asks for {module}.{name}, which pictures do not need")

    def persistent_load(self, pid: Any) -> Any:
        """Refuse references to things outside the pickle."""
        raise Refused("it refers to something outside of it")


class _Name:
    """Stands for `numpy.ndarray`, which is named but never called."""

    def __init__(self, *_: Any) -> None:
        raise Refused("it makes an array in an unusual way")


class _Dtype:
    """Stands for `numpy.dtype`."""

    def __init__(self, code: Any = None, *_: Any) -> None:
        if code not in _UINT8:
            raise Refused(f"it holds an array of {code!r}, not of uint8")

    def __setstate__(self, state: Any) -> None:
        """Take the rest of what says uint8; there is nothing to know."""


class _Array:
    """Stands for an array on its way: made empty, then given its state."""

    def __init__(self, *_: Any) -> None:
        self.value: npt.NDArray[np.uint8] | None = None

    def __setstate__(self, state: Any) -> None:
        """Take version, shape, element type, order and bytes."""
        _, shape, dtype, is_fortran, raw = state
        if not isinstance(dtype, _Dtype) or not isinstance(raw, bytes):
            raise Refused("it holds an array that is not of uint8")
        self.value = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if is_fortran else "C")


def _key(key: Any) -> bytes:
    if type(key) is not bytes:
        raise Refused(f"it has a key that is {type(key).__name__}, not a byte string")
    return key


def _plain(value: Any) -> Any:
    if not isinstance(value, _Array):
        return value
    if value.value is None:
        raise Refused("it holds an array without content")
    return value.value
