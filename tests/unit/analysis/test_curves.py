"""Curves as vectors: medians, spread, every shuffle or drawn ones, resamples that stay at their place."""

import itertools

import numpy as np
import pytest

from dlbench.analysis.curves import (
    DRAWS,
    EXACT_UP_TO,
    Curves,
    between,
    curves,
    medians,
    resampled,
    shuffled,
    spreads,
    within,
)


def two() -> Curves:
    return curves({"up": [(1, [1.0, 2.0, 9.0]), (2, [4.0])], "out": [(1, [5.0]), (2, [6.0, 8.0])]})


def test_curves_lie_one_after_the_other() -> None:
    found = two()
    assert found.values.tolist() == [1, 2, 9, 4, 5, 6, 8]
    assert [curve.name for curve in found.curves] == ["up", "out"]
    assert [curve.places for curve in found.curves] == [(1.0, 2.0), (1.0, 2.0)]
    assert found.curves[1].positions.tolist() == [4, 5, 6]
    assert found.fewest == 1


def test_medians_and_spread_by_place() -> None:
    found = two()
    up, out = found.curves
    vectors = np.stack([found.values, found.values * 2])
    assert medians(vectors, up).tolist() == [[2, 4], [4, 8]]
    # |1 - 2| + |2 - 2| + |9 - 2| over 4 values at 2 places.
    assert spreads(vectors, up, up.positions).tolist() == [4.0, 8.0]
    assert spreads(vectors, out, out.positions).tolist() == [2.0, 4.0]


def test_one_repeat_everywhere_has_the_spread_one() -> None:
    found = curves({"": [(1, [5.0]), (2, [3.0])]})
    assert spreads(found.values[None, :], found.curves[0], found.positions).tolist() == [1.0]


def test_equal_repeats_have_a_spread_above_zero() -> None:
    found = curves({"": [(1, [5.0, 5.0]), (2, [3.0, 3.0])]})
    (spread,) = spreads(found.values[None, :], found.curves[0], found.positions)
    assert 0 < spread < 1e-6


def test_few_orders_are_all_looked_at_once() -> None:
    found = curves({"": [(1, [1.0]), (2, [2.0]), (3, [3.0])]})
    vectors, is_all = shuffled(found.values, within(found))
    assert is_all
    assert sorted(map(tuple, vectors.tolist())) == sorted(itertools.permutations([1.0, 2.0, 3.0]))


def test_two_curves_are_shuffled_each_by_itself_in_every_combination() -> None:
    found = curves({"a": [(1, [1.0]), (2, [2.0])], "b": [(1, [7.0]), (2, [8.0])]})
    vectors, is_all = shuffled(found.values, within(found))
    assert is_all
    assert sorted(map(tuple, vectors.tolist())) == [(1, 2, 7, 8), (1, 2, 8, 7), (2, 1, 7, 8), (2, 1, 8, 7)]


def test_between_two_curves_values_change_sides_at_their_place() -> None:
    found = curves({"a": [(1, [1.0]), (2, [2.0]), (4, [3.0])], "b": [(1, [7.0]), (2, [8.0])]})
    vectors, is_all = shuffled(found.values, between(found))
    assert is_all
    expected = [(1, 2, 3, 7, 8), (1, 8, 3, 7, 2), (7, 2, 3, 1, 8), (7, 8, 3, 1, 2)]
    assert sorted(map(tuple, vectors.tolist())) == expected


def test_many_orders_are_drawn_always_the_same() -> None:
    found = curves({"": [(1, list(range(5))), (2, list(range(5, 10)))]})
    vectors, is_all = shuffled(found.values, within(found))
    assert not is_all
    assert vectors.shape == (DRAWS, 10)
    assert DRAWS < EXACT_UP_TO
    assert (np.sort(vectors, axis=1) == np.arange(10)).all()
    assert (vectors == shuffled(found.values, within(found))[0]).all()
    # Every value comes to every position about equally often: 2,000 / 10, within five standard deviations.
    counts = np.array([[(vectors[:, position] == value).sum() for value in range(10)] for position in range(10)])
    assert abs(counts - DRAWS / 10).max() < 5 * (DRAWS * 0.1 * 0.9) ** 0.5


def test_resamples_stay_at_their_place() -> None:
    found = two()
    vectors = resampled(found)
    assert vectors.shape == (DRAWS, 7)
    for curve in found.curves:
        for cell in curve.cells:
            assert set(vectors[:, cell].ravel()) == set(found.values[cell])


def test_ratios_are_differences_of_logarithms() -> None:
    found = curves({"": [(1, [1.0]), (2, [np.e])]}).logarithms()
    assert found.values.tolist() == pytest.approx([0.0, 1.0])


def test_constant_curves_are_known() -> None:
    found = curves({"a": [(1, [2.0]), (2, [2.0])], "b": [(1, [3.0]), (2, [4.0])]})
    assert found.has_constant
    assert not found.is_constant
