"""The optimizers follow their formulas, written out here number by number."""

from collections.abc import Callable

import numpy as np

from dlbench.trainers._flat_optimizers import Adam, DecoupledWeightDecay, FlatOptimizer, Sgd

GRADIENTS = np.random.default_rng(0).normal(size=(5, 3))
RATES = (0.1, 0.1, 0.05, 0.2, 0.1)


Change = Callable[[np.ndarray, np.ndarray, float], np.ndarray]


def sgd(momentum: float, look_ahead: bool = False) -> Change:
    velocity = np.zeros(3)

    def change(_: np.ndarray, gradient: np.ndarray, rate: float) -> np.ndarray:
        nonlocal velocity
        velocity = momentum * velocity - rate * gradient
        return momentum * velocity - rate * gradient if look_ahead else velocity

    return change


def adam() -> Change:
    mean, square, step = np.zeros(3), np.zeros(3), 0

    def change(_: np.ndarray, gradient: np.ndarray, rate: float) -> np.ndarray:
        nonlocal mean, square, step
        mean, square, step = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2, step + 1
        correction = np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        return -rate * correction * mean / (np.sqrt(square) + 1e-7)

    return change


def test_they_follow_their_formulas() -> None:
    formulas: dict[str, tuple[Callable[[np.ndarray], FlatOptimizer], Change]] = {
        "sgd": (lambda p: Sgd(p, 0.0), sgd(0.0)),
        "momentum": (lambda p: Sgd(p, 0.9), sgd(0.9)),
        "nesterov": (lambda p: Sgd(p, 0.9, nesterov=True), sgd(0.9, look_ahead=True)),
        "decay": (
            lambda p: DecoupledWeightDecay(Sgd(p, 0.0), 0.5),
            lambda p, gradient, rate: -rate * (0.5 * p + gradient),
        ),
        "adam": (Adam, adam()),
    }
    for name, (make, change) in formulas.items():
        parameters, expected = np.ones(3), np.ones(3)
        optimizer = make(parameters)
        for gradient, rate in zip(GRADIENTS, RATES, strict=True):
            given = gradient.copy()
            expected = expected + change(expected, gradient, rate)
            optimizer.apply(parameters, given, rate)
            assert np.array_equal(given, gradient), f"{name} leaves the gradient as it is"
        np.testing.assert_allclose(parameters, expected, rtol=1e-12, err_msg=name)
