"""Every model keeps the trainer's contract, learns in lower precision, and has the published size and cost."""

import math
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pytest

from dlbench import plugins
from dlbench.scenario.settings import Settings
from dlbench.trainers import Problem, Trainer, _keras_model
from tests.unit.trainers import contract
from tests.unit.trainers.contract import Batch, create

pytestmark = pytest.mark.tensorflow

KERAS = "keras_tensorflow"
IMAGES = contract.problem(8, 8, 1)
TOKENS = Problem((6,), 10, vocabulary=11)
CHARACTERS = Problem((6,), 11, vocabulary=11, target_shape=(6,))
SEQUENCES = Problem((6, 3), 10, 2 / 255, -1.0)

SMALL_LM = {"embedding_size": 3, "window": 4, "units": 5}
SMALL_RESNET = {"width": 4, "num_blocks": (1, 1)}
SMALL_TRANSFORMER = {"width": 8, "num_heads": 2, "num_layers": 1}
OF_INPUTS_AND_LAYERS = (contract.check_gradient_is_a_fair_buffer, contract.check_gradient_is_that_of_the_loss)
BLOCK = 2 * 16 + 3 * (64 + 8) + 64 + 8 + 8 * 32 + 32 + 32 * 8 + 8
# Name -> model, its samples, options, number of parameters; no batch norm: samples are independent. All keep what
# depends on their inputs and layers; the whole contract is the trainer's: one model keeps it here, others do in
# `test_keras_trainer`, and the first case of each in the soak.
CASES: dict[str, tuple[str, Problem, dict[str, Any], int]] = {
    "resnet18": ("resnet18", IMAGES, SMALL_RESNET | {"batch_norm": False}, 40 + 296 + 880 + 40 + 90),
    "resnet50": (
        "resnet50",
        IMAGES,
        SMALL_RESNET | {"batch_norm": False, "stem": "small"},
        # stem; first block, its projection; second block, its projection; logits
        40 + (20 + 148 + 80 + 80) + (136 + 584 + 288 + 544) + 330,
    ),
    "resnet50-large": (
        "resnet50",
        IMAGES,
        SMALL_RESNET | {"batch_norm": False},
        49 * 4 + 4 + (20 + 148 + 80 + 80) + (136 + 584 + 288 + 544) + 330,
    ),
    "vgg16": ("vgg16", IMAGES, {"width": 4, "num_convolutions": (1, 2), "hidden": (7,)}, 40 + 296 + 584 + 231 + 80),
    "feed-forward-tokens": ("feed_forward_lm", TOKENS, SMALL_LM, 33 + 4 * 3 * 5 + 5 + 60),
    "feed-forward-characters": ("feed_forward_lm", CHARACTERS, SMALL_LM, 33 + 4 * 3 * 5 + 5 + 66),
    "lstm-characters": ("lstm", CHARACTERS, {"units": 5, "num_layers": 2}, 55 + 2 * 20 * (5 + 5 + 1) + 66),
    "lstm-images": ("lstm", IMAGES, {"units": 5}, 20 * (8 + 5 + 1) + 60),
    "lstm-tokens": ("lstm", TOKENS, {"units": 5, "embedding_size": 3}, 33 + 20 * (3 + 5 + 1) + 60),
    "transformer-sequences": ("transformer", SEQUENCES, SMALL_TRANSFORMER, 3 * 8 + 8 + 6 * 8 + BLOCK + 16 + 90),
    "transformer-images": ("transformer", IMAGES, SMALL_TRANSFORMER, 8 * 8 + 8 + 8 * 8 + BLOCK + 16 + 90),
    "transformer-characters": (
        "transformer",
        CHARACTERS,
        SMALL_TRANSFORMER | {"positions": "sinusoidal"},
        11 * 8 + BLOCK + 16 + 99,
    ),
}


# The contract is tested in float64. Each kind of layer (convolution, recurrence, attention) learns in each precision.
PRECISIONS = {
    "resnet18": "float32",
    "resnet50": "mixed_bfloat16",
    "vgg16": "mixed_float16",
    "feed-forward-characters": "mixed_bfloat16",
    "lstm-images": "float32",
    "lstm-tokens": "mixed_float16",
    "lstm-characters": "mixed_bfloat16",
    "transformer-images": "float32",
    "transformer-sequences": "mixed_bfloat16",
    "transformer-characters": "mixed_float16",
}


def several(cases: Iterable[str], more: Collection[str]) -> list[Any]:
    """Return cases as parameters, of which some are left to the soak."""
    return [pytest.param(case, marks=pytest.mark.soak if case in more else ()) for case in cases]


def make(case: str, **settings: Any) -> Trainer:
    model, what, options, _ = CASES[case]
    return create(KERAS, model, what, options, **settings)


