"""The engines that compute gradients, one file each.

A trainer file holds a one-line doc, `OPTIONS`, `BUILDER` (the name of the model files' builder it calls),
`OPTIMIZERS` and `PRECISIONS` (names it takes), `OPTIMIZER_SETTINGS` (which optimizers take `momentum`, `nesterov` and
`weight_decay`; a setting that is not named is refused), `JIT = True` where it can compile with XLA,
`ACCUMULATES = True` where it computes a batch in parts (`BatchParts`), `HOLDS_SAMPLES = True` where its device keeps
the training samples (`Trainer.hold`), `REPEATS_STEPS = True` where a call may make several steps
(`Trainer.start_steps`), `BACKEND` (the column), `PACKAGE` (the module that it needs; optional),
`INSTALL` (the command that installs it),

    FLAT_OPTIMIZERS: tuple[str, ...]                               # optimizers that there are for a flat vector, and
    def make_flat_optimizer(settings: Settings, parameters: Array) -> Optimizer: ...   # the run's: what strategies of
                                                                   # nodes train with; optional
    def start(settings: Settings, threads: Threads) -> None: ...   # load the engine with the run's threads and devices,
                                                                   # for communicators that work through it; optional
and

    def create(settings: Settings, plugin: Plugin, model_options: Options, options: Options, problem: Problem,
               seed: int, threads: Threads) -> Trainer: ...

`problem` describes the samples and classes; `plugin` is the model. Everything is flat: parameters, gradients and
updates are one contiguous vector in the same order, so that a strategy moves one buffer.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dlbench.parts import cut
from dlbench.scenario.metrics import evaluated
from dlbench.scenario.settings import Settings

Array = npt.NDArray[Any]
# Sums over samples by the name of a score (`dlbench.scenario.metrics.SCORES`): of losses, of correct predictions.
Sums = dict[str, float]


@dataclass(frozen=True)
class Problem:
    """The shape of samples and of what is predicted, and how samples enter the network.

    Attributes:
        input_shape: Shape of one sample, without the batch.
        num_classes: Number of classes; 0 where a sample has a number to predict: a regression, by its squared error.
        scale: A sample enters the network as `x * scale + offset` in floating point, computed by the trainer.
        offset: See `scale`.
        vocabulary: Where samples are tokens, whole numbers below this; they enter the network as int32, unscaled.
        target_shape: () where a sample has one class; (T,) where it has one at each of T positions. Logits are then
            [n, T, num_classes], and a sample's loss and correctness are means over its positions.
    """

    input_shape: tuple[int, ...]
    num_classes: int
    scale: float = 1.0
    offset: float = 0.0
    vocabulary: int | None = None
    target_shape: tuple[int, ...] = ()

    @property
    def num_outputs(self) -> int:
        """Width of the network's last layer: a logit for each class, or the number that is predicted."""
        return self.num_classes or 1

    @property
    def scores(self) -> tuple[str, ...]:
        """Names of what is summed over samples; the loss is the first."""
        return evaluated(self.num_classes)

    def scaled(self, x: Any) -> Any:
        """Return samples, already in floating point, as they enter the network: `x * scale + offset`."""
        if self.scale != 1.0:
            x = x * self.scale
        return x + self.offset if self.offset != 0.0 else x


@dataclass(frozen=True)
class Threads:
    """Thread pools a process may use, its devices, and which workers it holds.

    Attributes:
        intra_op: Threads within one operation.
        inter_op: Operations at once.
        device_index: Which of its host's accelerators is its own (its index on that host).
        replicas: Under the engine's own distribution, how many workers this process holds; else None.
        distribution: Makes that distribution, given the engine's module (see `dlbench.strategies`).
        workers: The numbers of those workers, for what has to differ between workers, such as dropout's random numbers;
            none stands for 0, 1, ...
    """

    intra_op: int
    inter_op: int
    device_index: int = 0
    replicas: int | None = None
    distribution: Callable[[Any], Any] | None = None
    workers: tuple[int, ...] = ()


