"""Margins: all above zero where a shape is there, and below it at the place where it is not."""

import math

import numpy as np
import pytest

from dlbench.analysis.curves import curves
from dlbench.analysis.shapes import FORMS, labels, margins, scales
from dlbench.scenario.claims import NEEDED, Claim, Shape

VALUES = {"of": "train_accuracy", "series": "out", "than": "up", "beyond": 4.0, "most": 0.05}


def claim(shape: Shape, **values: object) -> Claim:
    needed = {name: VALUES[name] for name in NEEDED.get(shape, ())}
    return Claim(claim=shape, column="train_loss", **{**needed, **values})


def seen(shape: Shape, *points: list[float], places: tuple[float, ...] = (1, 2, 4, 8, 16, 32)) -> list[float]:
    found = curves(
        {str(number): [(x, [y]) for x, y in zip(places, one, strict=False)] for number, one in enumerate(points)}
    )
    asked = claim(shape)
    made = margins(asked, found, found.values[None, :])
    assert made.shape == (1, len(labels(asked, found))) == scales(asked, found, found.values[None, :]).shape
    return made[0].tolist()


def test_falls_at_each_step() -> None:
    assert seen(Shape.FALLS, [9, 5, 2, 1]) == [4, 3, 1]
    assert seen(Shape.FALLS, [9, 5, 6, 1]) == [4, -1, 5]


def test_gains_shrink_and_stay_gains() -> None:
    assert seen(Shape.GAINS_SHRINK, [9, 5, 2, 1]) == [1, 2, 1]
    assert seen(Shape.GAINS_SHRINK, [9, 6, 2, 1]) == [-1, 3, 1]
    # Gains that shrink below nothing are none.
    assert min(seen(Shape.GAINS_SHRINK, [9, 5, 4, 5])) == -1


def test_a_plateau_is_two_inner_neighbours() -> None:
    assert seen(Shape.RISES_AND_FALLS, [1, 5, 7, 8, 4]) == [6, 3]
    # A single peak is no plateau: its better neighbour counts.
    assert seen(Shape.RISES_AND_FALLS, [1, 2, 9, 2, 3]) == [1, -1]
    assert seen(Shape.RISES_AND_FALLS, [9, 8, 7, 6]) == [-2, 1]
    assert seen(Shape.RISES_AND_FALLS, [6, 7, 8, 9]) == [1, -2]


def test_a_mirror_image_goes_the_other_way_at_each_step_that_is_one() -> None:
    assert seen(Shape.MIRRORS, [9, 5, 2, 4], [1, 3, 8, 6]) == [8, 15, 4]
    assert min(seen(Shape.MIRRORS, [9, 5, 2, 1], [1, 3, 8, 6])) == -2
    # 0.1 and 0.2 are less than a twentieth of the largest steps: flat, whichever way they go.
    assert seen(Shape.MIRRORS, [9, 5, 5.1, 8], [1, 5, 5.1, 2]) == [16, math.inf, pytest.approx(2.9 * 3.1)]
    # Where one of both moves the other has to follow.
    assert seen(Shape.MIRRORS, [9, 5, 5, 8], [1, 5, 7, 2])[1] == 0


def test_comparisons_are_ratios() -> None:
    out, up = [math.log(2), math.log(1.5), math.log(1.2), math.log(0.9)], [0.0] * 4
    assert seen(Shape.SPEEDS_UP, out) == [pytest.approx(math.log(2 / 0.9))]
    assert seen(Shape.STARTS_BEHIND, out, up) == [pytest.approx(math.log(2))]
    assert seen(Shape.CLOSES_IN, out, up) == [pytest.approx(math.log(2)), pytest.approx(math.log(2 / 0.9))]
    assert seen(Shape.CLOSES_IN, up, out)[0] < 0
    assert seen(Shape.OVERTAKES, out, up) == [pytest.approx(-math.log(0.9))]
    assert seen(Shape.OVERTAKES, out[:3], up[:3]) == []


def test_slightly_is_not_much() -> None:
    assert seen(Shape.SLIGHTLY_BETTER, [0.9, 0.5, 0.92]) == pytest.approx([0.02, 0.03])
    assert min(seen(Shape.SLIGHTLY_BETTER, [0.9, 0.5, 0.97])) < 0
    assert min(seen(Shape.SLIGHTLY_BETTER, [0.9, 0.5, 0.89])) < 0


def test_what_is_claimed_of_every_series_has_the_margins_of_each() -> None:
    found = curves({"up": [(1, [5.0]), (2, [3.0])], "out": [(1, [9.0]), (2, [10.0]), (4, [4.0])]})
    asked = claim(Shape.FALLS)
    assert margins(asked, found, found.values[None, :]).tolist() == [[2, -1, 6]]
    assert labels(asked, found) == ("up, from 1 to 2", "out, from 1 to 2", "out, from 2 to 4")


def test_margins_are_made_from_medians_for_many_draws_at_once() -> None:
    found = curves({"": [(1, [1.0, 9.0, 8.0]), (2, [2.0, 2.0, 7.0]), (4, [1.0])]})
    vectors = np.stack([found.values, -found.values])
    assert margins(claim(Shape.FALLS), found, vectors).tolist() == [[6, 1], [-6, -1]]


@pytest.mark.parametrize("shape", Shape)
def test_margins_that_are_scaled_do_not_know_the_unit(shape: Shape) -> None:
    def clarity(factor: float) -> np.ndarray:
        points = {
            name: [(x, [factor * (level + shift * x) for level in (1.0, 1.1, 1.3)]) for x in (1, 2, 4, 8)]
            for name, shift in (("a", 0.3), ("b", -0.1))
        }
        found = curves(points)
        asked = claim(shape, **({"most": 50 * factor} if shape is Shape.SLIGHTLY_BETTER else {}))
        vectors = found.values[None, :]
        return margins(asked, found, vectors) / scales(asked, found, vectors)

    assert clarity(1000.0) == pytest.approx(clarity(1.0))


def test_every_claim_has_a_form() -> None:
    assert set(FORMS) == set(Shape)
