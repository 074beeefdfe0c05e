"""The engines that compute gradients, one file each.

A trainer file holds a one-line doc, `OPTIONS`, `BUILDER` (the name of the model files' builder it calls),
`OPTIMIZERS` and `PRECISIONS` (names it takes), `JIT = True` where it can compile with XLA, `BACKEND` (the column) and

    def create(settings: Settings, plugin: Plugin, model_options: Options, options: Options, problem: Problem,
               seed: int, threads: Threads) -> Trainer: ...

`problem` says what there is to learn; `plugin` is the model. Everything is flat: parameters, gradients and updates
are one contiguous vector in the same order, so that a strategy moves one buffer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Problem:
    """What there is to learn: shape of one sample (without the batch), number of classes, how pixels become numbers.

    A sample enters the network as `x * scale + offset` in floating point, computed by the trainer.
    """

    input_shape: tuple[int, ...]
    num_classes: int
    scale: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Threads:
    """Thread pools a worker may use, and which of its host's accelerators is its own (its index on that host)."""

    intra_op: int
    inter_op: int
    device_index: int = 0


class Trainer(Protocol):
    """One replica. `x` is [n, ...] as stored, `y` is [n] of class numbers; losses are in nats."""

    num_parameters: int
    # Training cost of one sample (3 x forward, 1 MAC = 2 FLOP), or None where it cannot be counted.
    flops_per_sample: float | None

    def parameters(self) -> Array:
        """Return a copy of all trainable weights, flat."""

    def set_parameters(self, flat: Array) -> None:
        """Overwrite all trainable weights."""

    def statistics(self) -> Array:
        """Return a copy of the moving statistics (batch norm), flat; empty where there are none."""

    def set_statistics(self, flat: Array) -> None:
        """Overwrite the moving statistics."""

    def compile(self, in_graph: Callable[[list[Any]], list[Any]] | None) -> None:
        """Get ready for steps: with a hook for `step`, without one for `gradient` and `apply`."""

    def gradient(self, x: Array, y: Array, scale: float) -> tuple[Array, float, int]:
        """Return (flat gradient of scale x the sum of the losses, sum of the losses, number of correct predictions).

        The gradient is a contiguous buffer owned by the trainer, valid until the next call, and may be overwritten.
        """

    def apply(self, update: Array, learning_rate: float) -> None:
        """Apply one optimizer step with the reduced flat gradient; done when it returns."""

    def step(self, x: Array, y: Array, scale: float, learning_rate: float) -> tuple[float, int]:
        """Run gradient, hook and update in one compiled call; return (sum of the losses, correct predictions)."""

    def evaluate(self, x: Array, y: Array) -> tuple[float, int]:
        """Return (sum of the losses, correct predictions) of one batch of any size, in inference mode."""

    def synchronize(self) -> None:
        """Return once the device has done all it was given."""

    def facts(self) -> dict[str, Any]:
        """Return what is known once, by column name: versions, `device_name`, counted threads."""


def flatten(arrays: list[Array], dtype: Any) -> Array:
    """Return arrays joined into one flat vector."""
    return np.concatenate([np.ravel(array) for array in arrays] or [np.empty(0)]).astype(dtype, copy=False)
