"""Optimizers over one flat vector, in place; formulas and defaults are those of Keras 3, so that trajectories agree."""

from typing import Protocol

import numpy as np

from dlbench.trainers import Array


class FlatOptimizer(Protocol):
    """Changes parameters in place."""

    def apply(self, parameters: Array, gradient: Array, learning_rate: float) -> None:
        """Take one step; `gradient` is left as it is."""


class Sgd:
    """Stochastic gradient descent: v = momentum v - rate g; p += v (Polyak 1964; not Nesterov's)."""

    def __init__(self, parameters: Array, momentum: float) -> None:
        self._momentum = momentum
        self._velocity = np.zeros_like(parameters) if momentum else None
        self._change = np.empty_like(parameters)

    def apply(self, parameters: Array, gradient: Array, learning_rate: float) -> None:
        """Take one step."""
        np.multiply(gradient, learning_rate, out=self._change)
        if self._velocity is None:
            parameters -= self._change
            return
        self._velocity *= self._momentum
        self._velocity -= self._change
        parameters += self._velocity


class Adam:
    """Adam (Kingma and Ba 2015) in the form with both bias corrections in the rate; epsilon 1e-7 as in Keras."""

    def __init__(self, parameters: Array, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7) -> None:
        self._beta_1, self._beta_2, self._epsilon = beta_1, beta_2, epsilon
        self._mean = np.zeros_like(parameters)
        self._square = np.zeros_like(parameters)
        self._change = np.empty_like(parameters)
        self._root = np.empty_like(parameters)
        self._steps = 0

    def apply(self, parameters: Array, gradient: Array, learning_rate: float) -> None:
        """Take one step."""
        self._steps += 1
        change, root = self._change, self._root
        np.subtract(gradient, self._mean, out=change)
        change *= 1 - self._beta_1
        self._mean += change
        np.multiply(gradient, gradient, out=change)
        change -= self._square
        change *= 1 - self._beta_2
        self._square += change
        np.sqrt(self._square, out=root)
        root += self._epsilon
        np.divide(self._mean, root, out=change)
        change *= learning_rate * (1 - self._beta_2**self._steps) ** 0.5 / (1 - self._beta_1**self._steps)
        parameters -= change
