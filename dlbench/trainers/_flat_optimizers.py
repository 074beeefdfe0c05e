"""Optimizers over one flat vector, in place; formulas and defaults are those of Keras 3, so that trajectories agree."""

from typing import Protocol

import numpy as np

from dlbench.errors import UserError, nearest
from dlbench.scenario.settings import Settings
from dlbench.trainers import Array, unflatten

# Names of optimizers that there are for a flat vector.
FLAT_OPTIMIZERS = ("sgd", "adam", "adamw")


class FlatOptimizer(Protocol):
    """Changes parameters in place."""

    def apply(self, parameters: Array, gradient: Array, learning_rate: float) -> None:
        """Take one step; `gradient` is left as it is."""

    def state(self) -> Array:
        """Return a copy of its state, flat float64."""

    def set_state(self, flat: Array) -> None:
        """Overwrite its state."""


class Sgd:
    """Stochastic gradient descent: v = momentum v - rate g; p += v (Polyak 1964).

    Nesterov's looks one step ahead: p += momentum v - rate g, with the new v (Sutskever et al. 2013).
    """

    def __init__(self, parameters: Array, momentum: float, nesterov: bool = False) -> None:
        self._momentum, self._nesterov = momentum, nesterov
        self._velocity = np.zeros_like(parameters if momentum else parameters[:0])
        self._change = np.empty_like(parameters)

    def apply(self, parameters: Array, gradient: Array, learning_rate: float) -> None:
        """Take one step."""
        velocity, change = self._velocity, self._change
        np.multiply(gradient, learning_rate, out=change)
        if velocity.size:
            velocity *= self._momentum
            velocity -= change
        if not velocity.size or self._nesterov:
            parameters -= change
        if velocity.size:
            parameters += np.multiply(velocity, self._momentum, out=change) if self._nesterov else velocity

    def state(self) -> Array:
        """Return the velocity."""
        return self._velocity.astype(np.float64)

    def set_state(self, flat: Array) -> None:
        """Overwrite the velocity."""
        _fill([self._velocity], flat)


class Adam:
    """Adam (Kingma and Ba 2015) in the form with both bias corrections in the rate; epsilon 1e-7 as in Keras."""

    def __init__(self, parameters: Array, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7) -> None:
        self._beta_1, self._beta_2, self._epsilon = beta_1, beta_2, epsilon
        self._mean = np.zeros_like(parameters)
        self._square = np.zeros_like(parameters)
        self._change = np.empty_like(parameters)
        self._root = np.empty_like(parameters)
        self._steps = np.zeros(1, np.int64)

    def apply(self, parameters: Array, gradient: Array, learning_rate: float) -> None:
        """Take one step."""
        self._steps += 1
        steps = int(self._steps[0])
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
        change *= learning_rate * (1 - self._beta_2**steps) ** 0.5 / (1 - self._beta_1**steps)
        parameters -= change

    def state(self) -> Array:
        """Return both means and the number of steps."""
        return np.concatenate([self._mean, self._square, self._steps]).astype(np.float64)

    def set_state(self, flat: Array) -> None:
        """Overwrite both means and the number of steps."""
        _fill([self._mean, self._square, self._steps], flat)


class DecoupledWeightDecay:
    """Decoupled weight decay before another optimizer's step: p -= rate x decay x p (Loshchilov and Hutter 2019)."""

    def __init__(self, inner: FlatOptimizer, weight_decay: float) -> None:
        self._inner, self._weight_decay = inner, weight_decay
        self.state, self.set_state = inner.state, inner.set_state

    def apply(self, parameters: Array, gradient: Array, learning_rate: float) -> None:
        """Let the weights decay, and take the other's step from there."""
        parameters *= 1 - learning_rate * self._weight_decay
        self._inner.apply(parameters, gradient, learning_rate)


def make_flat_optimizer(settings: Settings, parameters: Array) -> FlatOptimizer:
    """Return the run's optimizer for a flat vector; `adamw` is Adam, since weight decay is decoupled for all.

    Raises:
        UserError: There is none of this name.
    """
    if settings.optimizer not in FLAT_OPTIMIZERS:
        raise UserError(
            f"a flat vector has no optimizer {settings.optimizer!r}; it has: {', '.join(FLAT_OPTIMIZERS)}",
            hint=nearest(settings.optimizer, FLAT_OPTIMIZERS),
        )
    plain: FlatOptimizer = Adam(parameters)
    if settings.optimizer == "sgd":
        plain = Sgd(parameters, settings.momentum, settings.nesterov)
    return DecoupledWeightDecay(plain, settings.weight_decay) if settings.weight_decay else plain


def _fill(slots: list[Array], flat: Array) -> None:
    size = sum(slot.size for slot in slots)
    if flat.size != size:
        raise ValueError(f"an optimizer's state of {size} numbers cannot be made from {flat.size}")
    for slot, part in zip(slots, unflatten(flat, [slot.shape for slot in slots]), strict=True):
        slot[...] = part
