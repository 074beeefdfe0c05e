"""What the Keras engine does beside a plain step: parts, precisions, XLA, resuming, tokens, and sums over workers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dlbench.errors import UserError
from dlbench.plugins import Options, load
from dlbench.scenario.settings import Settings
from dlbench.trainers import Array, Problem, unflatten
from dlbench.trainers.keras_tensorflow import OPTIMIZERS
from tests.unit.trainers import contract
from tests.unit.trainers.contract import Batch, create

pytestmark = pytest.mark.tensorflow

KERAS = "keras_tensorflow"
WHAT = contract.problem(8, 8, 1)


@pytest.fixture
def given() -> Batch:
    return contract.batch(WHAT)


def own(function: Callable[..., Any], what: Problem = WHAT, **settings: Any) -> Any:
    """Return a trainer of a model of this file, as `package.module:function` would load it."""
    plugin = load("models", f"{__name__}:{function.__name__}")
    made = Settings.model_validate({"model": plugin.name, "precision": "float64", "seed": 7} | settings)
    return load("trainers", KERAS).get("create")(
        made, plugin, plugin.options(), Options(), what, made.seed, contract.THREADS
    )


def with_everything(problem: Problem) -> Any:
    """Return a model that remembers more than its weights: moving statistics, and two random generators."""
    import keras

    layers = keras.layers
    inner = keras.Sequential([layers.Dropout(0.4), layers.BatchNormalization()])
    return keras.Sequential([layers.Flatten(), layers.GaussianNoise(0.1), inner, layers.Dense(problem.num_classes)])


# Accumulated gradients.


def test_parts_count_regularisation_once(given: Batch) -> None:
    contract.check_parts_sum_to_the_whole(lambda **more: own(regularised, **more), given)


def regularised(problem: Problem) -> Any:
    import keras

    layers, l2 = keras.layers, keras.regularizers.L2(0.125)
    return keras.Sequential([layers.Flatten(), layers.Dense(problem.num_classes, kernel_regularizer=l2)])


def test_parts_move_statistics_and_generators_once_each(given: Batch) -> None:
    whole, parted = own(with_everything), own(with_everything, gradient_accumulation_steps=3)
    before = whole.state("optimizer")["optimizer"]
    for trainer in (whole, parted):
        trainer.gradient(*given, 0.1)
    once, thrice = whole.state("optimizer")["optimizer"] - before, parted.state("optimizer")["optimizer"] - before
    assert once.sum() == 2  # two generators
    np.testing.assert_array_equal(thrice, 3 * once)


def test_parts_without_any_samples_leave_synchronised_statistics(given: Batch) -> None:
    """Of 2 samples in 5 parts, three parts have none on any worker: no mean of nothing comes into the statistics."""
    few = given[0][:2].copy(), given[1][:2].copy()

    def stepped(num_parts: int) -> Any:
        options = {"filters": (4,), "batch_norm": "synchronized"}
        trainer = create(KERAS, "cnn", WHAT, options, gradient_accumulation_steps=num_parts)
        trainer.compile(list, lambda tensor: tensor)
        trainer.step(*few, 0.5, 0.1)
        return trainer

    parted, expected = stepped(5), stepped(2)
    assert np.isfinite(parted.state("statistics")["statistics"]).all()
    np.testing.assert_array_equal(parted.state("statistics")["statistics"], expected.state("statistics")["statistics"])
    np.testing.assert_allclose(parted.parameters(), expected.parameters(), rtol=0, atol=1e-12)


# Several steps in one call.


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.soak)])  # compiles for 20 s
def test_several_steps_of_a_call_are_single_ones(jit_compile: bool, given: Batch) -> None:
    contract.check_each_step_of_a_call_has_its_samples_its_rate_and_the_hook(
        lambda: own(with_statistics, optimizer="adam", jit_compile=jit_compile), given
    )


def with_statistics(problem: Problem) -> Any:
    import keras

    layers = keras.layers
    return keras.Sequential([layers.Flatten(), layers.BatchNormalization(), layers.Dense(problem.num_classes)])


def test_several_steps_of_a_call_scale_losses_and_draw_as_single_ones(given: Batch) -> None:
    contract.check_several_steps_of_a_call_are_single_ones(
        lambda: own(with_everything, precision="mixed_float16"), given, tolerance=1e-5
    )


# Resuming.


# One with a momentum, and matrices of its kind; nadam has two slots, in mixed precision below.
@pytest.mark.parametrize(
    "optimizer", [pytest.param(name, marks=() if name == "muon" else pytest.mark.soak) for name in OPTIMIZERS]
)
def test_every_optimizer_steps_and_resumes_to_the_bit(optimizer: str, given: Batch) -> None:
    settings: dict[str, Any] = {"optimizer": optimizer, "precision": "float32", "weight_decay": 0.05}
    settings |= {"momentum": 0.9} if optimizer in ("sgd", "rmsprop") else {}
    contract.check_resumes_to_the_bit(lambda: own(with_everything, **settings), given)


# Nadam keeps a variable that Keras does not list where another optimizer scales its losses.
@pytest.mark.parametrize(
    ("optimizer", "precision"),
    [pytest.param("adam", "mixed_bfloat16", marks=pytest.mark.soak), ("nadam", "mixed_float16")],
)
def test_mixed_precision_resumes_to_the_bit(optimizer: str, precision: str, given: Batch) -> None:
    def make() -> Any:
        return own(with_everything, optimizer=optimizer, precision=precision)

    contract.check_resumes_to_the_bit(make, given, at_once=True)
    rehearsed = make()
    rehearsed.compile(list)
    rehearsed.step(*given, 0.1, 0.01)
    before = rehearsed.state()
    rehearsed.rehearse(given[0][:5], given[1][:5], 0.2)
    contract.must_be_same(rehearsed, before)


def test_weight_decay_of_zero_is_none(given: Batch) -> None:
    """Keras's own default for adamw and muon would be 0.004."""
    for optimizer, model in (("adamw", "softmax"), ("muon", "mlp")):
        trainer = create(KERAS, model, WHAT, optimizer=optimizer)
        weights = trainer.parameters()
        trainer.apply(np.zeros(trainer.num_parameters), 0.1)
        assert np.array_equal(trainer.parameters(), weights), optimizer
        decaying = create(KERAS, model, WHAT, optimizer=optimizer, weight_decay=0.5)
        decaying.apply(np.zeros(decaying.num_parameters), 0.1)
        np.testing.assert_allclose(decaying.parameters(), weights * (1 - 0.1 * 0.5), rtol=1e-12)


