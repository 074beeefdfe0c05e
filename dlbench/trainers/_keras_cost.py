"""The cost of a Keras model: the multiply-accumulates of one sample, forward.

Only products count, as published figures do: those of dense, convolutional and recurrent layers, and in attention
both products besides (with a causal mask too, since all are computed). Biases, activations, normalisation and pooling
do not. A layer used twice counts twice. What cannot be known is None, never a guess; a layer that is not Keras's own
says with an attribute `has_products = False` that it multiplies number by number at most.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

Shape = tuple[int, ...]

# Operations of `keras.ops` in a functional model that hold products, which are not counted here.
_UNKNOWN_OPERATIONS = frozenset(
    {"AssociativeScan", "Conv", "ConvTranspose", "Correlate", "DepthwiseConv", "Dot", "DotProductAttention", "Einsum"}
    | {"Inner", "Kron", "Map", "Matmul", "Outer", "Scan", "SeparableConv", "Tensordot", "Vdot", "Vectorize"}
    | {"VectorizedMap", "WhileLoop"}
)
# Layers of Keras with weights and without products.
_FREE = frozenset(
    {"BatchNormalization", "Embedding", "GroupNormalization", "LayerNormalization", "Normalization", "PReLU"}
    | {"RMSNormalization"}
)
# Layers of Keras with products and without weights of their own.
_UNKNOWN_LAYERS = frozenset({"AdditiveAttention", "Attention", "Dot", "Lambda"})


def products(model: Any) -> int | None:
    """Return the multiply-accumulates of one sample, forward; None where a part of the model is unknown."""
    if not _is_keras(model):
        return None  # a subclass, whose `call` may do anything
    return _sum(_of_use(operation, shapes) for operation, shapes in _uses(model))


def _uses(model: Any) -> Iterator[tuple[Any, list[Shape]]]:
    """Yield each use of an operation in a functional model, with the shapes of its inputs without the batch."""
    graph = getattr(model, "_functional", model)  # a Sequential holds one
    for nodes in graph._nodes_by_depth.values():
        for node in nodes:
            if not node.is_input:
                yield node.operation, [tuple(tensor.shape[1:]) for tensor in node.input_tensors]


def _of_use(operation: Any, shapes: list[Shape]) -> int | None:
    if hasattr(operation, "_nodes_by_depth") or hasattr(operation, "_functional"):
        return products(operation)
    if any(None in shape for shape in shapes):
        return None
    count = _COUNTS.get(type(operation).__name__) if _is_keras(operation) else None
    return count(operation, *shapes) if count is not None else _without_count(operation)


def _without_count(operation: Any) -> int | None:
    """Return 0 for what surely multiplies no matrices, else None."""
    name = type(operation).__name__
    if not getattr(operation, "has_products", True):
        return 0
    if not _is_keras(operation) or name in _UNKNOWN_LAYERS | _UNKNOWN_OPERATIONS:
        return None
    return None if getattr(operation, "weights", ()) and name not in _FREE else 0


def _is_keras(operation: Any) -> bool:
    return type(operation).__module__.partition(".")[0] == "keras"


def _sum(counts: Iterator[int | None]) -> int | None:
    """Return the sum, None if a part is."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _size(weight: Any) -> int:
    return int(math.prod(weight.shape))


def _positions(layer: Any, shape: Shape) -> int:
    """Return the number of places at which a convolution's kernel is applied."""
    return int(math.prod(layer.compute_output_shape((1, *shape))[1:-1]))


def _at_each_input(layer: Any, shape: Shape) -> int:
    return _size(layer.kernel) * math.prod(shape[:-1])


def _einsum_dense(layer: Any, shape: Shape) -> int:
    """Multiply the sizes of all letters of the equation but the batch's, such as 'abc,cd->abd'."""
    letters, _, kernel = layer.equation.partition("->")[0].partition(",")
    # Dimensions of an ellipsis, and of letters that only the input has, are those of the input.
    sizes = dict(zip(kernel.replace(".", ""), layer.kernel.shape, strict=True))
    named = letters.replace(".", "")
    shared = math.prod(sizes[letter] for letter in named if letter in sizes)
    return int(math.prod((*shape, *sizes.values())) // shared)


def _convolution(layer: Any, shape: Shape) -> int:
    return _size(layer.kernel) * _positions(layer, shape)


def _separable_convolution(layer: Any, shape: Shape) -> int:
    kernels = _size(layer.depthwise_kernel) + _size(layer.pointwise_kernel)
    return kernels * _positions(layer, shape)


def _recurrent(layer: Any, shape: Shape) -> int:
    return int(shape[0]) * (_size(layer.cell.kernel) + _size(layer.cell.recurrent_kernel))


def _attention(layer: Any, query: Shape, value: Shape, key: Shape | None = None, *_: Shape) -> int | None:
    """Return the four projections and the two products: scores, and weighted values."""
    key = key or value
    if {len(query), len(value), len(key)} != {2}:
        return None
    projections = (
        query[0] * (_size(layer.query_dense.kernel) + _size(layer.output_dense.kernel))
        + key[0] * _size(layer.key_dense.kernel)
        + value[0] * _size(layer.value_dense.kernel)
    )
    width = layer.num_heads * (layer.key_dim + (layer.value_dim or layer.key_dim))
    return int(projections + query[0] * value[0] * width)


def _both_ways(layer: Any, shape: Shape, *_: Shape) -> int | None:
    return _sum(_of_use(direction, [shape]) for direction in (layer.forward_layer, layer.backward_layer))


def _at_each_step(layer: Any, shape: Shape) -> int | None:
    once = _of_use(layer.layer, [shape[1:]])
    return None if once is None else once * shape[0]


_COUNTS: dict[str, Callable[..., int | None]] = {
    "EinsumDense": _einsum_dense,
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D", "DepthwiseConv1D", "DepthwiseConv2D"), _convolution),
    **dict.fromkeys(("Dense", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"), _at_each_input),
    **dict.fromkeys(("SeparableConv1D", "SeparableConv2D"), _separable_convolution),
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN"), _recurrent),
    "MultiHeadAttention": _attention,
    "Bidirectional": _both_ways,
    "TimeDistributed": _at_each_step,
}
