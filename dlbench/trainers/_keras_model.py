"""Build a Keras model from its plugin, make sure that it is one dlbench can train, and count its cost."""

import math
from typing import Any

from dlbench.errors import UserError
from dlbench.plugins import Options, Plugin
from dlbench.trainers import Problem

BUILDER = "keras"


def build(plugin: Plugin, options: Options, problem: Problem) -> Any:
    """Return the plugin's `keras.Model`, built and checked.

    Raises:
        UserError: The plugin has no Keras builder, refuses the samples' shape, or returns something else than a
            model from samples to logits [n, num_classes].
    """
    model = _call(plugin, options, problem)
    _check_type(model, plugin.name)
    _check_output(model, plugin.name, problem)
    _check_activation(model, plugin.name)
    if not model.trainable_variables:
        raise UserError(f"model {plugin.name!r} has no trainable weights")
    return model


def flops(model: Any) -> float | None:
    """Return the training cost of one sample in FLOP: 3 x forward, 1 MAC = 2 FLOP.

    Only the matrix products of dense and convolutional layers count, as published figures do. None where a layer
    with another kind of kernel, or one used more than once, makes the sum unknown.
    """
    counts = [_multiplications(layer) for layer in _leaves(model)]
    known = [count for count in counts if count is not None]
    return 6.0 * sum(known) if len(known) == len(counts) else None


def _call(plugin: Plugin, options: Options, problem: Problem) -> Any:
    builder = plugin.get(BUILDER)
    if builder is None and callable(plugin.target):
        return plugin.target(problem, **{name: getattr(options, name) for name in type(options).model_fields})
    if builder is None:
        raise UserError(f"model {plugin.name!r} has no `keras` builder: the keras_tensorflow trainer cannot train it")
    refuse = plugin.get("refuse")
    reason = refuse(problem.input_shape, options) if refuse else ""
    if reason:
        raise UserError(f"model {plugin.name!r} cannot take this data set: {reason}")
    return builder(problem, options)


def _check_type(model: Any, name: str) -> None:
    import keras

    if not isinstance(model, keras.Model):
        raise UserError(
            f"model {name!r} must return a keras.Model, not {type(model).__name__}",
            hint="it is called as function(problem, **options); see `dlbench.models`",
        )


def _check_output(model: Any, name: str, problem: Problem) -> None:
    """Build the model if it is not, and look at the shape that comes out: symbolically, nothing is computed."""
    import keras

    sample = keras.KerasTensor((None, *problem.input_shape), keras.config.floatx())
    try:
        output = _output_of(model, sample)
    except (ValueError, TypeError) as error:
        raise UserError(
            f"model {name!r} cannot take samples of shape {list(problem.input_shape)}: {error}",
            hint="build its input from problem.input_shape",
        ) from error
    shape = getattr(output, "shape", None)
    if shape is None or tuple(shape) != (None, problem.num_classes):
        got = list(shape) if shape is not None else type(output).__name__
        raise UserError(
            f"model {name!r} must return logits of shape [n, {problem.num_classes}] (None stands for n), not {got}",
            hint="end it with Dense(problem.num_classes)",
        )


def _output_of(model: Any, sample: Any) -> Any:
    """Return the symbolic output; a call would do, but adds to each layer's record of its uses, which `flops` reads."""
    import keras

    if not model.built and not isinstance(model, keras.Sequential):
        return model(sample)
    if not model.built:
        model.build(sample.shape)
    return model.compute_output_spec(sample)


def _check_activation(model: Any, name: str) -> None:
    """Refuse a softmax at the end, which would be applied twice and learn badly without an error."""
    import keras

    last = model.layers[-1] if model.layers else None
    is_softmax = isinstance(last, keras.layers.Softmax) or (
        getattr(last, "activation", None) is keras.activations.softmax
    )
    if is_softmax:
        raise UserError(
            f"model {name!r} ends with a softmax, but must return logits",
            hint="leave the last activation away: the loss is computed with from_logits=True",
        )


def _leaves(model: Any) -> list[Any]:
    """Return all layers that hold no other layers, nested models opened."""
    return [leaf for layer in model.layers for leaf in (_leaves(layer) if hasattr(layer, "layers") else [layer])]


def _multiplications(layer: Any) -> int | None:
    """Return multiply-accumulates of one sample, 0 for a layer that computes no products, None if unknown."""
    from keras import layers

    if not layer.weights or type(layer).__name__.endswith("Normalization"):
        return 0
    dense_like = (layers.Dense, layers.Conv1D, layers.Conv2D, layers.Conv3D, layers.DepthwiseConv2D)
    if type(layer) not in dense_like:
        return None
    if len(layer._inbound_nodes) != 1:  # used more than once, or never in a graph that can be seen
        return None
    positions = layer.output.shape[1:-1]
    if None in positions:
        return None
    return int(math.prod(layer.kernel.shape) * math.prod(positions))
