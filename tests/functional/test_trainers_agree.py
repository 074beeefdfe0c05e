"""Keras on TensorFlow and plain NumPy compute the same training from the same weights.

Their flat orders are the same, layer by layer: kernel [inputs, outputs] row by row, then bias. Nothing is transposed.
"""

from typing import Any

import numpy as np
import pytest

from dlbench.trainers import Problem
from tests.unit.trainers import contract
from tests.unit.trainers.contract import create

pytestmark = pytest.mark.tensorflow

WHAT = contract.problem(4, 5, 2)
MODELS: dict[str, tuple[str, dict[str, Any]]] = {"softmax": ("softmax", {}), "mlp": ("mlp", {"hidden": (16, 9)})}
# Every optimizer and setting once, on one of the models.
TRAJECTORIES: list[tuple[str, dict[str, Any]]] = [
    ("softmax", {"optimizer": "sgd"}),
    ("softmax", {"optimizer": "sgd", "momentum": 0.9}),
    ("mlp", {"optimizer": "sgd", "momentum": 0.9, "nesterov": True}),
    ("softmax", {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.1}),
    ("softmax", {"optimizer": "adam"}),
    ("softmax", {"optimizer": "adamw"}),
    ("mlp", {"optimizer": "adamw", "weight_decay": 0.1}),
]


def pair(model: str, what: Problem = WHAT, **settings: Any) -> tuple[Any, Any]:
    """Return both trainers with NumPy's weights."""
    name, options = MODELS[model]
    ours, theirs = (
        create("numpy", name, what, options, **settings),
        create("keras_tensorflow", name, what, options, **settings),
    )
    assert ours.num_parameters == theirs.num_parameters
    assert ours.flops_per_sample == theirs.flops_per_sample
    theirs.set_parameters(ours.parameters())
    return ours, theirs


@pytest.mark.parametrize("what", [WHAT, contract.regression(*WHAT.input_shape)], ids=["classes", "numbers"])
def test_gradient_and_evaluation(what: Problem) -> None:
    ours, theirs = pair("mlp", what)
    given = contract.batch(what, 30)
    (one, sums), (other, other_sums) = (trainer.gradient(*given, 1 / 30) for trainer in (ours, theirs))
    np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-13)
    assert sums == pytest.approx(other_sums, rel=1e-10)
    assert ours.evaluate(*given) == pytest.approx(theirs.evaluate(*given), rel=1e-12)


@pytest.mark.parametrize(("model", "settings"), TRAJECTORIES)
def test_trajectory(model: str, settings: dict[str, Any]) -> None:
    """Twenty steps with changing batches and rates end at the same weights, far from where they began."""
    ours, theirs = pair(model, **settings)
    first = ours.parameters()
    for step in range(20):
        given = contract.batch(WHAT, 8 + step % 2, seed=step)
        rate = 0.02 if step < 10 else 0.01
        for trainer in (ours, theirs):
            flat, _ = trainer.gradient(*given, 1 / len(given[1]))
            trainer.apply(flat, rate)
    np.testing.assert_allclose(ours.parameters(), theirs.parameters(), rtol=0, atol=1e-10)
    assert np.abs(ours.parameters() - first).max() > 1e-2


def test_float32_agrees_as_far_as_float32_goes() -> None:
    ours, theirs = pair("mlp", precision="float32")
    given = contract.batch(WHAT, 30)
    one, other = (contract.gradient(trainer, *given, 1 / 30) for trainer in (ours, theirs))
    assert np.abs(one - other).max() <= 1e-5 * np.abs(one).max()
    assert not np.array_equal(one, one.astype(np.float64) * (1 + 1e-4))
