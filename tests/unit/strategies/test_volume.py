import pytest

from dlbench.strategies import _volume

POWERS = (2, 4, 8, 16)
ANY = tuple(range(1, 18))


@pytest.mark.parametrize("size", POWERS)
def test_ring_and_rabenseifner_both_send_2n_p_minus_1_over_p(size: int) -> None:
    n = 16 * size
    for rank in range(size):
        assert _volume.ring(n, size, rank).elements == 2 * n * (size - 1) // size
        assert _volume.rabenseifner(n, size, rank).elements == 2 * n * (size - 1) // size


@pytest.mark.parametrize("size", POWERS)
def test_recursive_doubling_sends_n_lg_p(size: int) -> None:
    rounds = size.bit_length() - 1
    assert {_volume.recursive_doubling(100, size, rank) for rank in range(size)} == {(100 * rounds, rounds)}


@pytest.mark.parametrize("size", POWERS)
def test_ring_takes_2_p_minus_1_steps_and_rabenseifner_2_lg_p(size: int) -> None:
    assert _volume.ring(100, size, 0).messages == 2 * (size - 1)
    assert _volume.rabenseifner(100, size, 0).messages == 2 * (size.bit_length() - 1)


@pytest.mark.parametrize("size", ANY)
@pytest.mark.parametrize("count", [0, 1, 7, 100, 1003])
def test_all_ranks_of_a_ring_together_send_2n_p_minus_1(size: int, count: int) -> None:
    assert sum(_volume.ring(count, size, rank).elements for rank in range(size)) == 2 * count * (size - 1)


@pytest.mark.parametrize("name", sorted(_volume.LIBRARY))
def test_one_rank_sends_nothing(name: str) -> None:
    assert _volume.LIBRARY[name](100, 1, 0) == (0, 0)


def test_folding_three_ranks_into_two() -> None:
    # 0 gives all to 1; 1 trades with 2 and gives the result back; 2 trades with 1.
    assert [_volume.recursive_doubling(10, 3, rank) for rank in range(3)] == [(10, 1), (20, 2), (10, 1)]
    # 0 sends 6 of 11, trades 11 with 2 (in two halves) and gives 11 back; 1 sends 5 and 6; 2 trades.
    assert [_volume.rabenseifner(11, 3, rank) for rank in range(3)] == [(28, 4), (11, 2), (11, 2)]


def test_the_librarys_ring_doubles_recursively_with_fewer_elements_than_ranks() -> None:
    assert _volume.library_ring(3, 4, 0) == _volume.recursive_doubling(3, 4, 0)
    assert _volume.library_ring(4, 4, 0) == _volume.ring(4, 4, 0)


def test_the_librarys_rabenseifner_goes_linearly_with_fewer_elements_than_halves() -> None:
    assert [_volume.library_rabenseifner(3, 5, rank) for rank in range(5)] == [(12, 4)] + [(3, 1)] * 4
    assert _volume.library_rabenseifner(4, 5, 4) == _volume.rabenseifner(4, 5, 4)
