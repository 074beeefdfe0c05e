"""Keras 3 models on TensorFlow, each step one or two compiled calls."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dlbench.errors import UserError, nearest
from dlbench.plugins import Options, Plugin
from dlbench.scenario.settings import Settings
from dlbench.trainers import Array, Problem, Threads, _keras_forward, _keras_model, _keras_start, _processor, flatten
from dlbench.trainers._keras_graph import Graph, Kinds

OPTIONS = Options
BUILDER = _keras_model.BUILDER
OPTIMIZERS = ("sgd", "adam", "adamw", "rmsprop")
PRECISIONS = ("float32", "float64", "mixed_bfloat16", "mixed_float16")
JIT = True
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
    keras.utils.set_random_seed(seed)
    model = _keras_model.build(plugin, model_options, problem)
    optimizer = _optimizer(keras, settings)
    optimizer.build(model.trainable_variables)
    graph = Graph(tf, model, optimizer, problem, settings.jit_compile)
    return KerasTrainer(tf, keras, model, graph, settings.workers)


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
        floats = [v for v in model.non_trainable_variables if keras.backend.is_float_dtype(v.dtype)]
        self._statistics = floats
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
        return flatten([v.numpy() for v in self._weights], self._dtype)

    def set_parameters(self, flat: Array) -> None:
        """Overwrite all trainable weights."""
        _assign(self._weights, flat)

    def statistics(self) -> Array:
        """Return a copy of the moving statistics of batch norm, flat."""
        return flatten([v.numpy() for v in self._statistics], self._dtype)

    def set_statistics(self, flat: Array) -> None:
        """Overwrite the moving statistics."""
        _assign(self._statistics, flat)

    def replicas(self) -> list[Array]:
        """Return a copy of the trainable weights of the one replica of this process."""
        return [self.parameters()]

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
        call = self._call("gradient", Kinds(x.dtype, y.dtype, len(y)), self._graph.gradient)
        packed = _memory_of(call(self._tensor(x), self._tensor(y), self._scalar(scale)))
        return packed[:-2], *self._as_sums(packed[-2:])

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
        call = self._call("step", Kinds(x.dtype, y.dtype, len(y)), lambda kinds: self._graph.step(kinds, self._reduce))
        return self._as_sums(_memory_of(call(self._tensor(x), self._tensor(y), self._scalar(scale))))

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


def _assign(variables: list[Any], flat: Array) -> None:
    ends = np.cumsum([int(np.prod(v.shape)) for v in variables], dtype=np.int64)
    if flat.size != (ends[-1] if len(ends) else 0):
        raise ValueError(f"{flat.size} numbers do not fill variables of shapes {[tuple(v.shape) for v in variables]}")
    for variable, part in zip(variables, np.split(flat, ends[:-1]), strict=False):
        variable.assign(part.reshape(variable.shape))


def _optimizer(keras: Any, settings: Settings) -> Any:
    """Return the optimizer; its rate is set before each step. float16 alone needs its losses scaled."""
    optimizers = keras.optimizers
    made = {
        "sgd": lambda: optimizers.SGD(settings.learning_rate, momentum=settings.momentum),
        "adam": lambda: optimizers.Adam(settings.learning_rate),
        "adamw": lambda: optimizers.AdamW(settings.learning_rate),
        "rmsprop": lambda: optimizers.RMSprop(settings.learning_rate),
    }[settings.optimizer]()
    if settings.precision == "float64":
        _make_exact(made)
    return optimizers.LossScaleOptimizer(made) if settings.precision == "mixed_float16" else made


def _make_exact(optimizer: Any) -> None:
    """Keep the optimizer's constants in float64: Keras casts a Python float by way of float32 (0.9 by 2.4e-8 off)."""
    for name in ("momentum", "beta_1", "beta_2", "rho", "weight_decay"):
        value = getattr(optimizer, name, None)
        if isinstance(value, float):
            setattr(optimizer, name, np.float64(value))
