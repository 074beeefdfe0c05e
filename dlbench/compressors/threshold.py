"""Only values whose sum over steps has passed a threshold are sent, as a place and a sign.

Strom, "Scalable distributed DNN training using commodity GPU cloud computing", 2015: what is sent of a value is + or -
threshold, one word of 31 bits of its place and one of its sign; the rest remains for later steps, so a value far above
the threshold is sent step after step. With `entropy_coded` gaps between places are Rice codes instead.
"""

from typing import Any

import numpy as np
from pydantic import Field

from dlbench.compressors import Array, Residual, _rice
from dlbench.parts import pieces
from dlbench.plugins import Options

_SIGN = np.uint32(2**31)


class ThresholdOptions(Options):
    """Options of the compressor `threshold`."""

    threshold: float = Field(
        0.001, gt=0, description="What is sent of a value, once the sum of a worker's mean gradients has passed it."
    )
    entropy_coded: bool = Field(
        False, description="Send gaps between places as Rice codes: fewer bytes, and more work for the processor."
    )


OPTIONS = ThresholdOptions


class Threshold(Residual):
    """One worker's side."""

    def __init__(self, options: ThresholdOptions, size: int, dtype: np.dtype[Any], scale: float) -> None:
        super().__init__(size, dtype)
        self._threshold = self.residual.dtype.type(options.threshold * scale)
        self._is_coded = options.entropy_coded

    def encode(self, vector: Array) -> Array:
        """Return the words of all values beyond the threshold; see `dlbench.compressors.Compressor`."""
        words = np.concatenate([np.empty(0, np.uint32), *(self._words(piece, vector) for piece in pieces(vector.size))])
        if self._is_coded:
            return _rice.encode(words & ~_SIGN, words >= _SIGN)
        return words.view(np.uint8)

    def decode(self, payload: Array, out: Array) -> None:
        """Add + or - threshold where the words say; see `dlbench.compressors.Compressor`."""
        if self._is_coded:
            places, is_negative = _rice.decode(payload)
        else:
            words = payload.view(np.uint32)
            places, is_negative = words & ~_SIGN, words >= _SIGN
        # No place is named twice.
        out[places] += np.where(is_negative, -self._threshold, self._threshold)

    def _words(self, piece: slice, vector: Array) -> Array:
        """Return the words of one piece, and leave the rest in the residual."""
        values = self.residual[piece]
        values += vector[piece]
        places = np.flatnonzero(np.abs(values) > self._threshold)
        is_negative = values[places] < 0
        values[places] -= np.where(is_negative, -self._threshold, self._threshold)
        return pack(places + piece.start, is_negative)


def pack(places: Array, is_negative: Array) -> Array:
    """Return one word (uint32) for each place below 2^31 and its sign.

    Raises:
        ValueError: A place has no 31 bits.
    """
    if places.size and int(places[-1]) >= int(_SIGN):
        raise ValueError(f"place {places[-1]} does not fit into 31 bits")
    return places.astype(np.uint32) | np.where(is_negative, _SIGN, np.uint32(0))


def create(options: ThresholdOptions, size: int, dtype: np.dtype[Any], scale: float) -> Threshold:
    """Return one worker's side for a vector."""
    return Threshold(options, size, dtype, scale)
