"""The compiled functions of a Keras model on TensorFlow: gradient, apply, step, evaluate.

Each is one TensorFlow graph. A worker's training batches are all of one size but an epoch's last, which has a graph of
its own: knowing the size lets TensorFlow plan ahead (1 to 2% of a step). Evaluation has a free batch size, so that an
odd last batch needs no new trace. Gradients leave and updates enter as one flat vector; packing is part of the graph. A
concrete function is called, not `tf.function` itself, which would spend twice the time on finding it.
"""

import contextlib
import copy
import functools
import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from dlbench.records import hardware
from dlbench.trainers import Array, BatchParts, Problem
from dlbench.trainers._graph import Graph, InputSpecs, Reduce

# From a function to one that runs it on every replica; the number of its first arguments that are batches.
Everywhere = Callable[[Callable[..., Any], int], Callable[..., Any]]
# What Eigen aligns tensors to; TensorFlow aborts the process on a tensor that is aligned to less.
ALIGNMENT = 64


class Buffers:
    """Memory that keeps its place, and TensorFlow's tensors of it.

    A copy into memory that is there costs less than a tensor of memory that is new: TensorFlow finds out its shape and
    type anew in each call (30 us).

    Args:
        tf: The module.
    """

    def __init__(self, tf: Any) -> None:
        self._tf = tf
        self._held: dict[tuple[str, tuple[int, ...], np.dtype[Any]], tuple[Array, Any]] = {}

    def tensor(self, name: str, array: Array) -> Any:
        """Return a tensor of an array's values, which the next array of this name, shape and type overwrites."""
        key = name, array.shape, array.dtype
        held = self._held.get(key)
        if held is None:
            memory = _aligned(array.shape, array.dtype)
            held = self._held[key] = memory, self._tf.experimental.dlpack.from_dlpack(memory.__dlpack__())
        np.copyto(held[0], array)
        return held[1]


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an empty array whose memory TensorFlow can use as it is."""
    num_bytes = math.prod(shape) * dtype.itemsize
    memory = np.empty(num_bytes + ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[start : start + num_bytes].view(dtype).reshape(shape)


class TensorFlowGraph(Graph):
    """What is compiled of one model; see `dlbench.trainers._graph.Graph`.

    Args:
        tf: The module.
        model: A built `keras.Model` that gives logits, or the number that is predicted.
        optimizer: A built optimizer.
        problem: How samples become numbers, and what is predicted of them.
        jit_compile: Compile with XLA.
        parts: In how many a batch is differentiated. No graph grows with their number; the memory is one more
            gradient, on each replica.
        everywhere: Where variables are mirrored, makes a function run on every replica.
    """

    def __init__(
        self,
        tf: Any,
        model: Any,
        optimizer: Any,
        problem: Problem,
        jit_compile: bool,
        parts: BatchParts,
        everywhere: Everywhere | None = None,
    ) -> None:
        self._everywhere = everywhere
        self._tf, self._model, self.optimizer, self.problem = tf, model, optimizer, problem
        self._jit_compile, self.parts = jit_compile, parts
        self._loss_scale = getattr(optimizer, "dynamic_scale", None)
        self._variables = list(model.trainable_variables)
        self._dtype = tf.as_dtype(self._variables[0].dtype)
        self.dtype: np.dtype[Any] = np.dtype(self._dtype.as_numpy_dtype)
        self._buffers = Buffers(tf)
        self.on_accelerator = bool(tf.config.get_visible_devices("GPU"))
        self._added = [self._empty(variable) for variable in self._variables] if parts.may_be_several else []
        # Replicas are traced in threads of their own.
        self._traced = threading.local()
        # Zeros that the graph's optimizer cannot see, one for each gradient. TensorFlow does not know that Horovod's
        # operations talk to others: of a constant it would compute one once for all steps, and two of the same tensor
        # it would make one.
        self._zeros = tf.Variable(tf.zeros([len(self._variables)], self._dtype), trainable=False)

    def of_first_replica(self) -> "TensorFlowGraph":
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

    def set_rows(self, number: int, rows: Array, values: Array) -> None:
        """Overwrite some rows of a trainable variable, in its own memory."""
        tf = self._tf
        self._variables[number].value.scatter_update(tf.IndexedSlices(tf.constant(values), tf.constant(rows)))

    def _flat(self) -> Any:
        return self._tf.TensorSpec([None], self._dtype)

    def _shaped(self, flat: Any) -> list[Any]:
        """Return the parts of a flat vector in the shapes of the variables."""
        sizes = [math.prod(variable.shape) for variable in self._variables]
        parts = self._tf.split(flat, [*sizes, -1])[:-1]
        return [self._tf.reshape(part, v.shape) for part, v in zip(parts, self._variables, strict=True)]

    def step(self, specs: InputSpecs, reduce: Reduce | None) -> Any:
        """Return f(x, y) -> sums [scores]: gradient, `reduce` and update."""
        return self._compile(functools.partial(self._train, specs, reduce), self._batch(specs))

    def steps(self, specs: InputSpecs, reduce: Reduce | None, number: int) -> Any:
        """Return f(x, y, learning rates) -> sums [scores] of as many steps, one after the other in one graph."""
        tf = self._tf
        rate = self.optimizer.learning_rate.dtype

        def steps(x: Any, y: Any, rates: Any) -> Any:
            parts = [tf.reshape(batch, [number, -1, *batch.shape[1:]]) for batch in (x, y)]

            def train(index: Any, sums: Any) -> tuple[Any, Any]:
                self.optimizer.learning_rate = rates[index]
                of_step = [tf.ensure_shape(part[index], part.shape[1:]) for part in parts]
                return index + 1, sums + self._train(specs, reduce, *of_step)

            begin = 0, tf.zeros([len(self.problem.scores)], self._dtype)
            if self._jit_compile and not self.on_accelerator:  # XLA's loops are slow there: see `JaxGraph.steps`
                return functools.reduce(lambda state, _: train(*state), range(number), begin)[1]
            return tf.while_loop(lambda index, _: index < number, train, begin, parallel_iterations=1)[1]

        compiled = self._compile(steps, self._batch(specs), tf.TensorSpec([number], rate))
        return lambda x, y, rates: compiled(x, y, tf.constant(rates, rate))

    def evaluate(self, specs: InputSpecs) -> Any:
        """Return f(x, y) -> sums [scores] in inference mode."""

        def evaluate(x: Any, y: Any) -> Any:
            return self._sums(self._scores(self._model(self._as_input(x), training=False), y))

        return self._compile(evaluate, self._batch(specs))

    def add(self, specs: InputSpecs) -> Any:
        """Return f(x, y) -> sums [scores], and keep the gradients."""

        def add(x: Any, y: Any) -> Any:
            gradients, sums = self._differentiate_part(x, y, self._scale(specs))
            for added, gradient in zip(self._added, gradients, strict=True):
                added.assign_add(gradient)
            return sums

        return self._compile(add, self._batch(specs))

    def gather(self, function: Callable[..., Any], arrays: tuple[Array, ...]) -> Callable[[Array], Any]:
        """Keep arrays on the device; return f(places) -> function(*arrays, places), compiled for each batch size."""
        held, compiled = [self._tf.constant(array) for array in arrays], self._tf.function(function, autograph=False)
        return lambda places: compiled(*held, self._tf.constant(places))

    def tensor(self, name: str, array: Array) -> Any:
        """Return a tensor of an array's values; the next one of this name may be in the same memory.

        Of mirrored variables, each replica's device fetches its slice of it from the processor.
        """
        with self._tf.device("CPU:0") if self._everywhere is not None else contextlib.nullcontext():
            if not array.size or self.on_accelerator:
                return self._tf.constant(array)
            return self._buffers.tensor(name, array)

    def array(self, tensor: Any) -> Array:
        """Return a tensor's values as a writable array: its own memory on a processor, else a copy.

        `Tensor.numpy()` copies what `_numpy()` returns (4 ms for 45 MB); DLPack gives a read-only array, which
        cannot be reduced in place.
        """
        direct = getattr(tensor, "_numpy", None)
        array: Array = direct() if direct is not None else tensor.numpy()
        return array if array.flags.writeable else array.copy()

    def synchronize(self) -> None:
        """Return once the device has done all it was given; on a processor it has when a call returns."""
        if self.on_accelerator:
            self._tf.test.experimental.sync_devices()

    def facts(self) -> dict[str, Any]:
        """Return TensorFlow's version, the device's name, and the threads that TensorFlow says it was given."""
        pools = self._tf.config.threading
        return {
            "backend": "tensorflow",
            "tensorflow_version": self._tf.__version__,
            "tf32": self.on_accelerator and self._tf.config.experimental.tensor_float_32_execution_enabled(),
            "device_name": self._device_name(),
            "intra_op_threads": pools.get_intra_op_parallelism_threads(),
            "inter_op_threads": pools.get_inter_op_parallelism_threads(),
        }

    def _device_name(self) -> str:
        devices = self._tf.config.get_visible_devices("GPU")
        if not devices:
            return hardware.processor()
        details = self._tf.config.experimental.get_device_details(devices[0])
        return str(details.get("device_name", devices[0].name))

    def _train(self, specs: InputSpecs, reduce: Reduce | None, x: Any, y: Any) -> Any:
        """Make one step; return its sums [scores]."""
        gradients, sums = self._differentiate(x, y, self._scale(specs))
        self._update(gradients if reduce is None else list(reduce(gradients)))
        return sums

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
            tf.zeros(variable.shape, self._dtype),
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
            scores = self._scores(self._model(self._as_input(x), training=True), y)
            objective = scale * tf.reduce_sum(scores[0])
            if self._model.losses:
                count = tf.cast(tf.shape(x)[0], self._dtype)
                objective += scale * count * tf.cast(tf.add_n(self._model.losses), self._dtype)
            objective = self._scaled(objective)
        gradients = tape.gradient(objective, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        # `convert_to_tensor` makes the sparse gradient of an embedding dense.
        dense = [self._unscaled(tf.cast(tf.convert_to_tensor(g), self._dtype)) for g in gradients]
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
            no_sums = tf.zeros([len(self.problem.scores)], self._dtype)
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

    def _classified(self, logits: Any, labels: Any) -> tuple[Any, Any]:
        losses = self._tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return losses, self._tf.argmax(logits, axis=-1, output_type=self._tf.int32)

    def _update(self, gradients: list[Any]) -> None:
        """Run the optimizer; one that scales losses divides by its scale again and skips what is not finite."""
        self.optimizer.apply([self._scaled(gradient) for gradient in gradients], self._variables)

    def _scale(self, specs: InputSpecs) -> Any:
        return self._tf.constant(specs.scale, self._dtype)

    def _scaled(self, value: Any) -> Any:
        """Return value x the optimizer's loss scale, if it has one: a power of two, so that nothing is rounded."""
        return value if self._loss_scale is None else value * self._tf.cast(self._loss_scale, self._dtype)

    def _unscaled(self, value: Any) -> Any:
        return value if self._loss_scale is None else value / self._tf.cast(self._loss_scale, self._dtype)

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