def given_to(case: str) -> Batch:
    return contract.batch(CASES[case][1])


@pytest.mark.parametrize(
    "case",
    several(CASES, more=CASES.keys() - {"vgg16", "transformer-characters"}),
)
def test_gradients(case: str) -> None:
    trainer = make(case)
    assert trainer.num_parameters == CASES[case][3]
    for check in OF_INPUTS_AND_LAYERS:
        check(trainer, given_to(case))


FIRST = {model: case for case, (model, *_) in reversed(CASES.items())}


@pytest.mark.parametrize("case", several(FIRST.values(), more=set(FIRST.values()) - {"feed-forward-tokens"}))
def test_contract(case: str) -> None:
    trainer = make(case)
    assert trainer.num_parameters == CASES[case][3]
    first = trainer.parameters()
    for check in contract.CHECKS:
        trainer.set_parameters(first)
        check(trainer, given_to(case))


def test_every_model_is_tested_here_or_with_the_trainer() -> None:
    others = {"cnn", "mlp", "resnet20", "softmax"}
    assert {case[0] for case in CASES.values()} | others == set(plugins.names("models"))


@pytest.mark.slow
@pytest.mark.parametrize("case", several(PRECISIONS, more=set(PRECISIONS) - {"lstm-tokens"}))
def test_each_learns_in_lower_precision(case: str) -> None:
    """The loss on a fixed batch falls well below that of guessing."""
    trainer, (x, y) = make(case, precision=PRECISIONS[case], optimizer="adam"), given_to(case)
    before = trainer.evaluate(x, y)["loss"]
    trainer.compile(None)
    for _ in range(120):
        trainer.step(x, y, 1 / len(y), 0.01)
    assert trainer.evaluate(x, y)["loss"] < 0.8 * before
    assert trainer.parameters().dtype == np.float32


# What compiles longest comes last.
XLA = ["feed-forward-characters", "transformer-characters", "lstm-characters", "resnet18"]


@pytest.mark.slow
@pytest.mark.parametrize("case", several(XLA, more=XLA[1:]))
def test_xla_computes_the_same(case: str) -> None:
    compiled, plain = make(case, jit_compile=True), make(case)
    flat = contract.gradient(plain, *given_to(case), 1.0)
    np.testing.assert_allclose(contract.gradient(compiled, *given_to(case), 1.0), flat, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", ["feed-forward-characters", "lstm-characters", "transformer-characters"])
def test_a_position_never_sees_what_follows(case: str) -> None:
    """Changing the last token changes the prediction at the last position only."""
    model, (x, _) = make(case)._graph._model, given_to(case)  # type: ignore[attr-defined]
    other = x.copy()
    other[:, -1] = (other[:, -1] + 1) % 11
    first, second = np.asarray(model(x)), np.asarray(model(other))
    assert first.shape == (12, 6, 11)
    assert np.array_equal(first[:, :-1], second[:, :-1])
    assert np.abs(first[:, -1] - second[:, -1]).min(axis=-1).max() > 0


@pytest.mark.parametrize("case", ["transformer-images", "transformer-characters"])
def test_a_transformer_depends_on_the_order(case: str) -> None:
    model, (x, _) = make(case)._graph._model, given_to(case)  # type: ignore[attr-defined]
    x = x.astype(np.float64) / 255 if case.endswith("images") else x
    swapped = x.copy()
    swapped[:, [0, 1]] = x[:, [1, 0]]
    assert not np.allclose(np.asarray(model(x))[..., -1, :], np.asarray(model(swapped))[..., -1, :], atol=1e-9)


@pytest.mark.parametrize("case", ["vgg16", "lstm-tokens", "transformer-images"])
def test_dropout_acts_in_training_only(case: str) -> None:
    """It is off unless asked for: `test_contract` could find no slope of the loss otherwise."""
    model, what, options, size = CASES[case]
    trainer, (x, _) = create(KERAS, model, what, options | {"dropout": 0.5}), given_to(case)
    assert trainer.num_parameters == size
    network = trainer._graph._model
    for training in (True, False):
        first, second = (np.asarray(network(x, training=training)) for _ in range(2))
        assert np.array_equal(first, second) != training


SMALL = Problem((32, 32, 3), 10)
LARGE = Problem((224, 224, 3), 1000)
# Model, problem, options, parameters, millions of multiply-accumulates to four digits.
PUBLISHED = [
    ("resnet20", SMALL, {}, 269_722, 40.55),
    ("resnet18", SMALL, {}, 11_173_962, 555.4),
    ("resnet50", LARGE, {}, 25_557_032, 4089.0),
    ("vgg16", LARGE, {}, 138_357_544, 15_470.0),
    ("vgg16", SMALL, {"hidden": (), "batch_norm": True}, 14_724_042, 313.2),
]


def built(name: str, what: Problem, **options: Any) -> Any:
    """Return a Keras model in float32, without a trainer: nothing is computed."""
    create(KERAS, "softmax", contract.problem(2), precision="float32")  # starts Keras
    plugin = plugins.load("models", name)
    return _keras_model.build(plugin, plugin.options(**options), what, Settings())


def test_a_table_with_a_constraint_is_no_lookup_table() -> None:
    built("softmax", contract.problem(2))
    import keras

    for constraint, tables in ((None, {"words": 0}), (keras.constraints.MaxNorm(1), {})):
        words = keras.layers.Embedding(11, 3, embeddings_constraint=constraint, name="words")
        assert _keras_model.lookup_tables(keras.Sequential([keras.layers.Input((6,)), words])) == tables


def num_parameters(model: Any) -> int:
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)


