"""The front of two costs and its knee."""

import numpy as np

from dlbench.analysis.metrics.pareto import front, knee


def test_the_front_is_what_a_search_through_all_pairs_finds() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        points = [(float(x), float(y)) for x, y in generator.integers(1, 8, size=(12, 2))]
        beaten = {p for p in points for q in points if q != p and q[0] <= p[0] and q[1] <= p[1]}
        assert front(points) == sorted(set(points) - beaten)
    assert front([]) == []


def test_the_knee_lies_farthest_below_the_chord_whatever_the_units() -> None:
    points = [(1.0, 100.0), (2.0, 8.0), (8.0, 7.0), (100.0, 1.0)]
    for x, y in ((1.0, 1.0), (1e-9, 1e12), (1e298, 1e-298)):
        scaled = [(x * time, y * cost) for time, cost in points]
        assert knee(scaled) == scaled[1]


def test_a_front_that_does_not_bend_has_no_knee() -> None:
    straight = [(1.0, 4.0), (2.0, 3.9), (4.0, 1.0)]
    assert [knee(points) for points in ([], straight[:1], straight[:2], straight)] == [None] * 4
