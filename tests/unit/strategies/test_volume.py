"""Elements that each algorithm sends: the text books for powers of two, and counts by hand."""

from dlbench.strategies import _volume


def test_powers_of_two_follow_the_text_books() -> None:
    for size in (2, 4, 8, 16):
        rounds, n = size.bit_length() - 1, 16 * size
        for rank in range(size):
            assert _volume.ring(n, size, rank) == 2 * n * (size - 1) // size, size
            assert _volume.rabenseifner(n, size, rank) == 2 * n * (size - 1) // size, size
            assert _volume.recursive_doubling(n, size, rank) == n * rounds, size


def test_all_ranks_of_a_ring_together_send_2n_p_minus_1() -> None:
    assert {volume(100, 1, 0) for volume in _volume.LIBRARY.values()} == {0}
    for size in range(1, 18):
        for count in (0, 1, 7, 100, 1003):
            sent = sum(_volume.ring(count, size, rank) for rank in range(size))
            assert sent == 2 * count * (size - 1), (size, count)


def test_folding_three_ranks_into_two() -> None:
    # 0 gives all to 1; 1 trades with 2 and gives the result back; 2 trades with 1.
    assert [_volume.recursive_doubling(10, 3, rank) for rank in range(3)] == [10, 20, 10]
    # 0 sends 6 of 11, trades 11 with 2 (in two halves) and gives 11 back; 1 sends 5 and 6; 2 trades.
    assert [_volume.rabenseifner(11, 3, rank) for rank in range(3)] == [28, 11, 11]


def test_short_vectors_take_the_librarys_other_algorithm() -> None:
    assert _volume.library_ring(3, 4, 0) == _volume.recursive_doubling(3, 4, 0)
    assert _volume.library_ring(4, 4, 0) == _volume.ring(4, 4, 0)
    assert [_volume.library_rabenseifner(3, 5, rank) for rank in range(5)] == [12] + [3] * 4
    assert _volume.library_rabenseifner(4, 5, 4) == _volume.rabenseifner(4, 5, 4)
