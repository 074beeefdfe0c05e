"""The Keras trainer keeps every trainer's contract with every model, and says clearly what it cannot train."""

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
from dlbench.trainers.keras_tensorflow import OPTIMIZERS as ENGINE_OPTIMIZERS
from tests.unit.trainers import contract
from tests.unit.trainers.contract import Batch, create

KERAS = "keras_tensorflow"
WHAT = contract.problem(8, 8, 1)
# Name -> model, options, number of parameters on 8x8x1 images of 10 classes; no batch norm: samples are independent.
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "softmax": ("softmax", {}, 650),
    "mlp": ("mlp", {"hidden": (16, 9)}, 64 * 16 + 16 + 16 * 9 + 9 + 90 + 10),
    "cnn": ("cnn", {"filters": (4, 6)}, 9 * 4 + 4 + 9 * 4 * 6 + 6 + 2 * 2 * 6 * 10 + 10),
    "resnet20": ("resnet20", {"batch_norm": False, "width": 4, "num_blocks": 1}, 40 + 296 + 880 + 3488 + 170),
}
WITH_BATCH_NORM: dict[str, tuple[str, dict[str, Any]]] = {
    "cnn": ("cnn", {"filters": (4, 6), "batch_norm": True}),
    "resnet20": ("resnet20", {"width": 4, "num_blocks": 1}),
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


@pytest.mark.parametrize("check", contract.CHECKS)
def test_contract(check: Any, trained: tuple[Trainer, Any, int], given: Batch) -> None:
    trainer, first, size = trained
    trainer.set_parameters(first)
    assert trainer.num_parameters == size
    check(trainer, given)


@pytest.mark.parametrize("case", WITH_BATCH_NORM)
def test_batch_norm(case: str, given: Batch) -> None:
    """Gradients are right; statistics move in training, stay in evaluation, and come back."""
    trainer = create(KERAS, WITH_BATCH_NORM[case][0], WHAT, WITH_BATCH_NORM[case][1])
    contract.check_gradient_is_that_of_the_loss(trainer, given)
    moved = trainer.statistics()
    assert moved.size > 0
    trainer.evaluate(*given)
    assert np.array_equal(trainer.statistics(), moved)
    trainer.gradient(*given, 1.0)
    assert not np.array_equal(trainer.statistics(), moved)
    loss = trainer.evaluate(*given)[0]
    trainer.set_statistics(moved)
    assert np.array_equal(trainer.statistics(), moved)
    assert trainer.evaluate(*given)[0] != loss
    contract.check_evaluation_is_exact(trainer, given)


OPTIMIZERS: list[dict[str, Any]] = [
    {"optimizer": "sgd", "momentum": 0.9},
    {"optimizer": "sgd", "momentum": 0.9, "nesterov": True},
    {"optimizer": "rmsprop", "momentum": 0.9},
    *({"optimizer": name, "weight_decay": 0.1} for name in ENGINE_OPTIMIZERS),
]


@pytest.mark.parametrize("settings", OPTIMIZERS, ids=lambda s: "-".join(map(str, s.values())))
def test_optimizers(settings: dict[str, Any], given: Batch) -> None:
    contract.check_step_is_gradient_and_apply(lambda: create(KERAS, "mlp", WHAT, **settings), given)
    contract.check_memory_is_not_shared(create(KERAS, "mlp", WHAT, **settings), given)


@pytest.mark.parametrize("model", CASES)
def test_seed_decides_the_weights(model: str) -> None:
    contract.check_seed_decides_the_weights(KERAS, model, WHAT)


def test_resnet20_is_the_published_one() -> None:
    trainer = create(KERAS, "resnet20", contract.problem(32, 32, 3), precision="float32")
    assert trainer.num_parameters == 269_722
    assert trainer.flops_per_sample == 3 * 2 * 40_551_040
    assert trainer.statistics().size == 2 * (7 * 16 + 6 * 32 + 6 * 64)


@pytest.mark.parametrize(
    ("model", "products"), [("mlp", 64 * 128 + 1280), ("cnn", 64 * 9 * 32 + 16 * 9 * 32 * 64 + 2560)]
)
def test_cost_of_a_sample(model: str, products: int) -> None:
    assert create(KERAS, model, WHAT).flops_per_sample == 6 * products


def test_cost_of_a_layer_used_twice_counts_twice() -> None:
    assert own(shared_layer).flops_per_sample == 6 * (2 * 64 * 64 + 640)
    assert own(tiny).flops_per_sample == 6 * (64 * 5 + 50)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_precisions_keep_parameters_in_float32(precision: str, given: Batch) -> None:
    exact, rounded = create(KERAS, "cnn", WHAT), create(KERAS, "cnn", WHAT, precision=precision)
    rounded.set_parameters(exact.parameters().astype(np.float32))
    expected = contract.gradient(exact, *given, 1 / 12)
    flat = contract.gradient(rounded, *given, 1 / 12)
    assert flat.dtype == rounded.parameters().dtype == np.float32
    error = np.linalg.norm(flat - expected) / np.linalg.norm(expected)
    bounds = {"float32": (0.0, 1e-5), "mixed_bfloat16": (1e-4, 5e-2), "mixed_float16": (1e-5, 1e-2)}
    assert bounds[precision][0] <= error <= bounds[precision][1]
    before = rounded.evaluate(*given)[0]
    for _ in range(3):
        rounded.apply(rounded.gradient(*given, 1 / 12)[0], 0.05)
    assert rounded.evaluate(*given)[0] < before


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


def test_xla_computes_the_same(given: Batch) -> None:
    compiled, plain = create(KERAS, "mlp", WHAT, jit_compile=True), create(KERAS, "mlp", WHAT)
    np.testing.assert_allclose(
        contract.gradient(compiled, *given, 1.0), contract.gradient(plain, *given, 1.0), rtol=1e-10, atol=1e-12
    )
    for trainer in (compiled, plain):
        trainer.apply(trainer.gradient(*given, 0.1)[0], 0.1)
    assert compiled.evaluate(*given)[0] == pytest.approx(plain.evaluate(*given)[0], rel=1e-10)


def test_learning_rate_follows_every_change(given: Batch) -> None:
    trainer = create(KERAS, "softmax", WHAT)
    ones = np.ones(trainer.num_parameters)
    weights = trainer.parameters()
    for rate in (0.5, 0.5, 0.25, 0.5):
        trainer.apply(ones, rate)
    np.testing.assert_allclose(trainer.parameters(), weights - 1.75, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kinds", [(np.float32, np.int64), (np.float64, np.uint8), (np.uint8, np.int32)])
def test_stored_kinds_of_numbers(kinds: tuple[Any, Any], given: Batch) -> None:
    trainer = create(KERAS, "mlp", WHAT)
    x, y = given
    x, y = x.astype(kinds[0]), y.astype(kinds[1])
    x.flags.writeable = y.flags.writeable = False
    np.testing.assert_allclose(contract.gradient(trainer, x, y, 1.0), contract.gradient(trainer, *given, 1.0))


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


def shared_layer(problem: Problem) -> Any:
    import keras

    inputs = keras.layers.Input(problem.input_shape)
    x = keras.layers.Flatten()(inputs)
    dense = keras.layers.Dense(64)
    return keras.Model(inputs, keras.layers.Dense(problem.num_classes)(dense(dense(x))))


def with_softmax(problem: Problem) -> Any:
    import keras

    return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(problem.num_classes, activation="softmax")])


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


