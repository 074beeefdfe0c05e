"""The multiplications of every kind of Keras layer, computed by hand; where they cannot be known the count is None."""

from collections.abc import Callable
from typing import Any

import pytest

from dlbench.trainers import _keras_cost
from tests.unit.trainers import contract

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True, scope="module")
def started() -> None:
    contract.create("keras_tensorflow", "softmax", contract.problem(2))


def model_of(shape: tuple[int, ...], *names_and_options: tuple[str, dict[str, Any]]) -> Any:
    import keras

    inputs = x = keras.layers.Input(shape)
    for name, options in names_and_options:
        x = getattr(keras.layers, name)(**options)(x)
    return keras.Model(inputs, x)


LAYERS: list[tuple[tuple[int, ...], str, dict[str, Any], int]] = [
    ((7,), "Dense", {"units": 5}, 7 * 5),
    ((3, 4, 7), "Dense", {"units": 5}, 3 * 4 * 7 * 5),
    ((3, 7), "EinsumDense", {"equation": "abc,cd->abd", "output_shape": (3, 5)}, 3 * 7 * 5),
    ((3, 7), "EinsumDense", {"equation": "abc,cde->abde", "output_shape": (3, 2, 5)}, 3 * 7 * 2 * 5),
    ((3, 7), "EinsumDense", {"equation": "abc,bcd->abd", "output_shape": (3, 5)}, 3 * 7 * 5),
    ((3, 4, 7), "EinsumDense", {"equation": "...x,xy->...y", "output_shape": 5}, 3 * 4 * 7 * 5),
    ((9, 2), "Conv1D", {"filters": 4, "kernel_size": 3}, 7 * 3 * 2 * 4),
    ((9, 2), "Conv1D", {"filters": 4, "kernel_size": 3, "padding": "same"}, 9 * 3 * 2 * 4),
    ((9, 8, 4), "Conv2D", {"filters": 6, "kernel_size": 3, "strides": 2}, 4 * 3 * 9 * 4 * 6),
    ((9, 8, 4), "Conv2D", {"filters": 6, "kernel_size": 3, "groups": 2}, 7 * 6 * 9 * 2 * 6),
    ((5, 5, 5, 2), "Conv3D", {"filters": 3, "kernel_size": 2}, 64 * 8 * 2 * 3),
    ((9, 8, 4), "DepthwiseConv2D", {"kernel_size": 3, "depth_multiplier": 2}, 7 * 6 * 9 * 4 * 2),
    ((9, 8, 4), "SeparableConv2D", {"filters": 6, "kernel_size": 3}, 7 * 6 * (9 * 4 + 4 * 6)),
    ((4, 4, 2), "Conv2DTranspose", {"filters": 3, "kernel_size": 3, "strides": 2}, 16 * 9 * 2 * 3),
    ((6, 5), "LSTM", {"units": 3}, 6 * 4 * 3 * (5 + 3)),
    ((6, 5), "GRU", {"units": 3}, 6 * 3 * 3 * (5 + 3)),
    ((6, 5), "SimpleRNN", {"units": 3, "return_sequences": True}, 6 * 3 * (5 + 3)),
    ((6,), "Embedding", {"input_dim": 9, "output_dim": 3}, 0),
    ((6, 5), "BatchNormalization", {}, 0),
    ((6, 5), "LayerNormalization", {}, 0),
    ((6, 5), "PReLU", {}, 0),
    ((6, 6, 2), "MaxPooling2D", {}, 0),
]


def test_layers() -> None:
    for shape, name, options, count in LAYERS:
        assert _keras_cost.products(model_of(shape, (name, options))) == count, (name, options)


def test_every_layer_that_is_counted_is_tested() -> None:
    elsewhere = {"MultiHeadAttention", "Bidirectional", "TimeDistributed"}
    similar = {"Conv1DTranspose", "Conv3DTranspose", "DepthwiseConv1D", "SeparableConv1D"}
    assert set(_keras_cost._COUNTS) - {name for _, name, _, _ in LAYERS} == elsewhere | similar


def attention(**options: Any) -> Any:
    """Return a model that attends from 4 positions of width 6 to 5 of width 7, with 2 heads of 3 (values of 2)."""
    import keras

    query, value = keras.layers.Input((4, 6)), keras.layers.Input((5, 7))
    layer = keras.layers.MultiHeadAttention(2, 3, value_dim=2)
    return keras.Model([query, value], layer(query, value, **options))


def test_attention() -> None:
    projections = 4 * 6 * 6 + 5 * 7 * 6 + 5 * 7 * 4 + 4 * 4 * 6
    for options in ({}, {"use_causal_mask": True}):
        assert _keras_cost.products(attention(**options)) == projections + 4 * 5 * 2 * (3 + 2)


def test_wrappers() -> None:
    import keras

    both = keras.layers.Bidirectional(keras.layers.LSTM(3))
    each = keras.layers.TimeDistributed(keras.layers.Conv2D(6, 3))
    inputs, images = keras.layers.Input((6, 5)), keras.layers.Input((2, 9, 8, 4))
    assert _keras_cost.products(keras.Model(inputs, both(inputs))) == 2 * 6 * 12 * 8
    assert _keras_cost.products(keras.Model(images, each(images))) == 2 * 7 * 6 * 9 * 4 * 6


def test_nested_and_shared() -> None:
    """A model inside a model, used on two inputs of different lengths: each use counts for its own."""
    import keras

    inner = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(4), keras.layers.Dense(4)])
    inputs = keras.layers.Input((4,))
    assert _keras_cost.products(keras.Model(inputs, inner(inner(inputs)))) == 2 * 32
    dense, short, long = keras.layers.Dense(5), keras.layers.Input((2, 4)), keras.layers.Input((3, 4))
    assert _keras_cost.products(keras.Model([short, long], [dense(short), dense(long)])) == (2 + 3) * 20


def subclass() -> Any:
    import keras

    class Own(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(3)

        def call(self, x: Any) -> Any:
            return keras.ops.matmul(self.dense(x), keras.ops.transpose(self.dense(x)))

    return Own()


def own_layer(has_products: bool | None) -> Any:
    import keras

    class Own(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return 2 * x

    if has_products is not None:
        Own.has_products = has_products
    inputs = keras.layers.Input((4,))
    return keras.Model(inputs, Own()(inputs))


def operation() -> Any:
    import keras

    inputs = keras.layers.Input((4, 4))
    return keras.Model(inputs, keras.ops.matmul(inputs, inputs))


def attention_without_weights() -> Any:
    import keras

    inputs = keras.layers.Input((4, 4))
    return keras.Model(inputs, keras.layers.Attention()([inputs, inputs]))


def of_any_length() -> Any:
    return model_of((None, 4), ("Dense", {"units": 3}))


UNKNOWN: dict[str, Callable[[], Any]] = {
    "a subclass": subclass,
    "a layer of the user's own": lambda: own_layer(None),
    "a product without a layer": operation,
    "a length that is not known": of_any_length,
    "a function of the user's own": lambda: model_of((4, 3), ("Lambda", {"function": lambda x: x})),
    "attention without weights": attention_without_weights,
}


def test_unknown() -> None:
    for name, model in UNKNOWN.items():
        assert _keras_cost.products(model()) is None, name


def test_an_own_layer_may_declare_that_it_has_no_products() -> None:
    assert _keras_cost.products(own_layer(False)) == 0
    assert _keras_cost.products(own_layer(True)) is None
