"""Only the largest values are sent, those whose sums over steps have grown most, with momentum corrected for that.

Lin, Han, Mao, Wang and Dally, "Deep gradient compression", 2018: momentum is applied by each worker before values are
left out, and forgotten where they are sent; the share of values that are sent falls over the first steps. Without
momentum this is top-k with error feedback.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from dlbench.compressors import Array, Residual
from dlbench.parts import pieces
from dlbench.plugins import Options
from dlbench.scenario.settings import Settings

_FIRST_DENSITY = 0.25
# The density falls in stages of equal length, by the same factor each.
_STAGES = 4
# Of how many values the k-th largest is guessed from; a guess so far below it rarely leaves out one of the k.
_SAMPLE = 2**14
_MARGIN = 1.25


class TopKOptions(Options):
    """Options of the compressor `top-k`."""

    density: float = Field(0.001, gt=0, le=1, description="Share of the values that are sent in a step.")
    momentum: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Momentum of each worker's gradients before values are left out, in place of the optimizer's.",
    )
    warmup_steps: int = Field(
        0,
        ge=0,
        description="Steps over which the density falls in four stages from 25% to `density`, so that early gradients, "
        "which change fast, are not sent late.",
    )


OPTIONS = TopKOptions


class TopK(Residual):
    """One worker's side."""

    def __init__(self, options: TopKOptions, size: int, dtype: np.dtype[Any], scale: float) -> None:
        super().__init__(size, dtype)
        self._options = options
        self._velocity = np.zeros(size if options.momentum else 0, dtype)
        self._steps = 0

    def state(self) -> dict[str, Array]:
        """Return copies of sums and velocities, and the steps so far."""
        return super().state() | {"velocity": self._velocity.copy(), "steps": np.array([self._steps])}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Overwrite them."""
        super().set_state(state)
        self._velocity[:] = state["velocity"]
        self._steps = int(state["steps"][0])

    def encode(self, vector: Array) -> Array:
        """Return places and values of the largest; see `dlbench.compressors.Compressor`."""
        if self._options.momentum:
            self._velocity *= self._velocity.dtype.type(self._options.momentum)
            self._velocity += vector
            vector = self._velocity
        self.residual += vector
        self._steps += 1
        places = largest(self.residual, max(1, round(self._density() * self.residual.size)))
        values = self.residual[places]
        self.residual[places] = 0
        if self._options.momentum:
            self._velocity[places] = 0
        return np.concatenate([places.astype(np.uint32).view(np.uint8), values.view(np.uint8)])

    def decode(self, payload: Array, out: Array) -> None:
        """Add the values at their places; see `dlbench.compressors.Compressor`."""
        count = payload.size // (4 + out.itemsize)
        out[payload[: 4 * count].view(np.uint32)] += np.frombuffer(payload[4 * count :].tobytes(), out.dtype)

    def _density(self) -> float:
        options = self._options
        if self._steps > options.warmup_steps or options.density >= _FIRST_DENSITY:
            return options.density
        stage = (self._steps - 1) * _STAGES // options.warmup_steps
        density: float = _FIRST_DENSITY * (options.density / _FIRST_DENSITY) ** (stage / _STAGES)
        return density


def largest(values: Array, count: int) -> Array:
    """Return the places of the values that are largest by magnitude, ascending; the first of equal ones."""
    if count >= values.size:
        return np.arange(values.size)
    bound, parts = _guess(values, count), pieces(values.size)
    candidates = np.concatenate([np.flatnonzero(np.abs(values[piece]) >= bound) + piece.start for piece in parts])
    if candidates.size < count:
        candidates = np.arange(values.size)
    among = np.abs(values[candidates])
    least = np.partition(among, among.size - count)[among.size - count]
    above, equal = candidates[among > least], candidates[among == least]
    return np.sort(np.concatenate([above, equal[: count - above.size]]))


def _guess(values: Array, count: int) -> Any:
    """Return a bound that somewhat more values than the largest should reach, by a sample of them."""
    sample = np.abs(values[:: max(1, values.size // _SAMPLE)])
    taken = min(sample.size, int(_MARGIN * sample.size * count / values.size) + 8)
    return np.partition(sample, sample.size - taken)[sample.size - taken]


def refuse(options: TopKOptions, settings: Settings) -> str:
    """Return why the run's optimizer does not suit, or ""."""
    if options.momentum and (settings.optimizer != "sgd" or settings.momentum):
        return "compression.momentum takes the place of the optimizer's: set optimizer: sgd and momentum: 0"
    return ""


create = TopK
