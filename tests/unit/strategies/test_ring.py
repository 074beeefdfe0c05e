import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbench.strategies import _volume
from dlbench.strategies._ring import Ring, cut
from tests.unit.strategies.threads import ThreadDriver, run

SIZES = (1, 2, 3, 4, 5, 8, 16)


def vectors(size: int, count: int, dtype: type = np.float64) -> list[np.ndarray]:
    random = np.random.default_rng(size * 1000 + count)
    return [random.normal(size=count).astype(dtype) for _ in range(size)]


def reduced(size: int, inputs: list[np.ndarray], chunk_bytes: int = 0) -> list[tuple[np.ndarray, Ring]]:
    def work(driver: ThreadDriver) -> tuple[np.ndarray, Ring]:
        ring, mine = Ring(driver, chunk_bytes), inputs[driver.rank].copy()
        ring.all_reduce(mine)
        return mine, ring

    return run(size, work)


@settings(max_examples=60, deadline=None)
@given(size=st.sampled_from(SIZES), count=st.integers(0, 200), chunk_bytes=st.sampled_from((0, 1, 8, 24, 100, 1 << 20)))
def test_every_rank_gets_the_sum_bit_for_bit_alike(size: int, count: int, chunk_bytes: int) -> None:
    inputs = vectors(size, count)
    results = [array for array, _ in reduced(size, inputs, chunk_bytes)]
    np.testing.assert_allclose(results[0], np.sum(inputs, axis=0), rtol=1e-12, atol=1e-12)
    assert all(np.array_equal(result, results[0]) for result in results)


@settings(max_examples=60, deadline=None)
@given(size=st.sampled_from(SIZES), count=st.integers(0, 200))
def test_it_counts_what_the_formula_says_and_what_the_driver_saw(size: int, count: int) -> None:
    for rank, (_, ring) in enumerate(reduced(size, vectors(size, count, np.float32))):
        volume = _volume.ring(count, size, rank)
        assert (ring.bytes_sent, ring.messages_sent) == (4 * volume.elements, volume.messages)
        sent = getattr(ring.driver, "sent")  # noqa: B009 - the protocol of a ring knows no such record
        assert sum(nbytes for _, nbytes in sent) == ring.bytes_sent
        assert len(sent) == ring.messages_sent == 2 * (size - 1)
        assert {to for to, _ in sent} <= {(rank + 1) % size}


@pytest.mark.parametrize("size", SIZES)
def test_it_sends_2n_p_minus_1_over_p_where_p_divides_n(size: int) -> None:
    results = reduced(size, vectors(size, 5 * size))
    assert {ring.bytes_sent for _, ring in results} == {8 * 2 * 5 * size * (size - 1) // size}


@pytest.mark.parametrize(("count", "chunk_bytes", "pieces"), [(12, 8, 4), (12, 32, 1), (13, 32, 2), (2, 8, 1)])
def test_a_long_block_travels_in_pieces_of_the_same_bytes(count: int, chunk_bytes: int, pieces: int) -> None:
    inputs = vectors(3, count)
    whole, cut_up = reduced(3, inputs), reduced(3, inputs, chunk_bytes)
    for (array, ring), (other, in_pieces) in zip(whole, cut_up, strict=True):
        assert np.array_equal(array, other)
        assert in_pieces.bytes_sent == ring.bytes_sent
        assert in_pieces.messages_sent == 4 * pieces


def test_it_is_used_again_with_other_lengths_and_types() -> None:
    lengths = ((7, np.float64), (300, np.float32), (7, np.float32), (7, np.float64))
    rounds = [vectors(3, count, dtype) for count, dtype in lengths]

    def work(driver: ThreadDriver) -> list[np.ndarray]:
        ring, mine = Ring(driver, 64), [inputs[driver.rank].copy() for inputs in rounds]
        for array in mine:
            ring.all_reduce(array)
        return mine

    for results in run(3, work):
        for result, inputs in zip(results, rounds, strict=True):
            np.testing.assert_allclose(result, np.sum(inputs, axis=0), rtol=1e-4, atol=1e-6)


@given(start=st.integers(0, 50), length=st.integers(0, 50), parts=st.integers(1, 20))
def test_cuts_adjoin_and_differ_by_one_at_most(start: int, length: int, parts: int) -> None:
    pieces = cut(start, start + length, parts)
    lengths = [piece.stop - piece.start for piece in pieces]
    assert [i for piece in pieces for i in range(piece.start, piece.stop)] == list(range(start, start + length))
    assert lengths == sorted(lengths, reverse=True)
    assert max(lengths) - min(lengths) <= 1
