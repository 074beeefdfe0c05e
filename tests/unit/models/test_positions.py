"""The waves of sinusoidal positions are those of the paper."""

import math

import numpy as np

from dlbench.models._positions import waves


def test_columns_are_sines_and_cosines_of_falling_frequencies() -> None:
    table = waves(7, 6)
    assert table.shape == (7, 6)
    for position in range(7):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            assert math.isclose(table[position, 2 * i], math.sin(angle), abs_tol=1e-12)
            assert math.isclose(table[position, 2 * i + 1], math.cos(angle), abs_tol=1e-12)


def test_each_position_is_another() -> None:
    table = waves(500, 32)
    assert len(np.unique(table.round(6), axis=0)) == 500
