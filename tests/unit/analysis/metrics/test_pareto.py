"""The front of two costs and its knee."""

import math

import numpy as np
import pytest

from dlbench.analysis.metrics.pareto import front, knee


def test_what_another_beats_or_equals_in_both_is_not_on_the_front() -> None:
    points = [(4.0, 1.0), (1.0, 4.0), (2.0, 2.0), (2.0, 3.0), (3.0, 2.0), (5.0, 5.0)]
    assert front(points) == [(1.0, 4.0), (2.0, 2.0), (4.0, 1.0)]


def test_points_that_coincide_are_one() -> None:
    assert front([(1.0, 1.0), (1.0, 1.0)]) == [(1.0, 1.0)]
    assert front([]) == []


def test_the_front_is_what_a_search_through_all_pairs_finds() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        points = [(float(x), float(y)) for x, y in generator.integers(1, 8, size=(12, 2))]
        beaten = {p for p in points for q in points if q != p and q[0] <= p[0] and q[1] <= p[1]}
        assert front(points) == sorted(set(points) - beaten)


def test_the_knee_lies_farthest_below_the_chord() -> None:
    ends = [(1.0, 100.0), (100.0, 1.0)]
    assert knee(sorted([*ends, (2.0, 8.0), (8.0, 7.0)])) == (2.0, 8.0)


def test_units_do_not_move_the_knee() -> None:
    points = [(1.0, 90.0), (2.0, 20.0), (5.0, 9.0), (30.0, 4.0)]
    scaled = [(1e-9 * x, 1e12 * y) for x, y in points]
    assert knee(points) == points[1]
    assert knee(scaled) == scaled[1]


def test_a_front_that_does_not_bend_has_no_knee() -> None:
    assert knee([]) is None
    assert knee([(1.0, 2.0)]) is None
    assert knee([(1.0, 2.0), (2.0, 1.0)]) is None
    assert knee([(1.0, 4.0), (2.0, 3.9), (4.0, 1.0)]) is None


def test_costs_have_logarithms() -> None:
    with pytest.raises(ValueError, match="above zero"):
        knee([(0.0, 2.0), (1.0, 1.0), (2.0, 0.5)])
    assert math.isfinite(knee([(1e-300, 1e300), (1e-10, 1e-10), (1e300, 1e-300)])[0])  # type: ignore[index]
