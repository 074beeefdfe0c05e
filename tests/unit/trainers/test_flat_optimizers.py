"""The optimizers follow their formulas, written out here number by number."""

import numpy as np
import pytest

from dlbench.trainers._flat_optimizers import Adam, Sgd

GRADIENTS = np.random.default_rng(0).normal(size=(5, 3))
RATES = (0.1, 0.1, 0.05, 0.2, 0.1)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd(momentum: float) -> None:
    parameters, expected, velocity = np.ones(3), np.ones(3), np.zeros(3)
    optimizer = Sgd(parameters, momentum)
    for gradient, rate in zip(GRADIENTS, RATES, strict=True):
        velocity = momentum * velocity - rate * gradient
        expected = expected + velocity
        optimizer.apply(parameters, gradient, rate)
    np.testing.assert_allclose(parameters, expected, rtol=1e-14)


def test_adam() -> None:
    parameters, expected, mean, square = np.ones(3), np.ones(3), np.zeros(3), np.zeros(3)
    optimizer = Adam(parameters)
    for step, (gradient, rate) in enumerate(zip(GRADIENTS, RATES, strict=True), start=1):
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        correction = np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        expected = expected - rate * correction * mean / (np.sqrt(square) + 1e-7)
        optimizer.apply(parameters, gradient, rate)
    np.testing.assert_allclose(parameters, expected, rtol=1e-12)


def test_the_gradient_is_left_as_it_is() -> None:
    gradient = GRADIENTS[0].copy()
    for optimizer in (Sgd(gradient, 0.9), Adam(gradient)):
        optimizer.apply(np.ones(3), gradient, 0.1)
    assert np.array_equal(gradient, GRADIENTS[0])
