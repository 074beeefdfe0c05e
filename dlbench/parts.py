"""The one way in which n things are cut into p parts: sizes differ by one at most, the first are the larger.

And that in which long vectors are handled a piece at a time.
"""

from itertools import accumulate, pairwise


def size_of_part(size: int, parts: int, index: int) -> int:
    """Return how many of `size` things the part `index` has."""
    whole, remainder = divmod(size, parts)
    return whole + (index < remainder)


def cut(size: int, parts: int, start: int = 0) -> list[slice]:
    """Return adjoining slices of `size` things from `start` on; some are empty where there are more parts."""
    edges = accumulate((size_of_part(size, parts, index) for index in range(parts)), initial=start)
    return [slice(*edge) for edge in pairwise(edges)]


# Numbers handled at a time: what is made of them stays in the processor's cache.
PIECE = 2**15


def pieces(size: int, piece: int = PIECE) -> list[slice]:
    """Return adjoining slices of `piece` things each, the last one shorter."""
    return [slice(start, min(start + piece, size)) for start in range(0, size, piece)]
