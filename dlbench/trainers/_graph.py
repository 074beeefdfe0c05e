"""What `KerasTrainer` asks of an engine: functions compiled of a Keras model, and tensors of arrays.

`Graph` is the base of the engines' own classes: it holds what is the same on all of them.

Each function is compiled when it is first used, for the types and the size of its batch. Tensors are the engine's own:
only the graph that made one looks into it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from dlbench.trainers import Array, BatchParts, Problem

Reduce = Callable[[list[Any]], list[Any]]


class InputSpecs(NamedTuple):
    """What a graph is made for: the types of samples and classes, the batch size, None for any, and the losses' scale.

    The scale is a constant of the graph: to pass one more tensor costs 30 us. It also tells an epoch's last steps from
    full ones on all processes alike: TensorFlow's collectives are numbered as they are traced, so that where one
    process traces a graph all have to.
    """

    x: Any
    y: Any
    num_samples: int | None = None
    scale: float | None = None


class Graph(Protocol):
    """The compiled functions of one model and its optimizer.

    The objective is scale x the sum of the samples' losses, plus the model's own regularisation losses with
    weight scale x n: summed over workers whose scales are 1 / global batch size, regularisation counts once.

    Attributes:
        optimizer: A built Keras optimizer.
        problem: How samples become numbers, and what is predicted of them.
        parts: In how many a batch is differentiated: `add` is called with all but the last, and `gradient` or
            `step` with that. Each part being its own call, its activations are gone when the next one starts.
        dtype: Of the flat vectors.
        on_accelerator: Whether tensors are in a device's own memory.
        num_rehearsals: How often a function is called before it is as quick as it gets.
        runs_ahead: Whether calls return before the device has made what was asked, and results may be read later.
    """

    optimizer: Any
    problem: Problem
    parts: BatchParts
    dtype: np.dtype[Any]
    on_accelerator: bool
    runs_ahead: bool = False
    num_rehearsals: int = 1

    def summing(self, in_forward: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a sum over workers for the forward pass to which one without samples contributes zeros."""
        return in_forward

    def set_learning_rate(self, value: float) -> None:
        """Set the rate of the next updates."""
        self.optimizer.learning_rate = value

    def gradient(self, specs: InputSpecs) -> Callable[[Any, Any], Any]:
        """Return f(x, y) -> one vector: all gradients, then the sums of the scores."""

    def apply(self) -> Callable[[Any], Any]:
        """Return f(update): one optimizer step with a flat gradient; what follows it, such as sums, is not read."""

    def assign(self) -> Callable[[Any], Any]:
        """Return f(parameters): overwrite all trainable weights in one call."""

    def set_rows(self, number: int, rows: Array, values: Array) -> None:
        """Overwrite some rows of a trainable variable that is a matrix."""

    def step(self, specs: InputSpecs, reduce: Reduce | None) -> Callable[[Any, Any], Any]:
        """Return f(x, y) -> sums [scores]: gradient, `reduce` and update."""

    def steps(self, specs: InputSpecs, reduce: Reduce | None, number: int) -> Callable[[Any, Any, Array], Any]:
        """Return f(x, y, learning rates [number]) -> sums [scores] of as many steps, each on its part of the samples.

        `specs` are of all samples together, but for the scale, which is one step's.
        """

    def evaluate(self, specs: InputSpecs) -> Callable[[Any, Any], Any]:
        """Return f(x, y) -> sums [scores] in inference mode."""

    def add(self, specs: InputSpecs) -> Callable[[Any, Any], Any]:
        """Return f(x, y) -> sums [scores], and keep the gradients."""

    def gather(self, function: Callable[..., Any], arrays: tuple[Array, ...]) -> Callable[[Array], Any]:
        """Keep arrays on the device; return f(places) -> function(*arrays, places), compiled where that pays."""

    def tensor(self, name: str, array: Array) -> Any:
        """Return a tensor of an array's values; the next one of this name may be in the same memory."""

    def array(self, tensor: Any) -> Array:
        """Return a tensor's values as a writable array: its own memory where that is possible, else a copy."""

    def fetch(self, tensor: Any) -> Callable[[], Array]:
        """Return what waits for a tensor and returns its values; other calls may follow before it is called."""
        return lambda: self.array(tensor)

    def synchronize(self) -> None:
        """Return once the device has done all it was given."""

    def facts(self) -> dict[str, Any]:
        """Return versions, the device's name and counted threads, by column."""

    def _classified(self, logits: Any, labels: Any) -> tuple[Any, Any]:
        """Return the cross-entropy in nats and the predicted class of each label (int32)."""
        raise NotImplementedError

    def _scores(self, outputs: Any, y: Any) -> tuple[Any, Any]:
        """Return each sample's cross-entropy in nats and the share of its predictions that is correct.

        Where numbers are predicted, its squared error for both: it is the loss, too.
        """
        from keras import ops

        outputs = ops.cast(outputs, self.dtype.name)
        if not self.problem.num_classes:
            errors = ops.square(outputs[:, 0] - ops.cast(y, self.dtype.name))
            return errors, errors
        labels = ops.cast(y, "int32")
        losses, predicted = self._classified(outputs, labels)
        correct = ops.cast(predicted == labels, self.dtype.name)
        positions = tuple(range(1, 1 + len(self.problem.target_shape)))
        return (ops.mean(losses, positions), ops.mean(correct, positions)) if positions else (losses, correct)

    def _sums(self, scores: tuple[Any, Any]) -> Any:
        """Return sums [scores]: one tensor is fetched more cheaply than two."""
        from keras import ops

        return ops.stack([ops.sum(score) for score in scores])

    def _as_input(self, x: Any) -> Any:
        """Return samples as they enter the model."""
        from keras import ops

        if self.problem.vocabulary is not None:
            return ops.cast(x, "int32")
        return self.problem.scaled(ops.cast(x, self.dtype.name))
