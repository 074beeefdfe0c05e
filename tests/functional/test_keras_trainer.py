"""The Keras trainer keeps every trainer's contract with every model, and reports clearly what it cannot train."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlbench.errors import UserError
from dlbench.plugins import Options, Plugin
from dlbench.plugins import load as load_plugin
from dlbench.scenario.settings import Settings
from dlbench.trainers import Problem, Trainer
from tests.unit.trainers import contract
from tests.unit.trainers.contract import Batch, create

KERAS = "keras_tensorflow"
WHAT = contract.problem(8, 8, 1)
# Name -> model, options, number of parameters on 8x8x1 images of 10 classes; no batch norm: samples are independent.
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "mlp": ("mlp", {"hidden": (16, 9)}, 64 * 16 + 16 + 16 * 9 + 9 + 90 + 10),
    "cnn": ("cnn", {"filters": (4, 6)}, 9 * 4 + 4 + 9 * 4 * 6 + 6 + 2 * 2 * 6 * 10 + 10),
}


@pytest.fixture
def given() -> Batch:
    return contract.batch(WHAT)


@pytest.fixture(scope="module", params=CASES)
def trained(request: pytest.FixtureRequest) -> tuple[Trainer, Any, int]:
    """Return a trainer, its first weights and its number of parameters: tracing once serves all checks."""
    model, options, size = CASES[request.param]
    trainer = create(KERAS, model, WHAT, options)
    return trainer, trainer.parameters(), size


def test_contract(trained: tuple[Trainer, Any, int], given: Batch) -> None:
    trainer, first, size = trained
    assert trainer.num_parameters == size
    for check in contract.CHECKS:
        trainer.set_parameters(first)
        check(trainer, given)


def test_batch_norm(given: Batch) -> None:
    """Gradients are right; statistics move in training, stay in evaluation, and come back."""
    trainer = create(KERAS, "cnn", WHAT, {"filters": (4, 6), "batch_norm": True})
    contract.check_gradient_is_that_of_the_loss(trainer, given)
    moved = trainer.state("statistics")["statistics"]
    assert moved.size > 0
    trainer.evaluate(*given)
    assert np.array_equal(trainer.state("statistics")["statistics"], moved)
    trainer.gradient(*given, 1.0)
    assert not np.array_equal(trainer.state("statistics")["statistics"], moved)
    loss = trainer.evaluate(*given)["loss"]
    trainer.set_state({"statistics": moved})
    assert np.array_equal(trainer.state("statistics")["statistics"], moved)
    assert trainer.evaluate(*given)["loss"] != loss
    contract.check_evaluation_is_exact(trainer, given)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"optimizer": "sgd", "momentum": 0.9, "nesterov": True}, marks=pytest.mark.soak),
        pytest.param({"optimizer": "rmsprop", "momentum": 0.9}, marks=pytest.mark.soak),
        {"optimizer": "adamw", "weight_decay": 0.1},
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)
def test_a_step_is_gradient_and_apply(settings: dict[str, Any], given: Batch) -> None:
    contract.check_step_is_gradient_and_apply(lambda: create(KERAS, "mlp", WHAT, **settings), given)


def test_the_device_gathers_as_the_processor_does(given: Batch) -> None:
    trainer = create(KERAS, "mlp", WHAT)
    contract.check_the_device_gathers_as_the_processor_does(trainer)
    contract.check_a_batch_on_the_device_trains_as_an_array(trainer, given)


def test_seed_decides_the_weights() -> None:
    contract.check_seed_decides_the_weights(KERAS, "cnn", WHAT)


def test_cost_of_a_sample() -> None:
    assert create(KERAS, "mlp", WHAT).flops_per_sample == 6 * (64 * 128 + 1280)
    assert create(KERAS, "cnn", WHAT).flops_per_sample == 6 * (64 * 9 * 32 + 16 * 9 * 32 * 64 + 2560)
    assert own(tiny).flops_per_sample == 6 * (64 * 5 + 50)


def test_float16_scales_its_losses_and_skips_what_is_not_finite(given: Batch) -> None:
    """A gradient below float16's smallest number survives; an infinite one changes nothing."""
    trainer = create(KERAS, "mlp", WHAT, precision="mixed_float16")
    mean = contract.gradient(trainer, *given, 2.0**-4)
    tiny = contract.gradient(trainer, *given, 2.0**-28)
    assert np.isfinite(mean).all()
    assert np.linalg.norm(tiny * 2.0**24 - mean) <= 0.05 * np.linalg.norm(mean)
    weights = trainer.parameters()
    trainer.apply(np.full(trainer.num_parameters, np.inf, np.float32), 0.1)
    assert np.array_equal(trainer.parameters(), weights)
    trainer.apply(mean, 0.125)
    np.testing.assert_allclose(trainer.parameters(), weights - 0.125 * mean, rtol=1e-6, atol=1e-7)
    assert trainer.num_updates == 1
    assert create(KERAS, "mlp", WHAT).num_updates is None


