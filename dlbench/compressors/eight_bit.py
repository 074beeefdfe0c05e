"""Values are sent as whole numbers of eight bits and a unit for each few hundred; the rest is added to the next step.

Dettmers, "8-bit approximations for parallelism in deep learning", 2016, compares such formats; this is the linear one,
with error feedback.
"""

from typing import Any

import numpy as np
from pydantic import Field

from dlbench.compressors import Array, Residual
from dlbench.parts import PIECE, pieces
from dlbench.plugins import Options

BYTES_PER_VALUE = 1
_LARGEST = 127


class EightBitOptions(Options):
    """Options of the compressor `eight-bit`."""

    values_per_unit: int = Field(
        256, ge=1, le=2**20, description="Values that share a unit: 1/127 of the largest of them."
    )


OPTIONS = EightBitOptions


class EightBit(Residual):
    """One worker's side."""

    def __init__(self, options: EightBitOptions, size: int, dtype: np.dtype[Any], scale: float) -> None:
        super().__init__(size, dtype)
        self._per_unit, self._num_units = options.values_per_unit, -(-size // options.values_per_unit)
        # Whole units, as many as stay in the cache.
        self._pieces = pieces(size, self._per_unit * max(1, PIECE // self._per_unit))

    def encode(self, vector: Array) -> Array:
        """Return units and whole numbers; see `dlbench.compressors.Compressor`."""
        payload = np.empty(4 * self._num_units + self.residual.size, np.uint8)
        units, wholes = self._parts(payload)
        for piece in self._pieces:
            values = self.residual[piece]
            values += vector[piece]
            of_piece = units[piece.start // self._per_unit : -(-piece.stop // self._per_unit)]
            of_piece[:] = np.maximum.reduceat(np.abs(values), np.arange(0, values.size, self._per_unit)) / _LARGEST
            each = self._each(of_piece, values)
            rounded = np.divide(values, each, out=np.zeros_like(values), where=each > 0)
            np.rint(rounded, out=rounded)
            # A unit is rounded to float32: the largest value may lie beyond.
            np.clip(rounded, -_LARGEST, _LARGEST, out=rounded)
            wholes[piece] = rounded
            values -= rounded * each
        return payload

    def decode(self, payload: Array, out: Array) -> None:
        """Add whole numbers times their units; see `dlbench.compressors.Compressor`."""
        units, wholes = self._parts(payload)
        for piece in self._pieces:
            of_piece = units[piece.start // self._per_unit : -(-piece.stop // self._per_unit)]
            out[piece] += wholes[piece] * self._each(of_piece, out[piece])

    def _parts(self, payload: Array) -> tuple[Array, Array]:
        """Return the units (float32) and the whole numbers (int8) in a payload."""
        end = 4 * self._num_units
        return payload[:end].view(np.float32), payload[end:].view(np.int8)

    def _each(self, units: Array, values: Array) -> Array:
        """Return the unit of each value of a piece, in the values' type."""
        return np.repeat(units.astype(values.dtype), self._per_unit)[: values.size]


create = EightBit
