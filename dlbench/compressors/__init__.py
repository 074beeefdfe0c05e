"""What workers send in place of whole gradients, one way in each file.

A compressor file holds a one-line doc, `OPTIONS` and, of a vector that is encoded by itself,

    def create(options: Options, size: int, dtype: np.dtype, scale: float) -> Compressor: ...
    BYTES_PER_VALUE = 2   # where what is sent has the same size each time: about this much for each value

or, where what is sent is reduced as it is,

    def bind(options: Options, shapes: Sequence[tuple[int, ...]], dtype: np.dtype, all_reduce: AllReduce,
             seed: int) -> Reduction: ...

and, where it does not suit every run,

    def refuse(options: Options, settings: Settings) -> str: ...   # "" where the run is possible, else why not

Whatever is left out of a step is added to the next one (error feedback: Seide et al. 2014, Karimireddy et al. 2019): of
each worker, all that it has sent and what remains are the sum of its gradients. `scale` is what gradients arrive
multiplied by beside being a worker's mean: 1 / workers where their sum is to be the mean over a step.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
# Overwrites a flat vector with the sum of all workers' and returns it.
AllReduce = Callable[[Array], Array]


class Compressor(Protocol):
    """One worker's side for a vector that is sent step after step."""

    def encode(self, vector: Array) -> Array:
        """Return what is sent of a flat vector and of what earlier ones left out, as bytes [m] (uint8)."""

    def decode(self, payload: Array, out: Array) -> None:
        """Add what a worker has sent to a flat vector; it takes what any worker's `encode` has returned."""

    def state(self) -> dict[str, Array]:
        """Return copies of what is remembered from step to step: flat vectors by name."""

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Overwrite it."""


class Reduction(Protocol):
    """One worker's side where what is sent is reduced as it is; see `Compressor` for its state.

    Attributes:
        encoding_s: Seconds spent on making what is sent so far; likewise `decoding_s`, on the gradient made of it.
    """

    encoding_s: float
    decoding_s: float

    def reduce(self, gradient: Array) -> Array:
        """Overwrite the flat gradient with what stands for the sum over all workers and return it; a collective."""

    def state(self) -> dict[str, Array]:
        """Return copies of what is remembered from step to step."""

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Overwrite it."""


# Sent in place of a vector with values that are not finite; no compressor sends a single byte.
_NOT_FINITE = np.ones(1, np.uint8)


def encode(compressor: Compressor, vector: Array) -> Array:
    """Return what is sent of a flat vector; of one that is not finite a mark, and nothing is remembered."""
    # A sum of squares is looked at in one pass; it may overflow where no value does.
    is_finite = np.isfinite(np.vdot(vector, vector)) or np.isfinite(vector).all()
    return compressor.encode(vector) if is_finite else _NOT_FINITE


def decode(compressor: Compressor, payload: Array, out: Array) -> None:
    """Add what `encode` has returned to a flat vector: as a sum would be it is NaN where a vector was not finite."""
    if payload.size == _NOT_FINITE.size:
        out[:] = np.nan
    else:
        compressor.decode(payload, out)


class Residual:
    """What a worker has not sent yet, for compressors that remember nothing else.

    Attributes:
        residual: Flat, in the gradients' type.
    """

    def __init__(self, size: int, dtype: np.dtype[Any]) -> None:
        self.residual: Array = np.zeros(size, dtype)

    def state(self) -> dict[str, Array]:
        """Return a copy of it."""
        return {"residual": self.residual.copy()}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Overwrite it."""
        self.residual[:] = state["residual"]