def test_evaluation_of_all_sizes_shares_one_trace_and_training_has_one_for_each() -> None:
    what = Problem((6,), 10)
    trainer = own(counted, what)
    model = trainer._graph._model
    x, y = contract.batch(what)
    trainer.evaluate(x, y)
    traced = model.calls
    for size in (1, 5, 7, 11):
        trainer.evaluate(x[:size], y[:size])
    assert model.calls == traced
    for scale in (0.5, 0.5, 1.0):
        trainer.gradient(x, y, scale)
    assert model.calls == traced + 1
    trainer.gradient(x[:5], y[:5], 1.0)
    assert model.calls == traced + 2


def test_sparse_gradients_and_unused_weights() -> None:
    """A sparse gradient becomes dense, an unused weight has one of zero; the cost of a sample is unknown."""
    what = Problem((6,), 10)
    trainer = own(counted, what)
    x, y = contract.batch(what)
    assert trainer.flops_per_sample is None
    contract.check_gradient_is_that_of_the_loss(trainer, (x, y))
    contract.check_shards_sum_to_the_whole(trainer, (x, y))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (with_softmax, "from_logits"),
        (one_logit, "logits of shape [n, 10]"),
        (other_input, "cannot take samples of shape [8, 8, 1]"),
        (no_model, "must return a keras.Model, not list"),
        (no_weights, "logits of shape [n, 10]"),
    ],
)
def test_own_models_that_cannot_be_trained(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(UserError, match="model") as caught:
        own(function)
    assert words in str(caught.value)


def test_what_it_cannot_do_is_refused() -> None:
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


def test_a_missing_tensorflow_is_said_plainly(tmp_path: Path) -> None:
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
