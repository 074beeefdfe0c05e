"""What one rank sends in one all-reduce: elements, exactly, for each algorithm.

The formulas of the text books (Thakur, Rabenseifner and Gropp 2005) hold where p divides n and, but for the ring, p is
a power of two. These hold everywhere, as Open MPI cuts and folds (`ompi/mca/coll/base/coll_base_allreduce.c`); the
monitoring of the library itself counts the same (`tests/functional/test_mpi_strategy.py`).
"""

from collections.abc import Callable

from dlbench.parts import size_of_part


def ring(num_elements: int, size: int, rank: int) -> int:
    """Return 2n - b(r+1) - b(r+2), where b(i) is the length of block i: 2n(p-1)/p where p divides n.

    Block i has floor(n/p) elements, one more for i < n mod p. A rank sends every block but r+1 while reducing, and
    every block but r+2 while gathering. Over all ranks this is always 2n(p-1).
    """
    if size == 1:
        return 0
    kept = sum(size_of_part(num_elements, size, (rank + step) % size) for step in (1, 2))
    return 2 * num_elements - kept


def library_ring(num_elements: int, size: int, rank: int) -> int:
    """Return what Open MPI's ring sends: for fewer elements than ranks it doubles recursively instead."""
    return (ring if num_elements >= size else recursive_doubling)(num_elements, size, rank)


def recursive_doubling(num_elements: int, size: int, rank: int) -> int:
    """Return n lg p where p is a power of two.

    Otherwise p - 2^k ranks fold in: of the first 2(p - 2^k), the even ones send their vector once and wait, the odd
    ones send k times and once more to give the result back.
    """
    rounds, extra = _fold(size)
    if rank >= 2 * extra:
        return num_elements * rounds
    return num_elements * (rounds + 1 if rank % 2 else 1)


def rabenseifner(num_elements: int, size: int, rank: int) -> int:
    """Return 2n(2^k - 1)/2^k where p = 2^k divides n; otherwise what halving and folding leave.

    Of the first 2(p - 2^k) ranks the odd ones send both halves of their vector and wait; the even ones send the
    second half at first and the whole result at last.
    """
    rounds, extra = _fold(size)
    if rank >= 2 * extra:
        return _halving(num_elements, rounds, rank - extra)
    if rank % 2:
        return num_elements
    return _halving(num_elements, rounds, rank // 2) + num_elements - num_elements // 2 + num_elements


def library_rabenseifner(num_elements: int, size: int, rank: int) -> int:
    """Return what Open MPI's Rabenseifner sends: for fewer elements than 2^k it goes linearly instead.

    Every rank sends its vector to rank 0, which sends the sum to every other.
    """
    rounds, _ = _fold(size)
    if num_elements >= 1 << rounds:
        return rabenseifner(num_elements, size, rank)
    return num_elements * (1 if rank else size - 1)


def _halving(num_elements: int, rounds: int, rank: int) -> int:
    """Return what reduce-scatter by halving and the following all-gather send: each round one half each way."""
    sent, window = 0, num_elements
    for step in range(rounds):
        # The lower of a pair keeps the first, shorter half.
        kept = window // 2 if not rank >> step & 1 else window - window // 2
        sent += window
        window = kept
    return sent


def _fold(size: int) -> tuple[int, int]:
    """Return k and p - 2^k for the largest 2^k <= p."""
    rounds = size.bit_length() - 1
    return rounds, size - (1 << rounds)


# The volume of each algorithm that Open MPI can be made to use, by dlbench's name.
LIBRARY: dict[str, Callable[[int, int, int], int]] = {
    "ring": library_ring,
    "recursive-doubling": recursive_doubling,
    "rabenseifner": library_rabenseifner,
}
