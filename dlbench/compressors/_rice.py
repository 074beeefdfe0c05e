"""Rice codes of gaps between places, with a sign each (Rice 1971; Golomb's codes whose divisor is a power of two).

A gap is a quotient by 2^k in unary and a remainder of k bits. The three kinds of bits stand apart, quotients first, so
that each is read at once: as many bits as if they stood together.
"""

import math

import numpy as np

from dlbench.compressors import Array

# Count of places, and k.
_HEADER = np.dtype([("count", "<u4"), ("k", "u1")])
_MOST_REMAINDER_BITS = 31


def encode(places: Array, is_negative: Array) -> Array:
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


def decode(payload: Array) -> tuple[Array, Array]:
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
