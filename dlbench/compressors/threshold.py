"""Only values whose sum over steps has passed a threshold are sent, as a place and a sign.

Strom, "Scalable distributed DNN training using commodity GPU cloud computing", 2015: what is sent of a value is + or -
threshold, one word of 31 bits of its place and one of its sign; the rest remains for later steps, so a value far above
the threshold is sent step after step. With `entropy_coded` gaps between places are Rice codes instead (Rice 1971;
Golomb's codes whose divisor is a power of two): a gap is a quotient by 2^k in unary and a remainder of k bits, with a
sign. The three kinds of bits stand apart, quotients first, so that each is read at once.
"""

import math
from typing import Any

import numpy as np
from pydantic import Field

from dlbench.compressors import Array, Residual
from dlbench.parts import pieces
from dlbench.plugins import Options

_SIGN = np.uint32(2**31)
# Before Rice codes: the count of places, and k.
_HEADER = np.dtype([("count", "<u4"), ("k", "u1")])
_MOST_REMAINDER_BITS = 31


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
            return rice_encode(words & ~_SIGN, words >= _SIGN)
        return words.view(np.uint8)

    def decode(self, payload: Array, out: Array) -> None:
        """Add + or - threshold where the words say; see `dlbench.compressors.Compressor`."""
        if self._is_coded:
            places, is_negative = rice_decode(payload)
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


def rice_encode(places: Array, is_negative: Array) -> Array:
    """Return the code of ascending places (uint32, each once) and their signs (bool), as bytes (uint8)."""
    gaps: Array = np.diff(places.astype(np.int64), prepend=-1) - 1
    k = _best_k(gaps)
    header = np.array([(len(gaps), k)], _HEADER).view(np.uint8)
    quotients = gaps >> k
    ends = np.cumsum(quotients + 1)
    unary = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    unary[ends - 1] = 1
    remainders = (gaps[:, np.newaxis] >> np.arange(k)) & 1
    bits = np.concatenate([unary, remainders.astype(np.uint8).ravel(), is_negative.astype(np.uint8)])
    return np.concatenate([header, np.packbits(bits)])


def rice_decode(payload: Array) -> tuple[Array, Array]:
    """Return the places [n] (int64) and whether each is negative [n] (bool)."""
    header = payload[: _HEADER.itemsize].view(_HEADER)[0]
    count, k = int(header["count"]), int(header["k"])
    bits = np.unpackbits(payload[_HEADER.itemsize :])
    ends = np.flatnonzero(bits)[:count]
    quotients = np.diff(ends, prepend=-1) - 1
    start = int(ends[-1]) + 1 if count else 0
    remainders = bits[start : start + count * k].reshape(count, k).astype(np.int64) @ (1 << np.arange(k))
    gaps = (quotients << k) + remainders
    signs = bits[start + count * k : start + count * (k + 1)]
    return np.cumsum(gaps + 1) - 1, signs.astype(bool)


def _best_k(gaps: Array) -> int:
    """Return the bits of a remainder for which gaps of this mean take the fewest, if they are geometric."""
    mean = float(gaps.mean()) if len(gaps) else 0.0
    # Kiely, "Selecting the Golomb parameter in Rice coding", 2004: with the golden ratio in place of 2.
    ratio = math.log(0.5 * (math.sqrt(5) - 1)) / math.log(mean / (mean + 1)) if mean > 0 else 1.0
    return min(_MOST_REMAINDER_BITS, max(0, 1 + math.floor(math.log2(ratio))))


create = Threshold
