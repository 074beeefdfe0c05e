"""Build a Keras model from its plugin, check that dlbench can train it, and count its cost."""

from typing import Any

import numpy as np

from dlbench.errors import UserError
from dlbench.plugins import Options, Plugin
from dlbench.scenario.plugin_settings import trains_in_nodes
from dlbench.scenario.settings import Settings
from dlbench.trainers import Problem, _keras_cost
from dlbench.trainers._keras_draws import drawn_by_numpy

BUILDER = "keras"
# Of a sum of probabilities, also in half precision.
_ROUNDING = 1e-2


def build(plugin: Plugin, options: Options, problem: Problem, settings: Settings) -> Any:
    """Return the plugin's `keras.Model`, built and checked.

    Raises:
        UserError: The plugin has no Keras builder, refuses the samples' shape, or returns something else than a
            model from samples to outputs [n, *target_shape, num_outputs] that the run's strategy can train.
    """
    import keras

    with drawn_by_numpy():
        model = _call(plugin, options, problem)
        if not isinstance(model, keras.Model):
            raise UserError(
                f"model {plugin.name!r} must return a keras.Model, not {type(model).__name__}",
                hint="it is called as function(problem, **options); see `dlbench.models`",
            )
        _check_output(model, plugin.name, problem)
    if problem.num_classes:
        _check_activation(model, plugin.name, problem)
    if not model.trainable_variables:
        raise UserError(f"model {plugin.name!r} has no trainable weights")
    if trains_in_nodes(settings) and any(variable.constraint is not None for variable in model.trainable_variables):
        what = "has a constraint on weights, which strategies that send messages, and simulations, would not apply"
        hint = "leave the constraint away, or measure a strategy whose step is Keras's, such as mpi"
        raise UserError(f"model {plugin.name!r} {what}", hint=hint)
    return model


def flops(model: Any) -> float | None:
    """Return the training cost of one sample in FLOP: 3 x forward, 1 MAC = 2 FLOP; None where it cannot be counted.

    Only products count, as in published figures; see `_keras_cost`.
    """
    forward = _keras_cost.products(model)
    return None if forward is None else 6.0 * forward


def lookup_tables(model: Any) -> dict[str, int]:
    """Return the embeddings that read the model's tokens and nothing else, by name: numbers of trainable weights.

    One with a constraint is left out: it changes rows that no batch names.
    """
    import keras

    numbers = {id(variable): number for number, variable in enumerate(model.trainable_variables)}
    embeddings = [layer for layer in model.layers if isinstance(layer, keras.layers.Embedding)]
    inputs = getattr(model, "inputs", None) or ()  # a model with its own `call` has none
    return {
        layer.name: numbers[id(layer.trainable_variables[0])]
        for layer in embeddings
        if [variable.constraint for variable in layer.trainable_variables] == [None]
        and any(_input_of(layer) is tokens for tokens in inputs)
    }


def _input_of(layer: Any) -> Any:
    """Return the symbolic input of a layer; None where it has several, or was called outside a functional model."""
    try:
        return layer.input
    except (AttributeError, ValueError):
        return None


def _call(plugin: Plugin, options: Options, problem: Problem) -> Any:
    builder = plugin.get(BUILDER)
    if builder is None and callable(plugin.target):
        return plugin.target(problem, **{name: getattr(options, name) for name in type(options).model_fields})
    if builder is None:
        raise UserError(f"model {plugin.name!r} has no `keras` builder: Keras cannot train it")
    refuse = plugin.get("refuse")
    reason = refuse(problem, options) if refuse else ""
    if reason:
        raise UserError(f"model {plugin.name!r} cannot take this data set: {reason}")
    return builder(problem, options)


def _check_output(model: Any, name: str, problem: Problem) -> None:
    """Build the model if it is not, and check its output shape symbolically: nothing is computed."""
    import keras

    kind = keras.config.floatx() if problem.vocabulary is None else "int32"
    sample = keras.KerasTensor((None, *problem.input_shape), kind)
    try:
        output = _output_of(model, sample)
    except (ValueError, TypeError) as error:
        raise UserError(
            f"model {name!r} cannot take samples of shape {list(problem.input_shape)}: {error}",
            hint="build its input from problem.input_shape",
        ) from error
    shape = getattr(output, "shape", None)
    wanted = (*problem.target_shape, problem.num_outputs)
    if shape is None or tuple(shape) != (None, *wanted):
        got = list(shape) if shape is not None else type(output).__name__
        has_more = shape is not None and len(shape) > len(wanted) + 1
        raise UserError(
            f"model {name!r} must return outputs of shape [n, {', '.join(map(str, wanted))}] (None stands for n), "
            f"not {got}",
            hint=f"{'flatten or pool samples first (layers.Flatten()), and ' * has_more}end it with "
            "Dense(problem.num_outputs)",
        )


def _output_of(model: Any, sample: Any) -> Any:
    """Return the symbolic output; a call would do, but adds to each layer's record of its uses, which `flops` reads."""
    import keras

    if not model.built and not isinstance(model, keras.Sequential):
        return model(sample)
    if not model.built:
        model.build(sample.shape)
    return model.compute_output_spec(sample)


def _check_activation(model: Any, name: str, problem: Problem) -> None:
    """Refuse probabilities at the end: a softmax would be applied to them again, and training would silently suffer."""
    import keras

    last = model
    while isinstance(last, keras.Model) and (outputs := getattr(last, "outputs", None)):
        last = outputs[0]._keras_history.operation
    activation = getattr(getattr(last, "activation", None), "__name__", "")
    # A layer or model of the user's own may apply its activation to anything.
    kinds = {type(last).__name__, activation} if type(last).__module__.startswith("keras.") else set()
    kind = next((kind for kind in ("softmax", "sigmoid") if kinds & {kind, kind.title()}), "")
    ends_linear = "linear" in kinds and hasattr(last, "kernel")  # as most models do: nothing is to be computed
    if not kind and not ends_linear and _gives_probabilities(model, problem):
        kind = "softmax"
    if kind:
        raise UserError(
            f"model {name!r} ends with a {kind}, but must return logits",
            hint="leave the last activation away: the loss is computed with from_logits=True",
        )


def _gives_probabilities(model: Any, problem: Problem) -> bool:
    """Whether what a model says of four samples, of zeros, of ones and two drawn ones, are probabilities."""
    import keras

    # Whole numbers from 0: a model may look samples up that are not described as tokens.
    x = np.random.default_rng(0).integers(0, problem.vocabulary or 2, (4, *problem.input_shape))
    x[0], x[1] = 0, 1
    kind = keras.config.floatx() if problem.vocabulary is None else "int32"
    outputs = keras.ops.convert_to_numpy(model(keras.ops.convert_to_tensor(x, kind), training=False))
    return bool((outputs >= 0).all() and np.allclose(outputs.sum(-1), 1, rtol=0, atol=_ROUNDING))
