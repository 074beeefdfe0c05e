"""Values are sent in half precision; what rounding left out is added to the next step."""

from enum import StrEnum
from typing import Any

import numpy as np
from pydantic import Field

from dlbench.compressors import Array, Residual
from dlbench.parts import pieces
from dlbench.plugins import Options

BYTES_PER_VALUE = 2
_ROUND = np.uint32(0x7FFF)
# Values of float16 are scaled to less than 2^15: the largest that it has is 65504.
_LARGEST_EXPONENT = 15
# Before the values: what they were divided by.
_UNIT_BYTES = 4


class Format(StrEnum):
    """Sixteen bits of a number."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


class HalfOptions(Options):
    """Options of the compressor `half`."""

    format: Format = Field(
        Format.BFLOAT16,
        description="`bfloat16` has the range of float32 and 8 bits of precision; `float16` has 11 bits for values "
        "down to a 2^29th of the largest, by which all are scaled.",
    )


OPTIONS = HalfOptions


class Half(Residual):
    """One worker's side."""

    def __init__(self, options: HalfOptions, size: int, dtype: np.dtype[Any], scale: float) -> None:
        super().__init__(size, dtype)
        self._is_brain = options.format is Format.BFLOAT16

    def encode(self, vector: Array) -> Array:
        """Return all values in half precision; see `dlbench.compressors.Compressor`."""
        self.residual += vector
        unit = np.float32(1)
        if not self._is_brain:
            largest = max(self.residual.max(initial=0), -self.residual.min(initial=0))
            unit = np.float32(2.0 ** (np.frexp(largest)[1] - _LARGEST_EXPONENT))
        payload = np.empty(_UNIT_BYTES + 2 * self.residual.size, np.uint8)
        payload[:_UNIT_BYTES] = np.array([unit]).view(np.uint8)
        halves = payload[_UNIT_BYTES:].view(np.uint16)
        for piece in pieces(halves.size):
            values = self.residual[piece]
            if self._is_brain:
                bits = values.astype(np.float32, copy=False).view(np.uint32)
                # To the nearest, of two equally near ones to the even.
                halves[piece] = (bits + (_ROUND + (bits >> 16 & 1))) >> 16
            else:
                halves[piece] = (values / values.dtype.type(unit)).astype(np.float16).view(np.uint16)
            values -= self._values(halves[piece], unit)
        return payload

    def decode(self, payload: Array, out: Array) -> None:
        """Add the values; see `dlbench.compressors.Compressor`."""
        halves, unit = payload[_UNIT_BYTES:].view(np.uint16), payload[:_UNIT_BYTES].view(np.float32)[0]
        for piece in pieces(out.size):
            out[piece] += self._values(halves[piece], unit)

    def _values(self, halves: Array, unit: np.float32) -> Array:
        if self._is_brain:
            values: Array = (halves.astype(np.uint32) << 16).view(np.float32)
        else:
            values = halves.view(np.float16) * self.residual.dtype.type(unit)
        return values


create = Half
