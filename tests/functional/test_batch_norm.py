"""Synchronised batch norm: N workers compute, in both directions, what one does on the joined batch.

Workers are threads here; their sum over workers waits for all of them, in the gradient too.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dlbench.models._layers import BatchNormOptions, synchronized_layer
from tests.unit.trainers import contract

pytestmark = pytest.mark.tensorflow

SIZES = (5, 4, 3)
TOLERANCES = {"float64": 1e-12, "float32": 2e-5}
PATIENCE_S = 60.0
Arrays = list[np.ndarray]


@pytest.fixture(autouse=True)
def started() -> None:
    contract.create("keras_tensorflow", "softmax", contract.problem(2))


class SyncPoint:
    """A sum over threads: each brings a tensor and takes the sum of all."""

    def __init__(self, size: int) -> None:
        self._barrier = threading.Barrier(size, timeout=PATIENCE_S)
        self._brought: list[Any] = [None] * size

    def sum(self, rank: int, value: Any) -> Any:
        import tensorflow as tf

        self._brought[rank] = value
        self._barrier.wait()
        total = tf.add_n(self._brought)
        self._barrier.wait()
        return total

    def reduce(self, rank: int) -> Callable[[Any], Any]:
        """Return the differentiable sum: its gradient is the sum of the workers' gradients."""
        import tensorflow as tf

        @tf.custom_gradient
        def reduce(value: Any) -> Any:
            return self.sum(rank, value), lambda upstream: self.sum(rank, upstream)

        return reduce


@dataclass(frozen=True)
class Seen:
    """What one worker computed."""

    outputs: np.ndarray
    input_gradient: np.ndarray
    weight_gradients: Arrays
    statistics: Arrays


def samples(dtype: str, offset: float = 0.0) -> np.ndarray:
    """Return images whose channels, and whose workers, have different means and variances."""
    random = np.random.default_rng(0)
    x = random.normal(size=(sum(SIZES), 2, 3, 4)) * [1.0, 2.0, 0.5, 3.0] + np.linspace(-2, 2, 12)[:, None, None, None]
    return (x + offset).astype(dtype)


def shards(x: np.ndarray) -> Arrays:
    return np.split(x, np.cumsum(SIZES)[:-1])


def pass_through(layer: Any, x: np.ndarray, weights: np.ndarray) -> Seen:
    """Go forward in training mode and back from the sum of weighted squares, twice, so that statistics move on."""
    import tensorflow as tf

    inputs = tf.constant(x)
    for _ in range(2):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs, training=True)
            objective = tf.reduce_sum(weights * outputs**3)
        variables = [v.value for v in layer.trainable_variables]
        gradients = tape.gradient(objective, [inputs, *variables])
    statistics = [v.numpy() for v in layer.non_trainable_variables]
    return Seen(outputs.numpy(), gradients[0].numpy(), [g.numpy() for g in gradients[1:]], statistics)


def batch_norm(dtype: str, reduce: Callable[[Any], Any] | None = None) -> Any:
    layer = synchronized_layer()(momentum=BatchNormOptions().batch_norm_momentum, dtype=dtype)
    layer.build((None, 2, 3, 4))
    layer.gamma.assign([1.0, 2.0, 0.5, 1.5])
    layer.beta.assign([0.0, 1.0, -1.0, 0.5])
    layer.reduce = reduce
    return layer


def alone(x: np.ndarray, weights: np.ndarray) -> Seen:
    """Return what Keras's own batch norm computes of everything at once."""
    import keras

    layer = keras.layers.BatchNormalization(momentum=0.9, dtype=str(x.dtype))
    layer.build((None, 2, 3, 4))
    layer.gamma.assign([1.0, 2.0, 0.5, 1.5])
    layer.beta.assign([0.0, 1.0, -1.0, 0.5])
    return pass_through(layer, x, weights)


def together(x: np.ndarray, weights: np.ndarray, is_synchronized: bool = True) -> list[Seen]:
    point = SyncPoint(len(SIZES))
    layers = [batch_norm(str(x.dtype), point.reduce(rank) if is_synchronized else None) for rank in range(len(SIZES))]
    with ThreadPoolExecutor(len(SIZES)) as pool:
        return list(pool.map(pass_through, layers, shards(x), shards(weights)))


