"""One `.npy` file written in pieces.

Files are written, never mapped for writing: on a full disk a write fails with an error that can be reported, where a
mapped page would end the process with SIGBUS.
"""

import hashlib
import os
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dlbench.datasets._disk import disk_errors
from dlbench.datasets._meta import ArrayMeta

Array = npt.NDArray[Any]


class NpyStream:
    """One `.npy` file whose number of rows is known only at the end."""

    def __init__(self, file: IO[bytes], dtype: np.dtype[Any], item_shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.item_shape = item_shape
        self.num_rows = 0
        self._file = file
        self._hash = hashlib.sha256()
        self._data_start = self._write_header()

    def append(self, rows: Array) -> None:
        """Append rows of the stream's own type and shape."""
        elements = np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
        with disk_errors(self._file.name):
            self._file.write(elements.data)
        self._hash.update(elements.data)
        self.num_rows += len(rows)

    def finish(self) -> ArrayMeta:
        """Write the final header, force everything to disk and return what was written."""
        with disk_errors(self._file.name):
            self._file.seek(0)
            if self._write_header() != self._data_start:
                raise RuntimeError("the .npy header changed its length")
            self._file.flush()
            os.fsync(self._file.fileno())
            size = os.fstat(self._file.fileno()).st_size
        shape = (self.num_rows, *self.item_shape)
        return ArrayMeta(dtype=self.dtype.str, shape=shape, file_bytes=size, sha256=self._hash.hexdigest())

    def _write_header(self) -> int:
        # NumPy pads the header for a first axis of any length, so that it can be written again in place.
        shape = (self.num_rows, *self.item_shape)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)
        return self._file.tell()
