"""When the batch of a run changes while it trains, and to what: pure decisions, the same on all workers.

Batches are B_0 2^j, B_0 being the run's `batch_size`. The goodput of a batch B is measured speed x statistical
efficiency (Qiao et al. 2021, "Pollux"), from the gradient noise scale phi (see
`dlbench.analysis.metrics.critical_batch`):

    goodput(B) = B / T_step(B) x (phi + B_0) / (phi + B)

AdaScale's gain (Johnson et al. 2020) says how many steps of B_0 one step of S B_0 is worth. The learning rate is
multiplied by it, and the schedule advances by as many steps. With s^2 the variance of a gradient at B_0 and m^2 =
|G|^2, phi = B_0 s^2 / m^2:

    r(S) = (s^2 + m^2) / (s^2 / S + m^2) = S (phi + B_0) / (phi + S B_0),    1 <= r <= S

so that goodput(S B_0) = r(S) B_0 / T_step.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from dlbench.records.result import gradient_moments

# The batch changes only if this gain is predicted in this many consecutive decisions.
LEAST_GAIN = 1.05
DECISIONS = 2
# Part of the newest period in the averages: periods of 100 steps then count for 300 or so.
NEWEST = 1 / 3


class NormSums(NamedTuple):
    """What steps add up for the noise scale; sums over steps and means over workers.

    Attributes:
        steps: How many there were.
        local: Squared norms of the estimates of the gradient that a step had, such as one of each worker.
        mean: Squared norm of their mean.
        weighted: (local - mean) x the batch.
    """

    steps: float = 0.0
    local: float = 0.0
    mean: float = 0.0
    weighted: float = 0.0

    def plus(self, other: "NormSums") -> "NormSums":
        """Return the sums of both."""
        return NormSums(*np.add(self, other).tolist())


@dataclass
class NoiseScale:
    """The noise scale of gradients, from averages that forget (McCandlish et al. 2018, appendix A.1).

    Attributes:
        num_estimates: Estimates P of the gradient in each step, of batches of B / P samples.
        weight: Weight of all periods so far, 0 to 1.
        norm: Average of |G|^2, times the weight; likewise `trace`, of tr(S).
    """

    num_estimates: int
    weight: float = 0.0
    norm: float = 0.0
    trace: float = 0.0

    def add(self, sums: NormSums) -> None:
        """Add a period."""
        means = (total / sums.steps for total in (sums.local, sums.mean, sums.weighted))
        norm, trace = gradient_moments(self.num_estimates, *means)
        self.weight += NEWEST * (1 - self.weight)
        self.norm += NEWEST * (norm - self.norm)
        self.trace += NEWEST * (trace - self.trace)

    @property
    def value(self) -> float | None:
        """Samples; infinite where the noise hides the gradient, None before the first period."""
        if not self.weight:
            return None
        return max(0.0, self.trace) / self.norm if self.norm > 0 else math.inf

    def gain(self, base_batch: int, multiple: int) -> float:
        """Return AdaScale's gain of a batch over the base batch: 1 before anything is known."""
        noise = self.value
        if noise is None:
            return 1.0
        return multiple if math.isinf(noise) else multiple * (noise + base_batch) / (noise + multiple * base_batch)


class Prediction(NamedTuple):
    """What a decision to change the batch rests on; see `dlbench.records.result.BatchChange`."""

    noise_scale: float | None = None
    step_time_s: float | None = None
    predicted_step_time_s: float | None = None
    predicted_gain: float | None = None


class BatchPolicy:
    """Decides the batch of the next steps: as it is here, one that stays.

    Attributes:
        multiple: Whole batches of the run in the present batch: 1, 2, 4, ...
    """

    multiple = 1

    def begin_epoch(self, epoch: int) -> Prediction | None:
        """Return what a change rests on that is made before epoch 1, 2, ...; None where there is none."""
        return None

    def decide(self, sums: NormSums, step_time_s: float) -> Prediction | None:
        """Return the same in the middle of an epoch.

        Args:
            sums: Since the last decision, of all workers.
            step_time_s: Median step of the slowest worker since then.
        """
        return None

    def gain(self, multiple: int) -> float:
        """Return what the rate of a step is multiplied by whose batch is this multiple."""
        return 1.0

    def advance(self, multiple: int) -> float:
        """Return how many steps of the run's own batch such a step is worth to the schedule of rates."""
        return self.gain(multiple)

    def state(self) -> dict[str, float]:
        """Return all that changes, by name."""
        return {"multiple": self.multiple}

    def set_state(self, state: Mapping[str, float]) -> None:
        """Overwrite it."""
        self.multiple = int(state["multiple"])


class StepDoubling(BatchPolicy):
    """Doubles the batch where a schedule would halve the rate, which stays (Smith et al. 2018), up to the largest."""

    def __init__(self, every: int, largest: int) -> None:
        self._every, self._largest = every, largest

    def begin_epoch(self, epoch: int) -> Prediction | None:
        """Return an empty prediction where the batch doubles."""
        before, doublings = self.multiple, (epoch - 1) // self._every
        self.multiple = min(self._largest, 2 ** min(doublings, self._largest.bit_length()))
        return Prediction() if self.multiple != before else None

    def advance(self, multiple: int) -> float:
        """Return the multiple: a warm-up counts samples."""
        return float(multiple)


class Goodput(BatchPolicy):
    """Follows the batch with the highest goodput, by one doubling or halving at a time.

    Args:
        base_batch: Samples of all workers in a step of the run's own batch.
        times: Rehearsed time of a step, of the slowest worker, by multiple: all that may be chosen.
        num_estimates: See `NoiseScale`.
    """

    def __init__(self, base_batch: int, times: Mapping[int, float], num_estimates: int) -> None:
        self.noise = NoiseScale(num_estimates)
        self._base_batch, self._times = base_batch, times
        self._wanted, self._times_wanted = 1, 0

    def decide(self, sums: NormSums, step_time_s: float) -> Prediction | None:
        """Return what a change rests on, which is made; None where there is none."""
        if sums.steps:
            self.noise.add(sums)
        if self.noise.value is None or not step_time_s > 0:
            return None
        goodput = {multiple: self.gain(multiple) / seconds for multiple, seconds in self._times.items()}
        best = max(goodput, key=lambda multiple: goodput[multiple])
        wanted = self.multiple * 2 if best > self.multiple else self.multiple // 2 if best < self.multiple else best
        gain = goodput[wanted] / goodput[self.multiple]
        if wanted == self.multiple or gain <= LEAST_GAIN:
            self._times_wanted = 0
            return None
        self._times_wanted = self._times_wanted + 1 if wanted == self._wanted else 1
        self._wanted = wanted
        if self._times_wanted < DECISIONS:
            return None
        predicted_s = self._times[wanted] / self._times[self.multiple] * step_time_s
        self.multiple, self._times_wanted = wanted, 0
        noise = self.noise.value
        return Prediction(noise if math.isfinite(noise) else None, step_time_s, predicted_s, gain)

    def gain(self, multiple: int) -> float:
        """Return AdaScale's gain."""
        return self.noise.gain(self._base_batch, multiple)

    def state(self) -> dict[str, float]:
        """Return the batch, the averages, and what was wanted last."""
        return super().state() | {"wanted": self._wanted, "times_wanted": self._times_wanted, **asdict(self.noise)}

    def set_state(self, state: Mapping[str, float]) -> None:
        """Overwrite them."""
        super().set_state(state)
        self._wanted, self._times_wanted = int(state["wanted"]), int(state["times_wanted"])
        self.noise.weight, self.noise.norm, self.noise.trace = (state[name] for name in ("weight", "norm", "trace"))