def test_learning_rate_follows_every_change(given: Batch) -> None:
    trainer = create(KERAS, "softmax", WHAT)
    ones = np.ones(trainer.num_parameters)
    weights = trainer.parameters()
    for rate in (0.5, 0.5, 0.25, 0.5):
        trainer.apply(ones, rate)
    np.testing.assert_allclose(trainer.parameters(), weights - 1.75, rtol=0, atol=1e-14)


def test_stored_kinds_of_numbers(given: Batch) -> None:
    trainer = create(KERAS, "softmax", WHAT)
    expected = contract.gradient(trainer, *given, 1.0)
    for kinds in ((np.float32, np.int64), (np.float64, np.uint8), (np.uint8, np.int32)):
        x, y = (part.astype(kind) for part, kind in zip(given, kinds, strict=True))
        x.flags.writeable = y.flags.writeable = False
        np.testing.assert_allclose(contract.gradient(trainer, x, y, 1.0), expected, err_msg=str(kinds))


def test_facts(given: Batch) -> None:
    import keras
    import tensorflow as tf

    facts = create(KERAS, "mlp", WHAT).facts()
    assert facts["keras_version"] == keras.version()
    assert facts["tensorflow_version"] == tf.__version__
    assert facts["backend"] == "tensorflow"
    assert (facts["intra_op_threads"], facts["inter_op_threads"]) == (1, 1)
    assert facts["device_name"]


# A user's own models: functions of a problem and of keyword options.


def own(function: Callable[..., Any], given_problem: Problem = WHAT, **options: object) -> Any:
    """Return a trainer of a user's own function, as `package.module:function` would load it."""
    plugin = load_plugin("models", f"{__name__}:{function.__name__}")
    assert isinstance(plugin, Plugin)
    settings = Settings(model=plugin.name, precision="float64")
    return load_plugin("trainers", KERAS).get("create")(
        settings, plugin, plugin.options(**options), Options(), given_problem, 0, contract.THREADS
    )


def tiny(problem: Problem, *, width: int = 5) -> Any:
    import keras

    return keras.Sequential(
        [
            keras.layers.Flatten(),
            keras.layers.Dense(width, activation="tanh"),
            keras.layers.Dense(problem.num_classes, kernel_regularizer=keras.regularizers.L2(0.125)),
        ]
    )


def with_softmax(problem: Problem) -> Any:
    import keras

    return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(problem.num_classes, activation="softmax")])


def with_softmax_before_others(problem: Problem) -> Any:
    import keras

    ends = [keras.layers.Lambda(keras.ops.softmax), keras.layers.Dropout(0.1), keras.layers.Activation("linear")]
    return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(problem.num_classes), *ends])


def with_relu_before_others(problem: Problem) -> Any:
    import keras

    ends = [keras.layers.ReLU(), keras.layers.Dropout(0.1)]
    return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(problem.num_classes), *ends])


def one_logit(problem: Problem) -> Any:
    import keras

    return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])


def other_input(problem: Problem) -> Any:
    import keras

    return keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(problem.num_classes)])


def no_model(problem: Problem) -> Any:
    return [problem]


def no_weights(problem: Problem) -> Any:
    import keras

    return keras.Sequential([keras.layers.Flatten()])


