"""L-BFGS in scalars: which direction, how long a step, and whether a trial point is accepted, from dot products alone.

Nocedal and Wright, "Numerical Optimization", 2006, algorithms 7.4 (the two-loop recursion), 3.5 and 3.6 (line search).
All vectors that the recursion makes are sums of the kept s and y and of the gradient, so that it needs no more than the
dot products of these (Chen, Wang and Zhou, "Large-scale L-BFGS using MapReduce", 2014). Whoever holds the vectors, or
parts of them, follows each `Move`.

A basis is [s of each slot, y of each slot, s, y, gradient], 2 history + 3 vectors. The last three are of the trial
point: its step from the point, what the gradient changed on it, and its gradient.
"""

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from dlbench.strategies import Array

# Of the decrease and of the slope that a step promises (Wolfe's conditions).
_DECREASE, _SLOPE = 1e-4, 0.9
# Of |s| |y|: a pair with a smaller s y has no curvature that rounding leaves.
_CURVATURE = 1e-12
# How much further the next trial is, at least and at most, where a step was too short.
_LEAST_GROWTH, _MOST_GROWTH = 2.0, 10.0
# What the next trial keeps from either end of a bracket, of its length.
_MARGIN = 0.1


class Move(NamedTuple):
    """What is to be done with the trial point that was evaluated, and which one is next.

    Attributes:
        is_accepted: Whether the trial point is the point from now on.
        slot: Where the trial's s and y are kept; None where they are not.
        step: The next trial point is point + step x direction.
        coefficients: Of the next direction, over the s and y of each slot and the point's gradient [2 history + 1];
            None where the direction stays.
    """

    is_accepted: bool
    slot: int | None
    step: float
    coefficients: Array | None


class Trial(NamedTuple):
    """A step along the direction, with loss and slope there."""

    step: float
    loss: float
    slope: float


class Lbfgs:
    """Minimises a loss; begins with the evaluation of the first point, which is the trial of a step of 0.

    Args:
        history: Pairs of s and y that are kept.
        first_step: Of a direction that is the negative gradient.
        max_trials: Evaluations along one direction after which it is given up.
        precision: The relative rounding of a loss: so much more is no increase.
    """

    def __init__(self, history: int, first_step: float, max_trials: int, precision: float) -> None:
        self._history, self._first_step = history, first_step
        self._max_trials, self._precision = max_trials, precision
        # Dot products of the basis, and the slots in use, the newest last.
        self._products: Array = np.zeros((2 * history + 3, 2 * history + 3))
        self._slots: deque[int] = deque(maxlen=history)
        self._squared_gradient = 0.0
        # The point on the line, the trial, and what brackets the step.
        self._point, self._step, self._trials = Trial(0.0, math.inf, 0.0), 0.0, 0
        self._low, self._high = self._point, self._point

    def next(self, loss: float, products: Array) -> Move:
        """Return the move that follows from a trial's loss and the dot products of its s, y, gradient with the basis.

        Args:
            loss: At the trial point.
            products: [3, 2 history + 3].
        """
        if not self._step:
            return self._accept(loss, products)
        trial = Trial(self._step, loss, float(products[2, -3]) / self._step)
        point = self._point
        is_lower = loss <= point.loss + _DECREASE * trial.step * point.slope + self._precision * abs(point.loss)
        self._trials += 1
        is_last = self._trials >= self._max_trials
        if is_lower and (is_last or trial.slope >= _SLOPE * point.slope):
            return self._accept(loss, products)
        if is_last and self._slots:
            self._slots.clear()
            return self._turn(is_accepted=False, slot=None)
        if is_lower:
            self._low = trial
        else:
            self._high = trial
        self._step = longer(point, trial) if self._high is point else between(self._low, self._high)
        return Move(False, None, self._step, None)

    def _accept(self, loss: float, products: Array) -> Move:
        """Let the trial be the point, and keep its s and y where they have curvature."""
        dots, slot = self._products, None
        dots[-3:], dots[:, -3:] = products, products.T
        if products[0, -2] > _CURVATURE * math.sqrt(products[0, -3] * products[1, -2]):
            slot = (self._slots[-1] + 1) % self._history if self._slots else 0
            self._slots.append(slot)
            for kept, new in ((slot, -3), (self._history + slot, -2)):
                dots[kept] = dots[new]
                dots[:, kept] = dots[:, new]
        self._squared_gradient = float(products[2, -1])
        self._point = Trial(0.0, loss, 0.0)
        return self._turn(is_accepted=True, slot=slot)

    def _turn(self, *, is_accepted: bool, slot: int | None) -> Move:
        """Begin a line search from the point."""
        coefficients = direction(self._products, self._slots)
        slope = float(coefficients @ self._products[-1])
        if not (self._slots and slope < 0):
            self._slots.clear()
            coefficients, slope = direction(self._products, ()), -self._squared_gradient
        self._point = self._point._replace(slope=slope)
        self._low = self._high = self._point
        self._step, self._trials = 1.0 if self._slots else self._first_step, 0
        return Move(is_accepted, slot, self._step, np.delete(coefficients, (-3, -2)))


def direction(products: Array, slots: deque[int] | tuple[int, ...]) -> Array:
    """Return the coefficients of -H x gradient over the basis, by the two-loop recursion.

    Args:
        products: Dot products of the basis, [n, n].
        slots: Those in use, the newest last.
    """
    first_y = (len(products) - 3) // 2
    coefficients, weights = np.zeros(len(products)), {}
    coefficients[-1] = 1.0
    for s in reversed(slots):
        weights[s] = (products[s] @ coefficients) / products[s, first_y + s]
        coefficients[first_y + s] -= weights[s]
    if slots:
        y = first_y + slots[-1]
        coefficients *= products[slots[-1], y] / products[y, y]
    for s in slots:
        y = first_y + s
        coefficients[s] += weights[s] - (products[y] @ coefficients) / products[s, y]
    return -coefficients


def longer(point: Trial, trial: Trial) -> float:
    """Return a longer step than one whose slope is still steep: to where the slope would be 0, within bounds."""
    change = trial.slope - point.slope
    growth = -point.slope / change if change > 0 else _MOST_GROWTH
    return trial.step * min(max(growth, _LEAST_GROWTH), _MOST_GROWTH)


def between(low: Trial, high: Trial) -> float:
    """Return a step inside a bracket: the minimum of the cubic through both ends, kept from them."""
    width = high.step - low.step
    bend = low.slope + high.slope - 3 * (high.loss - low.loss) / width
    root = bend * bend - low.slope * high.slope
    divisor = high.slope - low.slope + 2 * math.sqrt(root) if 0 <= root < math.inf else 0.0
    share = 1 - (high.slope + math.sqrt(root) - bend) / divisor if divisor > 0 else 0.5
    return low.step + width * min(max(share, _MARGIN), 1 - _MARGIN)