def difference(seen: list[Seen], reference: Seen) -> float:
    """Return the largest relative difference of anything, workers' gradients of weights summed."""
    sums = [sum(parts) for parts in zip(*(one.weight_gradients for one in seen), strict=True)]
    pairs = [
        (np.concatenate([one.outputs for one in seen]), reference.outputs),
        (np.concatenate([one.input_gradient for one in seen]), reference.input_gradient),
        *zip(sums, reference.weight_gradients, strict=True),
        *(pair for one in seen for pair in zip(one.statistics, reference.statistics, strict=True)),
    ]
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def objective_weights(x: np.ndarray) -> np.ndarray:
    return np.random.default_rng(1).normal(size=x.shape).astype(x.dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_unequal_workers_equal_one_on_the_joined_batch(dtype: str) -> None:
    x = samples(dtype)
    seen = together(x, objective_weights(x))
    assert difference(seen, alone(x, objective_weights(x))) < TOLERANCES[dtype]
    # Statistics are the same on all workers, bit for bit.
    for first, *others in zip(*(one.statistics for one in seen), strict=True):
        assert all(np.array_equal(first, other) for other in others)


def test_without_the_reduction_they_differ() -> None:
    x = samples("float64")
    assert difference(together(x, objective_weights(x), False), alone(x, objective_weights(x))) > 0.1


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_one_worker_equals_local_batch_norm(dtype: str) -> None:
    x = samples(dtype)
    weights = objective_weights(x)
    for reduce in (None, lambda value: value):
        assert difference([pass_through(batch_norm(dtype, reduce), x, weights)], alone(x, weights)) < TOLERANCES[dtype]


def test_a_large_mean_costs_no_precision() -> None:
    """In float32, E[x^2] - E[x]^2 of numbers near 3000 would lose the variance altogether."""
    x = samples("float32", offset=3000.0)
    naive = (x**2).mean((0, 1, 2)) - x.mean((0, 1, 2)) ** 2
    exact = x.astype(np.float64).var((0, 1, 2))
    assert np.abs(naive / exact - 1).max() > 0.05
    outputs = np.concatenate([one.outputs for one in together(x, objective_weights(x))])
    wide = samples("float64", offset=3000.0)
    wide[:] = x
    assert np.abs(outputs - alone(wide, objective_weights(wide)).outputs).max() < 2e-3


def test_mixed_precision_computes_statistics_in_float32() -> None:
    import tensorflow as tf

    layer = batch_norm("mixed_bfloat16", lambda value: value)
    x = samples("float32")
    outputs = layer(x, training=True)
    assert outputs.dtype == tf.bfloat16
    assert {v.dtype for v in layer.variables} == {"float32"}
    rounded = tf.cast(x, tf.bfloat16).numpy().astype(np.float64)
    moved = layer.moving_mean.numpy()
    np.testing.assert_allclose(moved, 0.1 * rounded.mean((0, 1, 2)), rtol=1e-5)


def test_inference_uses_the_moving_statistics_and_no_sum_over_workers() -> None:
    def refuse(value: Any) -> Any:
        raise AssertionError("a worker must be able to evaluate alone")

    layer = batch_norm("float64", refuse)
    layer.moving_mean.assign([1.0, 2.0, 3.0, 4.0])
    x = samples("float64")
    expected = np.array([1.0, 2.0, 0.5, 1.5]) * (x - [1.0, 2.0, 3.0, 4.0]) / np.sqrt(1 + 1e-3) + [0.0, 1.0, -1.0, 0.5]
    np.testing.assert_allclose(np.asarray(layer(x, training=False)), expected, rtol=1e-12)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_compiled_step_takes_a_batch_of_any_size(jit_compile: bool) -> None:
    import tensorflow as tf

    layer = batch_norm("float64", lambda value: 1.0 * value)
    spec = tf.TensorSpec([None, 2, 3, 4], tf.float64)
    call = tf.function(lambda x: layer(x, training=True), [spec], autograph=False, jit_compile=jit_compile)
    for size in (12, 7):
        x = samples("float64")[:size]
        expected = batch_norm("float64")(x, training=True)
        np.testing.assert_allclose(call(x).numpy(), np.asarray(expected), rtol=1e-9, atol=1e-12)
