"""A stack of dense ReLU layers in NumPy: forward, loss and backward in buffers that are made once.

All weights are views into one flat vector, layer by layer, kernel [in, out] row by row and then bias [out]: the order
of a Keras model of the same `Dense` layers, so that flat parameters and gradients can be exchanged with it.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from dlbench.trainers import Array, Sums, places

# Takes outputs [n, outputs] and targets [n], may overwrite the outputs, writes the derivative of the sum of the losses
# by them, and returns the sums over the samples.
Loss = Callable[[Array, Array, Array], Sums]


def cross_entropy(logits: Array, y: Array, delta: Array) -> Sums:
    """Return the sum of softmax cross-entropies in nats and the number of correct predictions; see `Loss`."""
    rows = np.arange(len(y))
    correct = int(np.count_nonzero(logits.argmax(axis=1) == y))
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=delta)
    totals = delta.sum(axis=1, keepdims=True)
    losses = np.log(totals[:, 0]) - logits[rows, y]
    delta /= totals
    delta[rows, y] -= 1
    return {"loss": float(losses.sum(dtype=np.float64)), "accuracy": correct}


def squared_error(outputs: Array, y: Array, delta: Array) -> Sums:
    """Return the sum of the squared errors; see `Loss`."""
    np.subtract(outputs, y[:, np.newaxis], out=delta)
    total = float(np.square(delta).sum(dtype=np.float64))
    delta *= 2
    return {"loss": total, "mean_squared_error": total}


class Layer:
    """Views of one layer's weights and gradients, and room for its activations of a batch."""

    def __init__(self, parameters: Array, gradient: Array, num_inputs: int, num_outputs: int) -> None:
        size = num_inputs * num_outputs
        self.kernel = parameters[:size].reshape(num_inputs, num_outputs)
        self.bias = parameters[size:]
        self.kernel_gradient = gradient[:size].reshape(num_inputs, num_outputs)
        self.bias_gradient = gradient[size:]
        self.output: Array = np.empty((0, num_outputs), parameters.dtype)
        self.delta: Array = np.empty((0, num_outputs), parameters.dtype)

    def allocate_buffers(self, num_samples: int) -> None:
        """Hold at least this many samples; room never shrinks."""
        shape = (num_samples, self.kernel.shape[1])
        self.output = np.empty(shape, self.output.dtype)
        self.delta = np.empty(shape, self.output.dtype)

    def forward(self, inputs: Array) -> Array:
        """Return inputs @ kernel + bias in this layer's own buffer."""
        output = self.output[: len(inputs)]
        np.dot(inputs, self.kernel, out=output)
        output += self.bias
        return output

    def backward(self, inputs: Array, delta: Array) -> None:
        """Write the gradients of kernel and bias for the loss's derivative `delta` by this layer's output."""
        np.dot(inputs.T, delta, out=self.kernel_gradient)
        np.add.reduce(delta, axis=0, out=self.bias_gradient)


class DenseStack:
    """Dense layers with ReLU between them and a loss above; no hidden layer: softmax or linear regression.

    Args:
        widths: Number of inputs, hidden widths, number of outputs.
        loss: Of outputs and targets.
        dtype: float32 or float64.
        seed: Of the first kernels: normal, with variance 2 / inputs below a ReLU (He et al. 2015) and 1 / inputs
            below the loss. Biases start at zero.
    """

    def __init__(self, widths: tuple[int, ...], loss: Loss, dtype: type[np.floating], seed: int) -> None:
        self._loss = loss
        layers = places((inputs + 1, outputs) for inputs, outputs in pairwise(widths))
        self.parameters: Array = np.zeros(layers[-1].stop, dtype)
        self.gradient: Array = np.zeros_like(self.parameters)
        self.layers = [
            Layer(self.parameters[place], self.gradient[place], *shape)
            for shape, place in zip(pairwise(widths), layers, strict=True)
        ]
        self._room = 0
        self._initialize(np.random.default_rng(seed))

    def evaluate(self, x: Array, y: Array) -> Sums:
        """Return the sums over samples x [n, inputs] with targets y [n]."""
        return self._loss(self._forward(x)[-1], y, self.layers[-1].delta[: len(y)])

    def differentiate(self, x: Array, y: Array, scale: float) -> Sums:
        """Write the gradient of scale x the sum of the losses; return the sums over the samples."""
        sums = self.evaluate(x, y)
        delta = self.layers[-1].delta[: len(y)]
        delta *= scale
        self._backward(x, delta)
        return sums

    def _forward(self, x: Array) -> list[Array]:
        if len(x) > self._room:
            self._room = len(x)
            for layer in self.layers:
                layer.allocate_buffers(self._room)
        outputs = [x]
        for layer in self.layers[:-1]:
            output = layer.forward(outputs[-1])
            outputs.append(np.maximum(output, 0, out=output))
        outputs.append(self.layers[-1].forward(outputs[-1]))
        return outputs

    def _backward(self, x: Array, delta: Array) -> None:
        for above, layer in zip(reversed(self.layers), reversed(self.layers[:-1]), strict=False):
            activation = layer.output[: len(x)]
            above.backward(activation, delta)
            below = layer.delta[: len(x)]
            np.dot(delta, above.kernel.T, out=below)
            below *= activation > 0
            delta = below
        self.layers[0].backward(x, delta)

    def _initialize(self, random: np.random.Generator) -> None:
        for layer in self.layers:
            gain = 1.0 if layer is self.layers[-1] else 2.0
            layer.kernel[...] = random.normal(0.0, (gain / len(layer.kernel)) ** 0.5, layer.kernel.shape)