# Precisions and XLA, for every kind of step.


def double(gradients: list[Any]) -> list[Any]:
    return [2 * gradient for gradient in gradients]


# Precision, whether XLA compiles, and the range in which two steps end from the exact ones, relative to the change.
PRECISIONS: list[tuple[str, bool, float, float]] = [
    ("float32", True, 0.0, 1e-5),
    ("float64", False, 0.0, 1e-11),
    ("mixed_bfloat16", True, 1e-4, 1e-1),
    ("mixed_float16", False, 1e-5, 1e-2),
]


@pytest.mark.parametrize(
    ("precision", "jit", "least", "most"),
    [pytest.param(*case, marks=() if case[0] == "mixed_float16" else pytest.mark.soak) for case in PRECISIONS],
)
def test_every_precision_serves_every_kind_of_step(
    precision: str, jit: bool, least: float, most: float, given: Batch
) -> None:
    """Two steps of each kind end near the exact ones; a hook's factor is the rate's; parameters stay in float32."""
    model, options = ("cnn", {"filters": (4, 6)}) if precision == "float64" else ("mlp", {"hidden": (16,)})
    exact = create(KERAS, model, WHAT, options)
    apart, at_once, hooked, parted = (
        create(KERAS, model, WHAT, options, precision=precision, jit_compile=jit, **more)
        for more in ({}, {}, {}, {"gradient_accumulation_steps": 5})
    )
    start = exact.parameters()
    at_once.compile(None)
    hooked.compile(double)
    for trainer in (exact, apart, at_once, hooked, parted):
        trainer.set_parameters(start)
    for _ in range(2):
        for trainer in (exact, apart, parted):
            trainer.apply(trainer.gradient(*given, 1 / 12)[0], 0.1)
        at_once.step(*given, 1 / 12, 0.1)
        hooked.step(*given, 1 / 12, 0.05)
    change = exact.parameters() - start
    for trainer in (apart, at_once, hooked, parted):
        weights = trainer.parameters()
        assert weights.dtype == (np.float64 if precision == "float64" else np.float32)
        assert least <= np.linalg.norm(weights - start - change) / np.linalg.norm(change) <= most
        assert np.isfinite(trainer.evaluate(*given)["loss"])


# Tokens, and a class at each position.


def characters(problem: Problem) -> Any:
    import keras

    layers = keras.layers
    tokens = layers.Input(problem.input_shape, dtype="int32")
    x = layers.Embedding(problem.vocabulary, 5)(tokens)
    return keras.Model(tokens, layers.Dense(problem.num_classes)(x))


def expected_of_positions(trainer: Any, x: Array, y: Array) -> tuple[float, float]:
    """Return the sums over samples of means over positions, from the model's own logits, in NumPy."""
    logits = np.asarray(trainer._graph._model(x))
    shifted = logits - logits.max(axis=-1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=-1)) - np.take_along_axis(shifted, y[..., None], -1)[..., 0]
    return losses.mean(axis=1).sum(), (logits.argmax(axis=-1) == y).mean(axis=1).sum()