class Trainer(Protocol):
    """One replica, or all those that one process holds.

    `x` is [n, ...] as stored, `y` is [n, *target_shape] of class numbers, or [n] of numbers to predict; losses are in
    nats, or squared errors. Sums hold all of `scores`; `accuracy` counts correct predictions, a whole number unless
    samples have positions. `gradient` and `step` take no samples, too: the gradient is then zero, and neither moving
    statistics nor random generators change.

    A trainer that compiles for the size of a batch has besides

        def rehearse(self, x: Array, y: Array, scale: float, number: int = 1) -> None: ...

    which prepares for a batch like this one, or for `number` steps in one call, so that the first takes no longer than
    a later one, and leaves the trainer's state as it was; with a hook, all workers call it at once. One that makes
    several steps in one call has

        def start_steps(self, x: Array, y: Array, scale: float, learning_rates: Array) -> Callable[[], Sums]: ...

    which makes a `step` at each rate [k] on the next n of k x n samples, and returns what waits for the sums over all
    of them. One whose device computes by itself has

        def start_step(self, x: Array, y: Array, scale: float, learning_rate: float) -> Callable[[], Sums]: ...

    which is `step` without waiting for it: what it returns waits, and may be called after the next step has begun.
    One whose device can keep the training samples has

        def hold(self, x: Array, y: Array, padding: int | None) -> Gather: ...

    which copies them there as they are stored, and returns what gathers a batch of them without the processor: int32
    [n, 1] of numbers of samples, or with a padding [n, 4] of these and a crop's first row, first column and whether it
    is mirrored (`dlbench.worker.train.augmentation`). `gradient`, `step`, `start_step` and `rehearse` take its batches.
    One that may skip updates has

        num_updates: int | None     # made so far, over all attempts; None where it skips none

    One whose model may look tokens up has

        tables: Mapping[str, int]   # lookup tables [vocabulary, width] by name: numbers of `shapes`. A batch needs, and
                                    # mostly has gradients at, the rows of its tokens alone
        def set_rows(self, number: int, rows: Array, values: Array) -> None: ...   # overwrite these rows [n] (int32)
                                                                                   # of one with values [n, width]
    """

    num_parameters: int
    # Shapes of the trainable weights, in the order in which they are joined.
    shapes: tuple[tuple[int, ...], ...]
    # Names of what it sums; `loss` is the first.
    scores: tuple[str, ...]
    # Training cost of one sample (3 x forward, 1 MAC = 2 FLOP), or None where it cannot be counted.
    flops_per_sample: float | None

    def state(self, *names: str) -> dict[str, Array]:
        """Return copies of all that training changes, or of what is named: flat vectors by name.

        `parameters` are the trainable weights; `statistics` the moving ones (batch norm), replica after replica, empty
        without any; `optimizer` its slots and counters and the states of random generators, float64, which is exact for
        them. A trainer may have further ones: checkpoints keep all.
        """

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Overwrite what is named: with all of it, steps go on to the bit as they would have.

        Raises:
            ValueError: A vector has more or fewer numbers than what it overwrites.
        """

    def parameters(self) -> Array:
        """Return a copy of all trainable weights, flat."""

    def set_parameters(self, flat: Array) -> None:
        """Overwrite all trainable weights."""

    def replicas(self) -> list[Array]:
        """Return a copy of the trainable weights of each replica this process holds, flat, to be compared."""

    def compile(
        self, in_graph: Callable[[list[Any]], list[Any]] | None, in_forward: Callable[[Any], Any] | None = None
    ) -> None:
        """Prepare steps: with a hook for `step`, without one for `gradient` and `apply`.

        `in_forward` is the strategy's sum over workers for layers with a `reduce` attribute (synchronised batch norm).
        """

    def gradient(self, x: Array, y: Array, scale: float) -> tuple[Array, Sums]:
        """Return (flat gradient of scale x the sum of the losses, sums over the samples).

        The gradient is a contiguous buffer owned by the trainer, valid until the next call, and may be overwritten.
        """

    def apply(self, update: Array, learning_rate: float) -> None:
        """Apply one optimizer step with the reduced flat gradient; done when it returns."""

    def step(self, x: Array, y: Array, scale: float, learning_rate: float) -> Sums:
        """Run gradient, hook and update in one compiled call; return the sums over the samples.

        With gradients accumulated, in as many calls as there are parts; the hook runs once, in the last.
        """

    def evaluate(self, x: Array, y: Array) -> Sums:
        """Return the sums over one batch of any size, in inference mode."""

    def synchronize(self) -> None:
        """Return once the device has finished its work."""

    def facts(self) -> dict[str, Any]:
        """Return what is known once, by column name: versions, `device_name`, counted threads."""


@dataclass(frozen=True)
class DeviceArray:
    """Samples on a device, in the place of an array: only the trainer that gathered them looks into the tensor."""

    tensor: Any
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return int(self.tensor.shape[0])

    def __getitem__(self, part: slice) -> "DeviceArray":
        return DeviceArray(self.tensor[part], self.dtype)


# From places of samples (`Trainer.hold`) to a batch of them.
Gather = Callable[[Array], tuple[DeviceArray, DeviceArray]]


@dataclass(frozen=True)
class BatchParts:
    """In how many parts a batch is differentiated, one after the other.

    Attributes:
        fewest: Parts of any batch.
        most_samples: Samples of the largest part; None where one may be as large as the batch.
    """

    fewest: int = 1
    most_samples: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> "BatchParts":
        """Return the parts of a run's batches."""
        return cls(settings.gradient_accumulation_steps, settings.microbatch_size)

    @property
    def may_be_several(self) -> bool:
        """Whether a batch may have more than one."""
        return self.fewest > 1 or self.most_samples is not None

    def number(self, num_samples: int) -> int:
        """Return how many a batch has."""
        return max(self.fewest, 1 if self.most_samples is None else -(-num_samples // self.most_samples))

    def cut(self, num_samples: int) -> list[slice]:
        """Return the parts of a batch in order; their sizes differ by one at most.

        The last ones are the larger: they have samples where there are fewer than parts, as in an epoch's last step.
        """
        parts = cut(num_samples, self.number(num_samples))[::-1]
        return [slice(num_samples - part.stop, num_samples - part.start) for part in parts]


def added(sums: Sums, more: Sums) -> Sums:
    """Return the sums of two batches together."""
    return {name: value + more[name] for name, value in sums.items()}


def flatten(arrays: list[Array], dtype: Any) -> Array:
    """Return arrays joined into one flat vector."""
    return np.concatenate([np.ravel(array) for array in arrays] or [np.empty(0)]).astype(dtype, copy=False)


def places(shapes: Iterable[tuple[int, ...]]) -> list[slice]:
    """Return where each of some arrays is in the flat vector that joins them."""
    return [slice(*edge) for edge in pairwise(accumulate(map(math.prod, shapes), initial=0))]


def unflatten(flat: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Return the parts of a flat vector (an array or an engine's tensor) in these shapes; what follows them is left."""
    return [flat[place].reshape(shape) for place, shape in zip(places(shapes), shapes, strict=True)]
