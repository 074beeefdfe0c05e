"""The optimizers follow their formulas, written out here number by number."""

import numpy as np
import pytest

from dlbench.trainers._flat_optimizers import Adam, Decaying, FlatOptimizer, Sgd

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


def test_nesterov() -> None:
    parameters, expected, velocity = np.ones(3), np.ones(3), np.zeros(3)
    optimizer = Sgd(parameters, 0.9, nesterov=True)
    for gradient, rate in zip(GRADIENTS, RATES, strict=True):
        velocity = 0.9 * velocity - rate * gradient
        expected = expected + 0.9 * velocity - rate * gradient
        optimizer.apply(parameters, gradient, rate)
    np.testing.assert_allclose(parameters, expected, rtol=1e-14)


def test_weights_decay_before_the_step() -> None:
    parameters, expected = np.ones(3), np.ones(3)
    optimizer = Decaying(Sgd(parameters, 0.0), 0.5)
    for gradient, rate in zip(GRADIENTS, RATES, strict=True):
        expected = expected - rate * 0.5 * expected - rate * gradient
        optimizer.apply(parameters, gradient, rate)
    np.testing.assert_allclose(parameters, expected, rtol=1e-14)


MAKERS = {
    "sgd": lambda p: Sgd(p, 0.0),
    "momentum": lambda p: Sgd(p, 0.9),
    "nesterov": lambda p: Sgd(p, 0.9, nesterov=True),
    "adam": Adam,
    "adamw": lambda p: Decaying(Adam(p), 0.1),
}


def walk(optimizer: FlatOptimizer, parameters: np.ndarray, steps: slice) -> None:
    for gradient, rate in list(zip(GRADIENTS.astype(parameters.dtype), RATES, strict=True))[steps]:
        optimizer.apply(parameters, gradient, rate)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_another_one_goes_on_to_the_bit_from_its_state(name: str, dtype: type) -> None:
    parameters = np.ones(3, dtype)
    first = MAKERS[name](parameters)
    walk(first, parameters, slice(3))
    state, there = first.state(), parameters.copy()
    walk(first, parameters, slice(3, None))
    walk(other := MAKERS[name](there), there, slice(0))
    other.set_state(state)
    walk(other, there, slice(3, None))
    assert np.array_equal(there, parameters)
    assert np.array_equal(other.state(), first.state())
    assert state.dtype == np.float64
    with pytest.raises(ValueError, match="cannot be made from"):
        other.set_state(np.ones(state.size + 1))


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