def test_sizes_and_costs_are_the_published_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    import keras

    # Drawing so many weights is all that would take time here.
    zeros = lambda self, shape, dtype=None: keras.ops.zeros(shape, dtype)  # noqa: E731
    monkeypatch.setattr(keras.initializers.VarianceScaling, "__call__", zeros)
    for name, what, options, size, millions in PUBLISHED:
        model = built(name, what, **options)
        assert num_parameters(model) == size, name
        flops = _keras_model.flops(model)
        assert flops is not None, name
        assert float(f"{flops / 6e6:.4g}") == millions, name


def test_synchronising_batch_norm_changes_neither_size_nor_cost() -> None:
    local, synchronized = (
        built("resnet18", SMALL, **SMALL_RESNET, batch_norm=kind) for kind in ("local", "synchronized")
    )
    assert num_parameters(local) == num_parameters(synchronized)
    assert _keras_model.flops(local) == _keras_model.flops(synchronized)
    shapes = [[tuple(v.shape) for v in model.trainable_variables] for model in (local, synchronized)]
    assert shapes[0] == shapes[1]


def test_embeddings_of_tokens_are_lookup_tables() -> None:
    for case in ("feed-forward-tokens", "lstm-tokens", "transformer-characters"):
        trainer = make(case)
        ((name, number),) = trainer.tables.items()  # type: ignore[attr-defined]
        assert "embedding" in name
        assert trainer.shapes[number][0] == 11
    assert make("lstm-images").tables == {}  # type: ignore[attr-defined]


def test_rows_of_a_table_are_overwritten_alone() -> None:
    trainer = make("feed-forward-tokens")
    first = trainer.parameters()
    for rows in ([2, 10, 0], [], [5]):
        values = np.full((len(rows), 3), 0.25)
        trainer.set_rows(0, np.array(rows, np.int32), values)  # type: ignore[attr-defined]
    expected = first.copy()
    expected[:33].reshape(11, 3)[[0, 2, 5, 10]] = 0.25
    assert np.array_equal(trainer.parameters(), expected)


def test_cost_of_a_transformer() -> None:
    """Of each block 4 projections, 2 products of attention and 2 dense layers; then the logits."""
    steps, width, inner = 20, 16, 40
    options = {"width": width, "num_heads": 4, "num_layers": 2, "feed_forward_width": inner}
    block = 4 * steps * width**2 + 2 * steps**2 * width + 2 * steps * width * inner
    tokens = Problem((steps,), 30, vocabulary=30, target_shape=(steps,))
    characters = built("transformer", tokens, **options, positions="sinusoidal")
    assert _keras_model.flops(characters) == 6 * (2 * block + steps * width * 30)
    classes = built("transformer", Problem((steps, 5), 2), **options, positions="learned")
    assert _keras_model.flops(classes) == 6 * (steps * 5 * width + 2 * block + width * 2)


def test_a_residual_branch_of_a_transformer_starts_small() -> None:
    model = built("transformer", Problem((20,), 30, vocabulary=30), width=64, num_layers=2)
    deviations = [
        float(np.std(np.asarray(layer.output_dense.kernel)))
        for layer in model.layers
        if type(layer).__name__ == "MultiHeadAttention"
    ]
    assert len(deviations) == 2
    np.testing.assert_allclose(deviations, 0.02 / 2, rtol=0.1)


def test_the_flat_order_of_residual_networks_is_as_documented() -> None:
    """A projection's kernel stands before the last convolution's, its gamma and beta before that one's."""
    for name, projection, last in (
        ("resnet18", (1, 1, 4, 8), (3, 3, 8, 8)),
        ("resnet50", (1, 1, 16, 32), (1, 1, 8, 32)),
    ):
        model = built(name, SMALL, num_blocks=(1, 1), width=4)
        shapes = [tuple(v.shape) for v in model.trainable_variables]
        width = last[-1]
        end = [projection, last, (width,), (width,), (width,), (width,), (width, 10), (10,)]
        assert shapes[-len(end) :] == end, name
