"""Values are sent as whole numbers of eight bits and a unit for each few hundred; the rest is added to the next step.

Dettmers, "8-bit approximations for parallelism in deep learning", 2016, compares such formats; this is the linear one,
with error feedback.
"""

from typing import Any

import numpy as np
from pydantic import Field

from dlbench.compressors import Array, Residual
from dlbench.plugins import Options

IS_DENSE = True
_LARGEST = 127


class EightBitOptions(Options):
    """Options of the compressor `eight-bit`."""

    values_per_unit: int = Field(
        256, ge=1, le=2**20, description="Values that share a unit: 1/127 of the largest of them."
    )


OPTIONS = EightBitOptions


class EightBit(Residual):
    """One worker's side."""

    def __init__(self, options: EightBitOptions, size: int, dtype: np.dtype[Any]) -> None:
        super().__init__(size, dtype)
        self._starts = np.arange(0, size, options.values_per_unit)
        self._lengths = np.diff(self._starts, append=size)

    def encode(self, vector: Array) -> Array:
        """Return units and whole numbers; see `dlbench.compressors.Compressor`."""
        self.residual += vector
        largest = np.maximum.reduceat(np.abs(self.residual), self._starts) if self.residual.size else self.residual
        units = (largest / _LARGEST).astype(np.float32)
        each = np.repeat(units.astype(self.residual.dtype), self._lengths)
        wholes = np.divide(self.residual, each, out=np.zeros_like(self.residual), where=each > 0)
        wholes = np.clip(np.rint(wholes), -_LARGEST, _LARGEST)
        self.residual -= wholes * each
        return np.concatenate([units.view(np.uint8), wholes.astype(np.int8).view(np.uint8)])

    def decode(self, payload: Array, out: Array) -> None:
        """Add whole numbers times their units; see `dlbench.compressors.Compressor`."""
        num_bytes = 4 * self._starts.size
        units = np.frombuffer(payload[:num_bytes].tobytes(), np.float32).astype(out.dtype)
        out += payload[num_bytes:].view(np.int8) * np.repeat(units, self._lengths)


def create(options: EightBitOptions, size: int, dtype: np.dtype[Any], scale: float) -> EightBit:
    """Return one worker's side for a vector."""
    return EightBit(options, size, dtype)
