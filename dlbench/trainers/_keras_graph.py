"""The compiled functions of a Keras model and its optimizer: gradient, apply, step, evaluate.

Each is one TensorFlow graph. A worker's training batches are all of one size but an epoch's last, which has a graph of
its own: knowing the size lets TensorFlow plan ahead (1 to 2% of a step). Evaluation has a free batch size, so that an
odd last batch needs no new trace. Gradients leave and updates enter as one flat vector; packing is part of the graph. A
concrete function is called, not `tf.function` itself, which would spend twice the time on finding it.
"""

import copy
import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from dlbench.trainers import Problem

Reduce = Callable[[list[Any]], list[Any]]
# From a function to one that runs it on every replica; the number of its first arguments that are batches.
Everywhere = Callable[[Callable[..., Any], int], Callable[..., Any]]


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


class Graph:
    """What is compiled of one model.

    The objective is scale x the sum of the samples' losses, plus the model's own regularisation losses with
    weight scale x n: summed over workers whose scales are 1 / global batch size, regularisation counts once.

    Args:
        tf: The module.
        model: A built `keras.Model` that gives logits, or the number that is predicted.
        optimizer: A built optimizer.
        problem: How samples become numbers, and what is predicted of them.
        jit_compile: Compile with XLA.
        num_parts: A batch is differentiated in this many: `add` is called with all but the last, and `gradient` or
            `step` with that. Each part being its own call, its activations are gone when the next one starts,
            and no graph grows with their number. The memory is one more gradient, on each replica.
        everywhere: Where variables are mirrored, makes a function run on every replica.
    """

    def __init__(
        self,
        tf: Any,
        model: Any,
        optimizer: Any,
        problem: Problem,
        jit_compile: bool,
        num_parts: int = 1,
        everywhere: Everywhere | None = None,
    ) -> None:
        self._everywhere = everywhere
        self._tf, self._model, self.optimizer, self.problem = tf, model, optimizer, problem
        self._jit_compile, self.num_parts = jit_compile, num_parts
        self._loss_scale = getattr(optimizer, "dynamic_scale", None)
        self._variables = list(model.trainable_variables)
        self.dtype = tf.as_dtype(self._variables[0].dtype)
        self.on_accelerator = bool(tf.config.get_visible_devices("GPU"))
        self._added = [] if num_parts == 1 else [self._empty(variable) for variable in self._variables]
        # Replicas are traced in threads of their own.
        self._traced = threading.local()
        # Zeros that the graph's optimizer cannot see, one for each gradient. TensorFlow does not know that Horovod's
        # operations talk to others: of a constant it would compute one once for all steps, and two of the same tensor
        # it would make one.
        self._zeros = tf.Variable(tf.zeros([len(self._variables)], self.dtype), trainable=False)

    def of_first_replica(self) -> "Graph":
        """Return the same for the first replica alone."""
        other = copy.copy(self)
        other._everywhere = None
        return other

    def summing(self, in_forward: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a sum over workers for the forward pass to which one without samples contributes zeros.

        A product, not a tensor of zeros, so that such a worker takes part in the sum of the gradients as well.
        """

        def summed(tensor: Any) -> Any:
            if getattr(self._traced, "has_no_samples", False):
                tensor *= self._tf.cast(self._zeros[0], tensor.dtype)
            return in_forward(tensor)

        return summed

    def gradient(self, specs: InputSpecs) -> Any:
        """Return f(x, y) -> one vector: all gradients, then the sums of the scores."""
        tf = self._tf

        def gradient(x: Any, y: Any) -> Any:
            gradients, sums = self._differentiate(x, y, self._scale(specs))
            return tf.concat([*(tf.reshape(g, [-1]) for g in gradients), sums], 0)

        return self._compile(gradient, self._batch(specs))

    def apply(self) -> Any:
        """Return f(update): one optimizer step with a flat gradient; what follows it, such as sums, is not read."""
        return self._compile(lambda update: self._update(self._shaped(update)), (), self._flat())

    def assign(self) -> Any:
        """Return f(parameters): overwrite all trainable weights in one call, not one for each (3 ms for 65)."""

        def assign(parameters: Any) -> None:
            for variable, part in zip(self._variables, self._shaped(parameters), strict=True):
                variable.assign(part)

        return self._compile(assign, (), self._flat())

    def _flat(self) -> Any:
        return self._tf.TensorSpec([None], self.dtype)

    def _shaped(self, flat: Any) -> list[Any]:
        """Return the parts of a flat vector in the shapes of the variables."""
        sizes = [math.prod(variable.shape) for variable in self._variables]
        parts = self._tf.split(flat, [*sizes, -1])[:-1]
        return [self._tf.reshape(part, v.shape) for part, v in zip(parts, self._variables, strict=True)]

    def step(self, specs: InputSpecs, reduce: Reduce | None) -> Any:
        """Return f(x, y) -> sums [scores]: gradient, `reduce` and update."""

        def step(x: Any, y: Any) -> Any:
            gradients, sums = self._differentiate(x, y, self._scale(specs))
            self._update(gradients if reduce is None else list(reduce(gradients)))
            return sums

        return self._compile(step, self._batch(specs))

    def evaluate(self, specs: InputSpecs) -> Any:
        """Return f(x, y) -> sums [scores] in inference mode."""

        def evaluate(x: Any, y: Any) -> Any:
            return self._sums(self._scores(x, y, training=False))

        return self._compile(evaluate, self._batch(specs))

    def add(self, specs: InputSpecs) -> Any:
        """Return f(x, y) -> sums [scores], and keep the gradients."""

        def add(x: Any, y: Any) -> Any:
            gradients, sums = self._differentiate_part(x, y, self._scale(specs))
            for added, gradient in zip(self._added, gradients, strict=True):
                added.assign_add(gradient)
            return sums

        return self._compile(add, self._batch(specs))

    def _differentiate(self, x: Any, y: Any, scale: Any) -> tuple[list[Any], Any]:
        """Return (gradients and all that were kept, sums [scores]), and keep none any longer."""
        gradients, sums = self._differentiate_part(x, y, scale)
        if not self._added:
            return gradients, sums
        totals = [added.read_value() + gradient for added, gradient in zip(self._added, gradients, strict=True)]
        for added in self._added:
            added.assign(self._tf.zeros_like(added))
        return totals, sums

    def _empty(self, variable: Any) -> Any:
        """Return room for one variable's gradient; under mirrored variables each replica has its own."""
        tf = self._tf
        return tf.Variable(
            tf.zeros(variable.shape, self.dtype),
            trainable=False,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )

    def _differentiate_part(self, x: Any, y: Any, scale: Any) -> tuple[list[Any], Any]:
        """Return (gradients in the dtype of the flat vector, sums [scores])."""
        tf = self._tf
        if x.shape[0] == 0:
            return self._differentiate_nothing(x, y, scale)
        variables = [variable.value for variable in self._variables]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            scores = self._scores(x, y, training=True)
            objective = scale * tf.reduce_sum(scores[0])
            if self._model.losses:
                count = tf.cast(tf.shape(x)[0], self.dtype)
                objective += scale * count * tf.cast(tf.add_n(self._model.losses), self.dtype)
            objective = self._scaled(objective)
        gradients = tape.gradient(objective, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        # `convert_to_tensor` makes the sparse gradient of an embedding dense.
        dense = [self._unscaled(tf.cast(tf.convert_to_tensor(g), self.dtype)) for g in gradients]
        return dense, self._sums(scores)

    def _differentiate_nothing(self, x: Any, y: Any, scale: Any) -> tuple[list[Any], Any]:
        """Return zeros, without a use of the model: convolutions fail without a sample, and means would be 0 / 0.

        Where layers sum over workers in the forward pass, this worker must enter the same sums: it then differentiates
        a sample of zeros that weighs nothing, and puts back what that changes in other layers.
        """
        tf = self._tf
        summing = [layer for layer in self._model._flatten_layers() if getattr(layer, "reduce", None) is not None]
        if not summing:
            zeros = zip(self._variables, tf.unstack(self._zeros.read_value()), strict=True)
            no_sums = tf.zeros([len(self.problem.scores)], self.dtype)
            return [tf.fill(variable.shape, zero) for variable, zero in zeros], no_sums
        shared = {id(variable) for layer in summing for variable in layer.non_trainable_variables}
        unshared = [variable for variable in self._model.non_trainable_variables if id(variable) not in shared]
        before = [tf.identity(variable.value) for variable in unshared]
        x, y = (tf.zeros([1, *batch.shape[1:]], batch.dtype) for batch in (x, y))
        self._traced.has_no_samples = True
        try:
            gradients, sums = self._differentiate_part(x, y, scale * self._zeros[0])
        finally:
            self._traced.has_no_samples = False
        for variable, value in zip(unshared, before, strict=True):
            variable.assign(value)
        return gradients, sums * 0

    def _scores(self, x: Any, y: Any, training: bool) -> tuple[Any, Any]:
        """Return each sample's cross-entropy in nats and the share of its predictions that is correct.

        Where numbers are predicted, its squared error for both: it is the loss, too.
        """
        tf = self._tf
        logits = tf.cast(self._model(self._as_input(x), training=training), self.dtype)
        if not self.problem.num_classes:
            errors = tf.square(logits[:, 0] - tf.cast(y, self.dtype))
            return errors, errors
        labels = tf.cast(y, tf.int32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        correct = tf.cast(tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), labels), self.dtype)
        positions = list(range(1, 1 + len(self.problem.target_shape)))
        return (
            (tf.reduce_mean(losses, positions), tf.reduce_mean(correct, positions)) if positions else (losses, correct)
        )

    def _sums(self, scores: tuple[Any, ...]) -> Any:
        """Return sums [scores]: one tensor is fetched more cheaply than two."""
        return self._tf.stack([self._tf.reduce_sum(score) for score in scores])

    def _as_input(self, x: Any) -> Any:
        if self.problem.vocabulary is not None:
            return self._tf.cast(x, self._tf.int32)
        x = self._tf.cast(x, self.dtype)
        if self.problem.scale != 1.0:
            x *= self.problem.scale
        if self.problem.offset != 0.0:
            x += self.problem.offset
        return x

    def _update(self, gradients: list[Any]) -> None:
        """Run the optimizer; one that scales losses divides by its scale again and skips what is not finite."""
        self.optimizer.apply([self._scaled(gradient) for gradient in gradients], self._variables)

    def _scale(self, specs: InputSpecs) -> Any:
        return self._tf.constant(specs.scale, self.dtype)

    def _scaled(self, value: Any) -> Any:
        """Return value x the optimizer's loss scale, if it has one: a power of two, so that nothing is rounded."""
        return value if self._loss_scale is None else value * self._tf.cast(self._loss_scale, self.dtype)

    def _unscaled(self, value: Any) -> Any:
        return value if self._loss_scale is None else value / self._tf.cast(self._loss_scale, self.dtype)

    def _batch(self, specs: InputSpecs) -> tuple[Any, Any]:
        spec, problem = self._tf.TensorSpec, self.problem
        shapes = [specs.num_samples, *problem.input_shape], [specs.num_samples, *problem.target_shape]
        return spec(shapes[0], specs.x), spec(shapes[1], specs.y)

    def _compile(self, function: Callable[..., Any], batch: tuple[Any, ...], *others: Any) -> Any:
        """Return function(*batch, *others), compiled for tensors of these types and shapes."""
        if self._everywhere is not None:
            function = self._everywhere(function, len(batch))
        compiled = self._tf.function(function, (*batch, *others), autograph=False, jit_compile=self._jit_compile)
        return compiled.get_concrete_function()
