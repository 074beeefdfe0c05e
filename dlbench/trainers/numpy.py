"""Softmax and linear regression and ReLU networks in plain NumPy, on the processor; starts in a tenth of a second."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dlbench.errors import UserError
from dlbench.plugins import Options, Plugin
from dlbench.records import hardware
from dlbench.scenario.settings import Settings
from dlbench.trainers import Array, BatchParts, Problem, Sums, Threads, added
from dlbench.trainers._dense import DenseStack, cross_entropy, squared_error
from dlbench.trainers._flat_optimizers import FLAT_OPTIMIZERS, FlatOptimizer, make_flat_optimizer

OPTIONS = Options
BUILDER = "numpy"
OPTIMIZERS = FLAT_OPTIMIZERS
OPTIMIZER_SETTINGS = {"momentum": ("sgd",), "nesterov": ("sgd",), "weight_decay": OPTIMIZERS}
ACCUMULATES = True
PRECISIONS = ("float32", "float64")
BACKEND = "numpy"


def create(
    settings: Settings,
    plugin: Plugin,
    model_options: Options,
    options: Options,
    problem: Problem,
    seed: int,
    threads: Threads,
) -> "NumpyTrainer":
    """Return a replica of the model; see `dlbench.trainers`.

    Raises:
        UserError: The model has no `numpy` builder, samples are tokens or have positions, or optimizer or precision is
            none of this trainer's.
    """
    builder = plugin.get(BUILDER)
    if builder is None:
        raise UserError(
            f"the numpy trainer cannot train model {plugin.name!r}: it has no `numpy` builder",
            hint="use `trainer: keras_tensorflow`, or one of the models softmax and mlp",
        )
    if problem.vocabulary is not None or problem.target_shape:
        raise UserError("the numpy trainer takes samples of numbers with one target each: no tokens, no sequences")
    if settings.precision not in PRECISIONS:
        raise UserError(f"the numpy trainer computes in {' or '.join(PRECISIONS)}, not in {settings.precision}")
    num_threads = _limit_threads(threads.intra_op)
    widths = (math.prod(problem.input_shape), *builder(problem, model_options), problem.num_outputs)
    loss = cross_entropy if problem.num_classes else squared_error
    stack = DenseStack(widths, loss, np.dtype(settings.precision.value).type, seed)
    optimizer = make_flat_optimizer(settings, stack.parameters)
    return NumpyTrainer(stack, optimizer, problem, num_threads, BatchParts.of(settings))


class NumpyTrainer:
    """One replica; everything it computes with is allocated once and written in place."""

    def __init__(
        self, stack: DenseStack, optimizer: FlatOptimizer, problem: Problem, num_threads: int, parts: BatchParts
    ) -> None:
        self._stack = stack
        self._parts = parts
        self._total: Array = np.empty_like(stack.gradient if parts.may_be_several else stack.gradient[:0])
        self._optimizer = optimizer
        self._problem = problem
        self._num_threads = num_threads
        self._input: Array = np.empty((0, math.prod(problem.input_shape)), stack.parameters.dtype)
        self._reduce: Callable[[list[Any]], list[Any]] | None = None
        kernels = (layer.kernel.shape for layer in stack.layers)
        self.shapes = tuple(shape for kernel in kernels for shape in (kernel, kernel[1:]))
        self.num_parameters = stack.parameters.size
        self.scores = problem.scores
        self.flops_per_sample: float | None = 3.0 * sum(2 * layer.kernel.size for layer in stack.layers)

    def parameters(self) -> Array:
        """Return a copy of all weights: layer by layer, kernel [in, out] and then bias [out]."""
        return self._stack.parameters.copy()

    def set_parameters(self, flat: Array) -> None:
        """Overwrite all weights."""
        self._stack.parameters[...] = flat

    def state(self, *names: str) -> dict[str, Array]:
        """Return copies of all that training changes, or of what is named; dense layers have no moving statistics."""
        state = {
            "parameters": self.parameters,
            "statistics": lambda: np.empty(0, self._stack.parameters.dtype),
            "optimizer": self._optimizer.state,
        }
        return {name: state[name]() for name in names or state}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Overwrite what is named.

        Raises:
            ValueError: A vector has more or fewer numbers than what it overwrites.
        """
        overwrite = {
            "parameters": self.set_parameters,
            "statistics": _refuse_statistics,
            "optimizer": self._optimizer.set_state,
        }
        for name, flat in state.items():
            overwrite[name](flat)

    def replicas(self) -> list[Array]:
        """Return a copy of the weights of the one replica of this process."""
        return [self.parameters()]

    def compile(
        self, in_graph: Callable[[list[Any]], list[Any]] | None, in_forward: Callable[[Any], Any] | None = None
    ) -> None:
        """Keep the hook for `step`: it is given one array for each kernel and bias. No layer needs `in_forward`."""
        self._reduce = in_graph

    def gradient(self, x: Array, y: Array, scale: float) -> tuple[Array, Sums]:
        """Return (flat gradient of scale x the sum of the losses, sums over the samples)."""
        # A diverging run is recognised by its loss; NumPy's warnings would only repeat it.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if self._parts.number(len(y)) > 1:
                return self._accumulate(x, y, scale)
            return self._stack.gradient, self._stack.differentiate(self._as_input(x), y, scale)

    def apply(self, update: Array, learning_rate: float) -> None:
        """Apply one optimizer step with the reduced flat gradient."""
        with np.errstate(over="ignore", invalid="ignore"):
            self._optimizer.apply(self._stack.parameters, update, learning_rate)

    def step(self, x: Array, y: Array, scale: float, learning_rate: float) -> Sums:
        """Run gradient, hook and update; return the sums over the samples."""
        flat, sums = self.gradient(x, y, scale)
        if self._reduce is not None:
            parts = [part for layer in self._stack.layers for part in (layer.kernel_gradient, layer.bias_gradient)]
            for part, reduced in zip(parts, self._reduce(parts), strict=True):
                part[...] = reduced
        self.apply(flat, learning_rate)
        return sums

    def evaluate(self, x: Array, y: Array) -> Sums:
        """Return the sums over one batch of any size."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self._stack.evaluate(self._as_input(x), y)

    def synchronize(self) -> None:
        """Return at once: NumPy computes synchronously."""

    def facts(self) -> dict[str, Any]:
        """Return versions, the processor's name, and the threads of the linear algebra library as counted."""
        return {
            "backend": BACKEND,
            "numpy_version": np.__version__,
            "device_name": hardware.processor(),
            "intra_op_threads": self._num_threads,
            "inter_op_threads": 1,
        }

    def _accumulate(self, x: Array, y: Array, scale: float) -> tuple[Array, Sums]:
        """Differentiate part by part; the sum ends in the stack's own gradient, of which `step` hands out views."""
        sums: Sums = dict.fromkeys(self.scores, 0)
        self._total[...] = 0
        for part in self._parts.cut(len(y)):
            sums = added(sums, self._stack.differentiate(self._as_input(x[part]), y[part], scale))
            self._total += self._stack.gradient
        self._stack.gradient[...] = self._total
        return self._stack.gradient, sums

    def _as_input(self, x: Array) -> Array:
        """Return samples as [n, inputs] numbers of the run's precision: x scale + offset, in its own buffer."""
        if len(x) > len(self._input):
            self._input = np.empty((len(x), self._input.shape[1]), self._input.dtype)
        inputs = self._input[: len(x)]
        np.copyto(inputs, x.reshape(inputs.shape), casting="unsafe")
        if self._problem.scale != 1.0:
            inputs *= self._problem.scale
        if self._problem.offset != 0.0:
            inputs += self._problem.offset
        return inputs


def _limit_threads(num_threads: int) -> int:
    """Give the linear algebra library this many threads; return how many it then says it has."""
    from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]

    threadpool_limits(num_threads, user_api="blas")
    counted = [int(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(counted, default=1)


def _refuse_statistics(flat: Array) -> None:
    if flat.size:
        raise ValueError(f"there are no moving statistics to overwrite with {flat.size} numbers")
