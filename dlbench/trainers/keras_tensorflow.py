"""Keras 3 models on TensorFlow, each step one or two compiled calls."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dlbench.errors import UserError, nearest
from dlbench.plugins import Options, Plugin
from dlbench.scenario.settings import Settings
from dlbench.trainers import (
    Array,
    Problem,
    Threads,
    _keras_forward,
    _keras_model,
    _keras_optimizers,
    _keras_start,
    _keras_variables,
    _processor,
)
from dlbench.trainers._keras_graph import Graph, Kinds
from dlbench.trainers._parts import cut

OPTIONS = Options
BUILDER = _keras_model.BUILDER
OPTIMIZERS = tuple(_keras_optimizers.CLASSES)
OPTIMIZER_SETTINGS = _keras_optimizers.OPTIMIZER_SETTINGS
PRECISIONS = ("float32", "float64", "mixed_bfloat16", "mixed_float16")
JIT = True
ACCUMULATES = True
BACKEND = "tensorflow"

# What Eigen aligns tensors to; TensorFlow aborts the process when it meets a tensor aligned to less.
ALIGNMENT = 64


def start(settings: Settings, threads: Threads) -> None:
    """Load TensorFlow and Keras with the run's threads, devices and precision; `create` may follow.

    Raises:
        UserError: TensorFlow or Keras is missing, or there are too few accelerators.
    """
    _keras_start.start(settings.precision.value, threads)


def create(
    settings: Settings,
    plugin: Plugin,
    model_options: Options,
    options: Options,
    problem: Problem,
    seed: int,
    threads: Threads,
) -> "KerasTrainer":
    """Return a replica of the model; see `dlbench.trainers`.

    Raises:
        UserError: TensorFlow is missing, or the model, the optimizer or the precision cannot be used.
    """
    if settings.optimizer not in OPTIMIZERS:
        raise UserError(
            f"the keras_tensorflow trainer has no optimizer {settings.optimizer!r}; it has: {', '.join(OPTIMIZERS)}",
            hint=nearest(settings.optimizer, OPTIMIZERS),
        )
    tf, keras = _keras_start.start(settings.precision.value, threads)
    # Before the first operation: several processes cannot meet after it.
    distribution = None if threads.distribution is None else threads.distribution(tf)
    keras.utils.set_random_seed(seed)

    def make() -> tuple[Any, Any]:
        model, optimizer = _keras_model.build(plugin, model_options, problem), _keras_optimizers.make(keras, settings)
        optimizer.build(model.trainable_variables)
        return model, optimizer

    how = problem, settings.jit_compile, settings.gradient_accumulation_steps
    if distribution is None:
        model, optimizer = make()
        return KerasTrainer(tf, keras, model, Graph(tf, model, optimizer, *how), settings.workers)
    from dlbench.trainers._keras_replicas import Devices, ReplicatedTrainer

    devices = Devices(tf, distribution, threads.replicas or 1)
    with distribution.scope():
        model, optimizer = make()
        graph = Graph(tf, model, optimizer, *how, devices.everywhere)
    return ReplicatedTrainer(tf, keras, model, graph, settings.workers, devices)


class KerasTrainer:
    """One replica: weights live in the model, and flat NumPy vectors go in and out without a copy where possible.

    The flat order is that of `model.trainable_variables`, for the moving statistics that of
    `model.non_trainable_variables`.
    """

    def __init__(self, tf: Any, keras: Any, model: Any, graph: Graph, num_workers: int) -> None:
        self._tf, self._keras, self._model, self._graph = tf, keras, model, graph
        self._num_workers = num_workers
        self._weights = list(model.trainable_variables)
        # Counters and the states of random generators are whole numbers: they are no statistics.
        others = [(v, keras.backend.is_float_dtype(v.dtype)) for v in model.non_trainable_variables]
        self._statistics = [v for v, is_float in others if is_float]
        self._remembered = [*graph.optimizer.variables, *(v for v, is_float in others if not is_float)]
        self._dtype = np.dtype(graph.dtype.as_numpy_dtype)
        self._compiled: dict[tuple[str, Kinds | None], Any] = {}
        self._reduce: Callable[[list[Any]], list[Any]] | None = None
        self._scale: tuple[float, Any] = (float("nan"), None)
        self._learning_rate = float("nan")
        self._has_positions = bool(graph.problem.target_shape)
        self.num_parameters = sum(int(np.prod(v.shape)) for v in self._weights)
        self.flops_per_sample = _keras_model.flops(model)

    def parameters(self) -> Array:
        """Return a copy of all trainable weights, flat."""
        return _keras_variables.read(self._weights, self._dtype)

    def set_parameters(self, flat: Array) -> None:
        """Overwrite all trainable weights."""
        _keras_variables.assign(self._weights, flat)

    def statistics(self) -> Array:
        """Return a copy of the moving statistics of batch norm, flat."""
        return _keras_variables.read(self._statistics, self._dtype)

    def set_statistics(self, flat: Array) -> None:
        """Overwrite the moving statistics."""
        _keras_variables.assign(self._statistics, flat)

    def replicas(self) -> list[Array]:
        """Return a copy of the trainable weights of the one replica of this process."""
        return [self.parameters()]

    def optimizer_state(self) -> Array:
        """Return a copy of slots, counters, loss scale, and the states of random generators (dropout), flat float64."""
        return _keras_variables.read(self._remembered, np.float64)

    def set_optimizer_state(self, flat: Array) -> None:
        """Overwrite all of it: with parameters and statistics, steps then go on to the bit as they would have."""
        _keras_variables.assign(self._remembered, flat)
        self._learning_rate = float("nan")

    def compile(
        self, in_graph: Callable[[list[Any]], list[Any]] | None, in_forward: Callable[[Any], Any] | None = None
    ) -> None:
        """Keep the hooks; each call is traced when first used, for its kinds of numbers and batch size.

        Raises:
            UserError: A layer needs a sum over workers in the forward pass, and there is none.
        """
        _keras_forward.hand_in(self._model, in_forward, self._num_workers)
        self._reduce = in_graph
        self._compiled.clear()

    def gradient(self, x: Array, y: Array, scale: float) -> tuple[Array, float, float]:
        """Return (flat gradient of scale x the sum of the losses, sum of the losses, correct predictions).

        The gradient is TensorFlow's own memory, fresh in each call, not a copy of it.
        """
        x, y, loss, correct = self._but_for_the_last(x, y, scale)
        call = self._call("gradient", Kinds(x.dtype, y.dtype, len(y)), self._graph.gradient)
        packed = _memory_of(call(self._tensor(x), self._tensor(y), self._scalar(scale)))
        last_loss, last_correct = self._as_sums(packed[-2:])
        return packed[:-2], loss + last_loss, correct + last_correct

    def apply(self, update: Array, learning_rate: float) -> None:
        """Apply one optimizer step with the reduced flat gradient; done when it returns."""
        self._set_learning_rate(learning_rate)
        call = self._compiled.get(("apply", None))
        if call is None:
            call = self._compiled["apply", None] = self._graph.apply()
        call(self._tensor(update))
        self.synchronize()

    def step(self, x: Array, y: Array, scale: float, learning_rate: float) -> tuple[float, float]:
        """Run gradient, hook and update in one compiled call; return (sum of the losses, correct predictions)."""
        self._set_learning_rate(learning_rate)
        x, y, loss, correct = self._but_for_the_last(x, y, scale)
        call = self._call("step", Kinds(x.dtype, y.dtype, len(y)), lambda kinds: self._graph.step(kinds, self._reduce))
        sums = _memory_of(call(self._tensor(x), self._tensor(y), self._scalar(scale)))
        last_loss, last_correct = self._as_sums(sums)
        return loss + last_loss, correct + last_correct

    def evaluate(self, x: Array, y: Array) -> tuple[float, float]:
        """Return (sum of the losses, correct predictions) of one batch of any size, in inference mode."""
        call = self._call("evaluate", Kinds(x.dtype, y.dtype), self._graph.evaluate)
        return self._as_sums(_memory_of(call(self._tensor(x), self._tensor(y))))

    def synchronize(self) -> None:
        """Return once the device has done all it was given; on a processor it has when a call returns."""
        if self._graph.on_accelerator:
            self._tf.test.experimental.sync_devices()

    def facts(self) -> dict[str, Any]:
        """Return versions, the device's name, and the threads that TensorFlow says it was given."""
        threading = self._tf.config.threading
        return {
            "backend": BACKEND,
            "keras_version": self._keras.version(),
            "tensorflow_version": self._tf.__version__,
            "numpy_version": np.__version__,
            "device_name": self._device_name(),
            "intra_op_threads": threading.get_intra_op_parallelism_threads(),
            "inter_op_threads": threading.get_inter_op_parallelism_threads(),
        }

    def _device_name(self) -> str:
        devices = self._tf.config.get_visible_devices("GPU")
        if not devices:
            return _processor.name()
        details = self._tf.config.experimental.get_device_details(devices[0])
        return str(details.get("device_name", devices[0].name))

    def _but_for_the_last(self, x: Array, y: Array, scale: float) -> tuple[Array, Array, float, float]:
        """Differentiate all parts of a batch but the last; return that one, and the sums of those before it."""
        loss, correct = 0.0, 0.0 if self._has_positions else 0
        if self._graph.num_parts == 1:
            return x, y, loss, correct
        *parts, last = cut(len(y), self._graph.num_parts)
        for part in parts:
            call = self._call("add", Kinds(x.dtype, y.dtype, len(y[part])), self._graph.add)
            sums = _memory_of(call(self._tensor(x[part]), self._tensor(y[part]), self._scalar(scale)))
            loss, correct = (a + b for a, b in zip((loss, correct), self._as_sums(sums), strict=True))
        return x[last], y[last], loss, correct

    def _call(self, name: str, kinds: Kinds, make: Callable[[Kinds], Any]) -> Any:
        call = self._compiled.get((name, kinds))
        if call is None:
            call = self._compiled[name, kinds] = make(kinds)
        return call

    def _tensor(self, array: Array) -> Any:
        """Return a tensor that shares the array's memory where TensorFlow can use it, else one with a copy."""
        interface = array.__array_interface__
        address, read_only = interface["data"]
        if read_only or address % ALIGNMENT or not array.flags.c_contiguous or self._graph.on_accelerator:
            return self._tf.constant(array)
        return self._tf.experimental.dlpack.from_dlpack(array.__dlpack__())

    def _as_sums(self, sums: Array) -> tuple[float, float]:
        """Return (sum of the losses, correct predictions), the latter whole where a sample has one class."""
        loss, correct = float(sums[0]), float(sums[1])
        return loss, correct if self._has_positions else round(correct)

    def _scalar(self, value: float) -> Any:
        if self._scale[0] != value:
            self._scale = (value, self._tf.constant(value, self._graph.dtype))
        return self._scale[1]

    def _set_learning_rate(self, value: float) -> None:
        if self._learning_rate != value:
            self._graph.optimizer.learning_rate = value
            self._learning_rate = value


def _memory_of(tensor: Any) -> Array:
    """Return a tensor's values as a writable array: its own memory on a processor, else a copy.

    `Tensor.numpy()` copies what `_numpy()` returns (4 ms for 45 MB); DLPack gives a read-only array, into which
    nobody could reduce in place.
    """
    direct = getattr(tensor, "_numpy", None)
    array: Array = direct() if direct is not None else tensor.numpy()
    return array if array.flags.writeable else array.copy()
