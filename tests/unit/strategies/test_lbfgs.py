"""The line search of L-BFGS, driven by a function of one number or two, without a server."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from dlbench.strategies._lbfgs import Lbfgs, Trial, between, longer

Array = np.ndarray


class Line:
    """Holds the vectors of one `Lbfgs`, as all servers do together."""

    def __init__(
        self, function: Callable[[Array], tuple[float, Array]], first: Array, lbfgs: Lbfgs, history: int
    ) -> None:
        self.function, self.lbfgs = function, lbfgs
        self.point, self.direction, self.gradient = first, np.zeros_like(first), np.zeros_like(first)
        self.step, self.basis, self.history = 0.0, np.zeros((2 * history + 3, first.size)), history
        self.accepted: list[float] = []

    def evaluate(self) -> None:
        s = self.step * self.direction
        loss, gradient = self.function(self.point + s)
        self.basis[-3:] = s, gradient - self.gradient, gradient
        move = self.lbfgs.next(loss, self.basis[-3:] @ self.basis.T)
        if move.is_accepted:
            self.point, self.gradient = self.point + s, gradient
            self.accepted.append(loss)
        if move.slot is not None:
            self.basis[move.slot], self.basis[self.history + move.slot] = self.basis[-3], self.basis[-2]
        if move.coefficients is not None:
            self.direction = move.coefficients[:-1] @ self.basis[:-3] + move.coefficients[-1] * self.gradient
        self.step = move.step


def rosenbrock(x: Array) -> tuple[float, Array]:
    a, b = 1 - x[0], x[1] - x[0] ** 2
    return a * a + 100 * b * b, np.array([-2 * a - 400 * x[0] * b, 200 * b])


def test_it_minimises_what_is_not_convex_whatever_the_first_step() -> None:
    for first_step in (1e-6, 1e-3, 1.0, 100.0):
        line = Line(rosenbrock, np.array([-1.2, 1.0]), Lbfgs(5, first_step, 10, 1e-16), 5)
        for _ in range(90):
            line.evaluate()
        np.testing.assert_allclose(line.point, [1, 1], rtol=1e-6)
        # Losses only fall.
        assert all(later <= earlier + 1e-15 for earlier, later in zip(line.accepted, line.accepted[1:], strict=False))


def test_a_quadratic_of_one_number_is_solved_by_its_first_pair() -> None:
    line = Line(lambda x: (1.5 * float(x[0]) ** 2, 3 * x), np.array([5.0]), Lbfgs(3, 0.1, 10, 1e-16), 3)
    for _ in range(3):
        line.evaluate()
    assert abs(line.point[0]) < 1e-12


def test_a_direction_that_fails_is_replaced_by_the_gradient() -> None:
    """Along a direction with no point that is lower, and from there on another function."""
    lbfgs = Lbfgs(3, 1.0, 3, 1e-16)
    line = Line(rosenbrock, np.array([-1.2, 1.0]), lbfgs, 3)
    while not lbfgs._slots:
        line.evaluate()
    sound, line.function = line.function, lambda x: (math.inf, np.ones(2))
    for _ in range(3):
        line.evaluate()
    assert not lbfgs._slots
    np.testing.assert_array_equal(line.direction, -line.gradient)
    line.function = sound
    before = line.accepted[-1]
    for _ in range(60):
        line.evaluate()
    assert line.accepted[-1] < 1e-3 * before


def test_a_pair_without_curvature_is_not_kept() -> None:
    """On a straight line the gradient never changes."""
    lbfgs = Lbfgs(3, 1.0, 2, 1e-16)
    line = Line(lambda x: (-float(x[0]), np.array([-1.0])), np.array([0.0]), lbfgs, 3)
    for _ in range(10):
        line.evaluate()
    assert not lbfgs._slots
    assert line.point[0] > 10


def test_at_the_minimum_nothing_moves() -> None:
    line = Line(lambda x: (float(x @ x), 2 * x), np.zeros(2), Lbfgs(3, 1.0, 5, 1e-16), 3)
    for _ in range(20):
        line.evaluate()
    assert line.point.tolist() == [0, 0]


def test_steps_are_longer_within_bounds() -> None:
    point = Trial(0.0, 1.0, -1.0)
    assert longer(point, Trial(0.5, 0.5, -2.0)) == 5.0  # steeper than at the point
    assert longer(point, Trial(0.5, 0.5, -0.99)) == 5.0
    assert longer(point, Trial(0.5, 0.5, -0.75)) == pytest.approx(2.0)
    assert longer(point, Trial(0.5, 0.5, -0.1)) == 1.0


def test_a_step_between_is_the_minimum_of_a_cubic_and_keeps_from_the_ends() -> None:
    # t^3 - t on [0.2, 2]: its minimum is at 1 / sqrt(3).
    low, high = (Trial(t, t**3 - t, 3 * t * t - 1) for t in (0.2, 2.0))
    assert between(low, high) == pytest.approx(1 / math.sqrt(3))
    assert between(Trial(0, 0, -1.0), Trial(1, -0.9, 1e-9)) == pytest.approx(0.9)
    assert between(Trial(0, 0, -1e-9), Trial(1, 1.0, 2.0)) == pytest.approx(0.1)
    assert between(Trial(0, 0, -1.0), Trial(1, math.nan, math.nan)) == 0.5
    assert between(Trial(0, 0, -1.0), Trial(1, math.inf, math.inf)) == 0.5