def test_tokens_with_a_class_at_each_position() -> None:
    what = Problem((6,), 9, scale=0.5, offset=3.0, vocabulary=9, target_shape=(6,))
    random = np.random.default_rng(0)
    x, y = random.integers(0, 9, (12, 6)).astype(np.uint8), random.integers(0, 9, (12, 6)).astype(np.int32)
    trainer = own(characters, what)
    for _ in range(5):
        flat, sums = trainer.gradient(x, y, 1 / 12)
        assert tuple(sums.values()) == pytest.approx(expected_of_positions(trainer, x, y), rel=1e-12)
        trainer.apply(flat, 2.0)
    sums = trainer.evaluate(x, y)
    assert tuple(sums.values()) == pytest.approx(expected_of_positions(trainer, x, y), rel=1e-12)
    assert sums["accuracy"] % 1 != 0
    contract.check_gradient_is_that_of_the_loss(trainer, (x, y))


# Sums over workers in the forward pass.


def with_reduce(problem: Problem) -> Any:
    """Return a model with a nested layer that adds what `reduce` makes of the batch's sum."""
    import keras

    class Summing(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__(name="summing")
            self.reduce: Any = None

        def call(self, x: Any) -> Any:
            total = keras.ops.sum(x, axis=0, keepdims=True)
            return x + (total if self.reduce is None else self.reduce(total))

    layers = keras.layers
    return keras.Sequential([layers.Flatten(), keras.Sequential([Summing()]), layers.Dense(problem.num_classes)])


def test_a_nested_layer_gets_the_sum_over_workers(given: Batch) -> None:
    alone, together = own(with_reduce), own(with_reduce, workers=2, strategy="mpi")
    local = contract.gradient(alone, *given, 0.1)
    with pytest.raises(UserError, match="the layer summing needs a sum over all 2 workers"):
        together.compile(None)
    together.compile(None, lambda total: total)
    np.testing.assert_allclose(contract.gradient(together, *given, 0.1), local, rtol=1e-13)
    together.compile(None, lambda total: 3 * total)
    assert not np.allclose(contract.gradient(together, *given, 0.1), local)


# float16 under a reduction inside the step.


def fake_reduction(own_part: list[Array], total: list[Array]) -> Callable[[list[Any]], list[Any]]:
    """Return a hook that sees that it is given a worker's own gradients, and returns those of all workers together."""
    import tensorflow as tf

    def total_of(*gradients: Array) -> list[Array]:
        for given, known in zip(gradients, own_part, strict=True):
            np.testing.assert_array_equal(given, known)
        return total

    def reduce(gradients: list[Any]) -> list[Any]:
        reduced = tf.numpy_function(total_of, gradients, [gradient.dtype for gradient in gradients])
        return [tf.ensure_shape(a, b.shape) for a, b in zip(reduced, gradients, strict=True)]

    return reduce


def step_together(workers: list[Any], batches: list[Batch]) -> None:
    """Let every worker take one compiled step on its own samples with the sum of all workers' gradients."""
    with np.errstate(invalid="ignore"):  # inf - inf
        flat = [contract.gradient(worker, *given, 1 / 12) for worker, given in zip(workers, batches, strict=True)]
        total = sum(flat[1:], flat[0])
    shaped = [unflatten(one, workers[0].shapes) for one in [*flat, total]]
    for worker, given, part in zip(workers, batches, shaped, strict=False):
        worker.compile(fake_reduction(part, shaped[-1]))
        worker.step(*given, 1 / 12, 0.01)


def loss_scale(trainer: Any) -> float:
    return float(trainer._graph.optimizer.dynamic_scale.numpy())


def test_all_workers_skip_the_step_that_overflows_on_one() -> None:
    """Worker 0's samples overflow float16: neither worker steps, and both halve their loss scale."""
    what = Problem((20,), 10)
    random = np.random.default_rng(0)
    harmless = [(random.normal(size=(4, 20)), random.integers(0, 10, 4).astype(np.int32)) for _ in range(2)]
    violent = [(harmless[0][0] * 3e4, harmless[0][1]), *harmless[1:]]
    workers = [create(KERAS, "softmax", what, precision="mixed_float16", optimizer="adam") for _ in range(2)]
    own_parts = [contract.gradient(*pair, 1 / 12) for pair in triples(workers, violent)]
    assert [bool(np.isfinite(part).all()) for part in own_parts] == [False, True]
    first = workers[0].parameters()
    step_together(workers, violent)
    for worker in workers:
        assert np.array_equal(worker.parameters(), first)
        assert loss_scale(worker) == 2.0**14
    step_together(workers, harmless)
    assert not np.array_equal(workers[0].parameters(), first)
    for worker in workers[1:]:
        assert np.array_equal(worker.parameters(), workers[0].parameters())
        assert np.array_equal(worker.state("optimizer")["optimizer"], workers[0].state("optimizer")["optimizer"])


def triples(workers: list[Any], batches: list[Batch]) -> list[tuple[Any, Array, Array]]:
    return [(worker, *given) for worker, given in zip(workers, batches, strict=True)]