def counted(problem: Problem) -> Any:
    """Return a model that counts how often Python runs it, and holds a weight that it does not use."""
    import keras

    class Counted(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.flatten = keras.layers.Flatten()
            self.words = keras.layers.Embedding(256, 3)
            self.dense = keras.layers.Dense(problem.num_classes)
            self.unused = self.add_weight(shape=(2,), name="unused")

        def call(self, x: Any) -> Any:
            self.calls += 1
            return self.dense(self.flatten(self.words(self.flatten(x))))

    return Counted()


def test_own_model_with_options_and_regularisation(given: Batch) -> None:
    """Regularisation counts once over all shards, and is no part of the reported loss."""
    trainer = own(tiny, width=7)
    assert trainer.num_parameters == 64 * 7 + 7 + 80
    contract.check_shards_sum_to_the_whole(trainer, given)
    flat = contract.gradient(trainer, *given, 1 / 12)
    kernel = slice(64 * 7 + 7, 64 * 7 + 7 + 70)
    alone = contract.gradient(trainer, given[0][:1], given[1][:1], 1.0)[kernel]
    assert np.isfinite(alone).all()
    weights = trainer.parameters()
    data_only = create_without_regularisation(weights)
    difference = flat - contract.gradient(data_only, *given, 1 / 12)
    np.testing.assert_allclose(difference[kernel], 0.25 * weights[kernel], rtol=1e-9, atol=1e-12)
    assert trainer.gradient(*given, 1.0)[1] == pytest.approx(data_only.gradient(*given, 1.0)[1], rel=1e-12)


def plain_tiny(problem: Problem) -> Any:
    import keras

    dense = keras.layers.Dense
    return keras.Sequential([keras.layers.Flatten(), dense(7, activation="tanh"), dense(problem.num_classes)])


def create_without_regularisation(weights: Any) -> Any:
    trainer = own(plain_tiny)
    trainer.set_parameters(weights)
    return trainer


def test_evaluation_shares_one_trace_and_training_has_one_for_each_size_and_scale() -> None:
    what = Problem((6,), 10)
    trainer = own(counted, what)
    model = trainer._graph._model
    x, y = contract.batch(what)
    trainer.evaluate(x, y)
    traced = model.calls
    for size in (1, 5, 7, 11):
        trainer.evaluate(x[:size], y[:size])
    assert model.calls == traced
    for size, scale, traces in ((11, 0.5, 1), (11, 0.5, 1), (11, 1.0, 2), (5, 1.0, 3), (11, 0.5, 3)):
        trainer.gradient(x[:size], y[:size], scale)
        assert model.calls == traced + traces


def test_sparse_gradients_and_unused_weights() -> None:
    """A sparse gradient becomes dense, an unused weight has one of zero; the cost of a sample is unknown."""
    what = Problem((6,), 10)
    trainer = own(counted, what)
    x, y = contract.batch(what)
    assert trainer.flops_per_sample is None
    contract.check_gradient_is_that_of_the_loss(trainer, (x, y))
    contract.check_shards_sum_to_the_whole(trainer, (x, y))


def test_own_models_that_cannot_be_trained() -> None:
    for function, words in (
        (with_softmax, "from_logits"),
        (with_softmax_before_others, "from_logits"),
        (one_logit, "outputs of shape [n, 10]"),
        (other_input, "cannot take samples of shape [8, 8, 1]"),
        (no_model, "must return a keras.Model, not list"),
        (no_weights, "outputs of shape [n, 10]"),
    ):
        with pytest.raises(UserError, match="model") as caught:
            own(function)
        assert words in str(caught.value), function.__name__
    own(with_relu_before_others)


def test_unsupported_settings_are_refused() -> None:
    assert "did you mean 'adam'?" in contract.refused(KERAS, "mlp", WHAT, optimizer="adan")
    assert "not samples of shape [64]" in contract.refused(KERAS, "cnn", contract.problem(64))


def test_starts_silently_and_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from tests.unit.trainers.contract import *\n"
        "trainer = create('keras_tensorflow', 'mlp', problem(8, 8, 1))\n"
        "trainer.apply(trainer.gradient(*batch(problem(8, 8, 1)), 1.0)[0], 0.1)\n"
        "assert not {'pandas', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "import pandas\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("KERAS", "TF_", "XDG"))}
    environment |= {"HOME": str(tmp_path), "DLBENCH_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / ".keras").exists()


def test_a_missing_tensorflow_is_reported_with_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['tensorflow'] = None\n"
        "from tests.unit.trainers.contract import *\n"
        "print(refused('keras_tensorflow', 'mlp', problem(8, 8, 1)))\n"
    )
    environment = os.environ | {"DLBENCH_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "dlbench[cpu]" in done.stdout
