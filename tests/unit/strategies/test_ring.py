import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbench.strategies import _volume
from dlbench.strategies._ring import Ring
from tests.fakes import ThreadCommunicator, in_threads

SIZES = (1, 2, 3, 4, 5, 8)


def vectors(size: int, count: int, dtype: type = np.float64) -> list[np.ndarray]:
    random = np.random.default_rng(size * 1000 + count)
    return [random.normal(size=count).astype(dtype) for _ in range(size)]


def reduced(size: int, inputs: list[np.ndarray], chunk_bytes: int = 0) -> list[tuple[np.ndarray, Ring, list[int]]]:
    """Return each rank's result, its ring, and the bytes of each message as the communicator saw them."""

    def work(communicator: ThreadCommunicator) -> tuple[np.ndarray, Ring, list[int]]:
        ring, mine = Ring(communicator, chunk_bytes), inputs[communicator.rank].copy()
        ring.all_reduce(mine)
        assert {to for to, _ in communicator.sent} <= {(communicator.rank + 1) % size}
        return mine, ring, [num_bytes for _, num_bytes in communicator.sent]

    return in_threads(size, work)


@settings(max_examples=40, deadline=None)
@given(size=st.sampled_from(SIZES), count=st.integers(0, 200), chunk_bytes=st.sampled_from((0, 1, 8, 24, 100, 1 << 20)))
def test_every_rank_gets_the_sum_bit_for_bit_alike_and_counts_what_it_sends(
    size: int, count: int, chunk_bytes: int
) -> None:
    inputs = vectors(size, count)
    results = reduced(size, inputs, chunk_bytes)
    first = results[0][0]
    np.testing.assert_allclose(first, np.sum(inputs, axis=0), rtol=1e-12, atol=1e-12)
    for rank, (result, ring, sent) in enumerate(results):
        assert np.array_equal(result, first)
        assert ring.bytes_sent == sum(sent) == 8 * _volume.ring(count, size, rank)
        assert chunk_bytes or len(sent) == 2 * (size - 1)


def test_a_long_block_travels_in_pieces_of_the_same_bytes() -> None:
    for count, chunk_bytes, pieces in ((12, 8, 4), (12, 32, 1), (13, 32, 2), (2, 8, 1)):
        inputs = vectors(3, count)
        for whole, cut_up in zip(reduced(3, inputs), reduced(3, inputs, chunk_bytes), strict=True):
            assert np.array_equal(whole[0], cut_up[0])
            assert cut_up[1].bytes_sent == whole[1].bytes_sent
            assert len(cut_up[2]) == 4 * pieces, (count, chunk_bytes)


def test_it_is_used_again_with_other_lengths_and_types() -> None:
    lengths = ((7, np.float64), (300, np.float32), (7, np.float32), (7, np.float64))
    rounds = [vectors(3, count, dtype) for count, dtype in lengths]

    def work(communicator: ThreadCommunicator) -> list[np.ndarray]:
        ring, mine = Ring(communicator, 64), [inputs[communicator.rank].copy() for inputs in rounds]
        for array in mine:
            ring.all_reduce(array)
        return mine

    for results in in_threads(3, work):
        for result, inputs in zip(results, rounds, strict=True):
            np.testing.assert_allclose(result, np.sum(inputs, axis=0), rtol=1e-4, atol=1e-6)
