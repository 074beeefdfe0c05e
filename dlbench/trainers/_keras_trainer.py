"""A Keras model as a `Trainer`, on any of Keras's engines: flat NumPy vectors in and out, each step a call or two.

What an engine does its own way is its graph's: `dlbench.trainers._graph`.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dlbench.errors import UserError
from dlbench.trainers import Array, DeviceArray, Gather, Sums, _keras_model, added, flatten, unflatten
from dlbench.trainers._graph import Graph, InputSpecs
from dlbench.trainers._keras_optimizers import all_variables

# What Keras calls the state of a `SeedGenerator`: its seed, and how often it has drawn.
SEED_STATE = "seed_generator_state"
# Keras takes seeds modulo this (`keras/src/backend/tensorflow/random.py`), and the stride has no divisor in common
# with it: no two workers' seeds are the same.
NUM_SEEDS = 2**31 - 2
SEED_STRIDE = 1_000_000_007


def read(variables: list[Any], dtype: Any) -> Array:
    """Return a copy of all values, flat. float64 holds each exactly: whole numbers in them are far below 2**53."""
    return flatten([variable.numpy() for variable in variables], dtype)


def assign(variables: list[Any], flat: Array) -> None:
    """Overwrite all values.

    Raises:
        ValueError: There are more or fewer numbers than the variables hold.
    """
    shapes = [tuple(variable.shape) for variable in variables]
    if flat.size != sum(map(math.prod, shapes)):
        raise ValueError(f"{flat.size} numbers do not fill variables of shapes {shapes}")
    for variable, part in zip(variables, unflatten(flat, shapes), strict=True):
        # Keras names a variable's dtype, TensorFlow has its own kind for it.
        dtype = getattr(variable.dtype, "as_numpy_dtype", variable.dtype)
        variable.assign(part.astype(dtype))  # a copy: JAX may keep the array's own memory


def shifted(seeds: Array, worker: int) -> Array:
    """Return the states of generators, flat pairs of (seed, count), moved to those of another worker."""
    pairs = seeds.reshape(-1, 2).copy()
    pairs[:, 0] = (pairs[:, 0] + worker * SEED_STRIDE) % NUM_SEEDS
    return pairs.ravel()


def set_reduce(model: Any, in_forward: Callable[[Any], Any] | None, num_workers: int) -> None:
    """Set the attribute `reduce` of every layer that has one, nested layers included, to a sum over workers.

    With one worker a layer may do without: its own batch is the whole one.

    Raises:
        UserError: A layer needs the sum of several workers and the strategy has none.
    """
    needing = [layer for layer in model._flatten_layers() if hasattr(layer, "reduce")]
    if needing and in_forward is None and num_workers > 1:
        raise UserError(
            f"the layer {needing[0].name} needs a sum over all {num_workers} workers in the forward pass "
            "(synchronised batch norm), which this strategy does not have",
            hint="use a strategy that reduces inside the step, such as horovod or mirrored, or local batch norm",
        )
    for layer in needing:
        layer.reduce = in_forward


def gathered(ops: Any, padding: int | None, x: Any, y: Any, places: Any) -> tuple[Any, Any]:
    """Return samples by their number, pictures cropped and mirrored where there is a padding.

    Args:
        ops: Keras's.
        padding: Pixels of zeros on each side of a picture; None where samples stay as they are.
        x: All samples [N, ...].
        y: What is to be predicted of each [N, ...].
        places: See `dlbench.trainers.Trainer`, `hold`.
    """
    numbers = places[:, 0]
    x, y = ops.take(x, numbers, axis=0), ops.take(y, numbers, axis=0)
    if padding is None:
        return x, y
    n, height, width, channels = x.shape
    framed = ops.pad(x, [[0, 0], [padding, padding], [padding, padding], [0, 0]])
    row, column, mirrored = (places[:, number, None] for number in (1, 2, 3))
    columns = ops.arange(width, dtype="int32")
    rows = row + ops.arange(height, dtype="int32")
    columns = column + ops.where(mirrored != 0, width - 1 - columns, columns)
    # One index for each pixel of the batch: its channels lie beside each other.
    pictures = ops.arange(n, dtype="int32")[:, None, None]
    pixels = (pictures * (height + 2 * padding) + rows[:, :, None]) * (width + 2 * padding) + columns[:, None, :]
    return ops.take(ops.reshape(framed, (-1, channels)), pixels, axis=0), y


def specs_of(x: Array, y: Array, scale: float) -> InputSpecs:
    """Return what the graphs that differentiate a batch are made for."""
    return InputSpecs(x.dtype, y.dtype, len(y), scale)


class KerasTrainer:
    """One replica: weights live in the model, and flat NumPy vectors go in and out without a copy where possible.

    The flat order is that of `model.trainable_variables`, for the moving statistics that of
    `model.non_trainable_variables`.

    Each worker's random generators (dropout) start from the run's seed and its own number, so that no two workers draw
    the same, and a worker draws the same under every strategy. A step without samples draws nothing.

    Args:
        keras: The module.
        model: A built `keras.Model`, whose generators start alike on all workers.
        graph: What is compiled of it.
        num_workers: Of the run.
        workers: Those of this process, one for each replica.
    """

    def __init__(self, keras: Any, model: Any, graph: Graph, num_workers: int, workers: tuple[int, ...]) -> None:
        self._keras, self._model, self._graph = keras, model, graph
        self._num_workers, self._workers = num_workers, workers
        self._weights = list(model.trainable_variables)
        self._seeds = [v for v in model.non_trainable_variables if v.name == SEED_STATE]
        # Counters are whole numbers: they are no statistics.
        others = [v for v in model.non_trainable_variables if v.name != SEED_STATE]
        self._statistics = [v for v in others if keras.backend.is_float_dtype(v.dtype)]
        counters = [v for v in others if not keras.backend.is_float_dtype(v.dtype)]
        self._remembered = [*all_variables(keras, graph.optimizer), *counters]
        self._set_seeds(np.concatenate([read(seeds, np.float64) for seeds in self._own(self._seeds)]))
        self._dtype = graph.dtype
        self._compiled: dict[tuple[Any, ...], Any] = {}
        # Before, weights are set once: nothing is traced for that.
        self._is_compiled = False
        # The gradient that was returned and not yet applied, and the tensor whose memory it is.
        self._gradient: tuple[Array | None, Any] = (None, None)
        self._reduce: Callable[[list[Any]], list[Any]] | None = None
        self._learning_rate = float("nan")
        self.scores = graph.problem.scores
        # Of a sample with positions a share may be correct.
        self._counted = () if graph.problem.target_shape else ("accuracy",)
        if graph.runs_ahead:
            self.start_step = self._begin_step
        self.shapes = tuple(tuple(v.shape) for v in self._weights)
        self.num_parameters = sum(map(math.prod, self.shapes))
        self.tables = _keras_model.lookup_tables(model)
        self.flops_per_sample = _keras_model.flops(model)

    @property
    def num_updates(self) -> int | None:
        """Updates so far where losses are scaled, which skips those that are not finite; see `Trainer`."""
        optimizer = self._graph.optimizer
        return int(optimizer.iterations.numpy()) if hasattr(optimizer, "dynamic_scale") else None

    def parameters(self) -> Array:
        """Return a copy of all trainable weights, flat."""
        return read(self._weights, self._dtype)

    def set_parameters(self, flat: Array) -> None:
        """Overwrite all trainable weights.

        Raises:
            ValueError: There are more or fewer numbers than they hold.
        """
        if not self._is_compiled or flat.size != self.num_parameters:
            assign(self._weights, flat)
            return
        call = self._call(self._graph.assign)
        call(self._graph.tensor("parameters", flat.astype(self._dtype, copy=False)))
        self.synchronize()

    def set_rows(self, number: int, rows: Array, values: Array) -> None:
        """Overwrite rows of a lookup table; see `Trainer`."""
        self._graph.set_rows(number, rows, values)

    def state(self, *names: str) -> dict[str, Array]:
        """Return copies of all that training changes, or of what is named.

        The optimizer's are slots, counters and loss scale, and the states of random generators (dropout).
        """
        state = {
            "parameters": self.parameters,
            "statistics": self._read_statistics,
            "optimizer": self._read_optimizer,
        }
        return {name: state[name]() for name in names or state}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Overwrite what is named; with all of it, steps go on to the bit as they would have.

        Raises:
            ValueError: A vector has more or fewer numbers than what it overwrites.
        """
        overwrite = {
            "parameters": self.set_parameters,
            "statistics": self._set_statistics,
            "optimizer": self._set_optimizer,
        }
        for name, flat in state.items():
            overwrite[name](flat)

    def _read_statistics(self) -> Array:
        return read(self._statistics, self._dtype)

    def _set_statistics(self, flat: Array) -> None:
        assign(self._statistics, flat)

    def replicas(self) -> list[Array]:
        """Return a copy of the trainable weights of the one replica of this process."""
        return [self.parameters()]

    def _read_optimizer(self) -> Array:
        owned = zip(self._workers, self._own(self._seeds), strict=True)
        # Without the workers' own part they are mostly equal, and checkpoints keep what is equal once.
        seeds = [shifted(read(variables, np.float64), -worker) for worker, variables in owned]
        return np.concatenate([read(self._remembered, np.float64), *seeds])

    def _set_optimizer(self, flat: Array) -> None:
        num_seeds = 2 * len(self._seeds) * len(self._workers)
        assign(self._remembered, flat[: flat.size - num_seeds])
        self._set_seeds(flat[flat.size - num_seeds :])
        self._learning_rate = float("nan")

    def compile(
        self, in_graph: Callable[[list[Any]], list[Any]] | None, in_forward: Callable[[Any], Any] | None = None
    ) -> None:
        """Keep the hooks; each call is traced when first used, for its types and batch size.

        Raises:
            UserError: A layer needs a sum over workers in the forward pass, and there is none.
        """
        set_reduce(self._model, in_forward and self._graph.summing(in_forward), self._num_workers)
        self._reduce = in_graph
        self._compiled.clear()
        self._is_compiled = True

    def hold(self, x: Array, y: Array, padding: int | None) -> Gather:
        """Keep samples on the device, and return what gathers some of them there; see `Trainer`."""
        gather = self._graph.gather(functools.partial(gathered, self._keras.ops, padding), (x, y))

        def batch(places: Array) -> tuple[DeviceArray, DeviceArray]:
            batch_x, batch_y = gather(places)
            return DeviceArray(batch_x, x.dtype), DeviceArray(batch_y, y.dtype)

        return batch

    def gradient(self, x: Array, y: Array, scale: float) -> tuple[Array, Sums]:
        """Return (flat gradient of scale x the sum of the losses, sums over the samples).

        The gradient is the engine's own memory where that is possible, not a copy of it.
        """
        x, y, sums = self._add_all_but_the_last(x, y, scale)
        call = self._call(self._graph.gradient, specs_of(x, y, scale))
        tensor = call(*self._tensors(x, y))
        packed = self._graph.array(tensor)
        if not len(y):
            packed = packed.copy()  # zeros may be memory of the graph's own: what is reduced into them would stay
        gradient, last = packed[: -len(self.scores)], packed[-len(self.scores) :]
        is_copy = packed.flags.owndata or self._graph.on_accelerator
        self._gradient = gradient, None if is_copy else tensor
        return gradient, added(sums, self._as_sums(last))

    def apply(self, update: Array, learning_rate: float) -> None:
        """Apply one optimizer step with the reduced flat gradient; done when it returns."""
        self._set_learning_rate(learning_rate)
        call = self._call(self._graph.apply)
        (gradient, tensor), self._gradient = self._gradient, (None, None)
        call(tensor if tensor is not None and update is gradient else self._graph.tensor("update", update))
        self.synchronize()

    def step(self, x: Array, y: Array, scale: float, learning_rate: float) -> Sums:
        """Run gradient, hook and update in one compiled call; return the sums over the samples."""
        return self._begin_step(x, y, scale, learning_rate)()

    def _begin_step(self, x: Array, y: Array, scale: float, learning_rate: float) -> Callable[[], Sums]:
        """Begin a step; return what waits for it and returns the sums over its samples."""
        self._set_learning_rate(learning_rate)
        x, y, sums = self._add_all_but_the_last(x, y, scale)
        call = self._call(self._graph.step, specs_of(x, y, scale), self._reduce)
        fetched = self._graph.fetch(call(*self._tensors(x, y)))
        return lambda: added(sums, self._as_sums(fetched()))

    def start_steps(self, x: Array, y: Array, scale: float, learning_rates: Array) -> Callable[[], Sums]:
        """Begin several steps in one call; see `dlbench.trainers.Trainer`."""
        call = self._call(self._graph.steps, specs_of(x, y, scale), self._reduce, len(learning_rates))
        fetched = self._graph.fetch(call(*self._tensors(x, y), learning_rates))
        self._learning_rate = float(learning_rates[-1])
        return lambda: self._as_sums(fetched())

    def evaluate(self, x: Array, y: Array) -> Sums:
        """Return the sums over one batch of any size, in inference mode."""
        call = self._call(self._graph.evaluate, InputSpecs(x.dtype, y.dtype))
        return self._as_sums(self._graph.array(call(*self._tensors(x, y))))

    def rehearse(self, x: Array, y: Array, scale: float, number: int = 1) -> None:
        """Trace, compile and run what a call with these samples needs, and put the state back."""
        kept = [*self._weights, *self._statistics, *self._remembered, *self._seeds]
        variables = [variable for replica in self._own(kept) for variable in replica]
        values = [variable.numpy() for variable in variables]
        for _ in range(self._graph.num_rehearsals):
            if number > 1:
                self.start_steps(x, y, scale, np.full(number, self._learning_rate))()
            elif self._reduce is None:
                self.gradient(x, y, scale)
            else:
                self.step(x, y, scale, self._learning_rate)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    def synchronize(self) -> None:
        """Return once the device has done all it was given."""
        self._graph.synchronize()

    def facts(self) -> dict[str, Any]:
        """Return versions, the device's name, and the threads that the engine says it was given."""
        return {"keras_version": self._keras.version(), "numpy_version": np.__version__, **self._graph.facts()}

    def _own(self, variables: list[Any]) -> list[list[Any]]:
        """Return the plain variables of each replica of this process."""
        return [variables]

    def _set_seeds(self, flat: Array) -> None:
        """Overwrite the states of each replica's generators; `flat` is without the workers' own part."""
        parts = np.split(flat, len(self._workers))
        for worker, variables, part in zip(self._workers, self._own(self._seeds), parts, strict=True):
            assign(variables, shifted(part, worker))

    def _add_all_but_the_last(self, x: Array, y: Array, scale: float) -> tuple[Array, Array, Sums]:
        """Differentiate all parts of a batch but the last; return that one, and the sums of those before it."""
        sums: Sums = dict.fromkeys(self.scores, 0)
        if self._graph.parts.number(len(y)) == 1:
            return x, y, sums
        *parts, last = self._parts(len(y))
        for part in parts:
            part_x, part_y = x[part], y[part]
            call = self._call(self._graph.add, specs_of(part_x, part_y, scale))
            sums = added(sums, self._as_sums(self._graph.array(call(*self._tensors(part_x, part_y)))))
        return x[last], y[last], sums

    def _parts(self, num_samples: int) -> Sequence[slice | Array]:
        """Return where the parts of a batch are, in order."""
        return self._graph.parts.cut(num_samples)

    def _tensors(self, x: Array | DeviceArray, y: Array | DeviceArray) -> tuple[Any, Any]:
        """Return a batch's tensors."""
        of_x, of_y = (
            batch.tensor if isinstance(batch, DeviceArray) else self._graph.tensor(name, batch)
            for name, batch in (("x", x), ("y", y))
        )
        return of_x, of_y

    def _call(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a method of the graph compiles for these arguments, the first time or before."""
        key = make, *arguments
        call = self._compiled.get(key)
        if call is None:
            call = self._compiled[key] = make(*arguments)
        return call

    def _as_sums(self, sums: Array) -> Sums:
        """Return sums by name; a count of correct predictions is whole where a sample has one class."""
        named = zip(self.scores, sums.tolist(), strict=True)
        return {name: round(value) if name in self._counted else value for name, value in named}

    def _set_learning_rate(self, value: float) -> None:
        if self._learning_rate != value:
            self._graph.set_learning_rate(value)
            self._learning_rate = value
