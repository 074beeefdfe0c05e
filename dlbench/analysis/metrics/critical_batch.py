"""What the batch size does: the critical batch, the batch that reaches a target soonest, and the noise of gradients.

Below the critical batch size twice the batch halves the steps to a target, above it that buys little:

    S = S_min (1 + B_c / B)

with S the updates to the target and B the global batch (McCandlish et al. 2018, "An Empirical Model of Large-Batch
Training"). It is fitted in logarithms, so that residuals are relative, to every run. B_c is given only where the runs
show it: three or more batch sizes, of which the largest lies past the bend.

The best batch follows from the epochs that each takes and the time of its steps:

    E(B) = S(B) B / N = E_min (1 + B / B_c),    T_step(B) = a + c B
    time to target = E(B) N / B T_step(B),    least at B* = sqrt(a B_c / c)

The time of a step has a part that is the same for all batches (a: launches, messages) and one for each sample (c).

The gradient noise scale of a single run is a hint of the same: how large a batch may grow before its gradient is known
well enough (appendix A.1).

    B_simple = tr(S) / |G|^2

Of P workers with batches of b samples each, gradients g_i and their mean g:

    |G|^2 = (P |g|^2 - mean |g_i|^2) / (P - 1)        tr(S) = (mean |g_i|^2 - |g|^2) b P / (P - 1)

Each is averaged over steps before one is divided by the other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from dlbench.analysis.statistics.differences import Floats
from dlbench.analysis.statistics.intervals import LEVEL
from dlbench.records.result import gradient_moments

LEAST_SIZES = 3
# If steps at the smallest batch are within this of S_min, they do not fall with the batch: B_c may be anything below.
LEAST_FALL = 0.1
# Fewer steps with norms do not give a noise scale.
LEAST_NORMS = 50
# No further than this beyond the batch sizes that were run is anything said.
BEYOND = 2.0


class NotIdentifiableError(Exception):
    """The runs do not show a critical batch size; the message says why."""


@dataclass(frozen=True)
class CriticalBatch:
    """A fit of S = S_min (1 + B_c / B).

    Attributes:
        steps_min: S_min, in updates.
        batch: B_c, in samples.
        low: Lower end of B_c's interval; 0 where it lies far below the batch sizes that were run.
        high: Upper end; infinite where it lies past them.
        rms: Root mean square of the residuals in logarithms: 0.04 is about 4%.
        n: Runs that were fitted.
    """

    steps_min: float
    batch: float
    low: float
    high: float
    rms: float
    n: int

    def steps(self, batch: float) -> float:
        """Return the updates that the fit gives for a global batch."""
        return self.steps_min * (1 + self.batch / batch)


def critical_batch(batches: Sequence[float], steps: Sequence[float]) -> CriticalBatch:
    """Fit the critical batch size, with the t-interval of its logarithm.

    Args:
        batches: Global batch of each run, in samples, above zero.
        steps: Updates that the run needed to reach its target, above zero.

    Raises:
        NotIdentifiableError: The runs do not show it.
    """
    log_batches, log_steps = np.log(np.array([batches, steps], np.float64))
    log_min, log_critical = _identified(log_batches, log_steps)
    residuals = log_min + np.logaddexp(0.0, log_critical - log_batches) - log_steps
    low, high = _interval(log_batches, residuals, log_critical)
    rms = float(np.sqrt(np.mean(residuals**2)))
    return CriticalBatch(math.exp(log_min), math.exp(log_critical), low, high, rms, len(batches))


def _identified(log_batches: Floats, log_steps: Floats) -> tuple[float, float]:
    """Return log S_min and log B_c where the runs show them, or refuse to."""
    sizes = np.unique(log_batches).tolist()
    if len(sizes) < LEAST_SIZES:
        raise NotIdentifiableError(f"it needs {LEAST_SIZES} or more batch sizes with runs that all reach the target")
    smallest, largest = sizes[0], sizes[-1]
    log_min, log_critical = _fit(log_batches, log_steps)
    if log_critical >= largest:
        raise NotIdentifiableError(f"the steps do not bend within the batch sizes: it lies above {math.exp(largest):g}")
    if log_critical < smallest + math.log(LEAST_FALL):
        raise NotIdentifiableError(f"the steps do not fall with the batch: it lies far below {math.exp(smallest):g}")
    return log_min, log_critical


def _fit(log_batches: Floats, log_steps: Floats) -> tuple[float, float]:
    """Return log S_min and log B_c: the best of three starts, the smallest, middle and largest batch."""
    starts = np.quantile(log_batches, [0.0, 0.5, 1.0]).tolist()
    return min(_solve(log_batches, log_steps, start) for start in starts)[1:]


def _solve(log_batches: Floats, log_steps: Floats, start: float) -> tuple[float, float, float]:
    """Return the cost, log S_min and log B_c; logarithms keep both above zero."""
    from scipy.optimize import least_squares
    from scipy.special import expit

    def residuals(logs: Floats) -> Floats:
        return np.asarray(logs[0] + np.logaddexp(0.0, logs[1] - log_batches) - log_steps)

    def slopes(logs: Floats) -> Floats:
        return np.stack([np.ones_like(log_batches), expit(logs[1] - log_batches)], axis=1)

    guess = np.array([np.mean(log_steps - np.logaddexp(0.0, start - log_batches)), start])
    fit = least_squares(residuals, guess, jac=slopes, method="lm")
    return float(fit.cost), float(fit.x[0]), float(fit.x[1])


def _interval(log_batches: Floats, residuals: Floats, log_critical: float) -> tuple[float, float]:
    """Return the ends of B_c; what lies past the batch sizes is infinite, what lies far below is 0."""
    half = _half_width(log_batches, residuals, log_critical)
    low, high = log_critical - half, log_critical + half
    return (
        0.0 if low <= log_batches.min() + math.log(LEAST_FALL) else math.exp(low),
        math.inf if high >= log_batches.max() else math.exp(high),
    )


def _half_width(log_batches: Floats, residuals: Floats, log_critical: float) -> float:
    """Return half the width of the interval of log B_c.

    Residuals depend on log S_min as 1 and on log B_c as expit(...): its error is that of a straight line's slope.
    """
    from scipy.special import expit

    slopes = expit(log_critical - log_batches)
    variance = np.sum(residuals**2) / (len(residuals) - 2)
    return _t_quantile(residuals) * math.sqrt(variance / np.sum((slopes - slopes.mean()) ** 2))


def _t_quantile(residuals: Floats) -> float:
    """Return how many standard errors an interval is wide to each side, of a fit of two numbers."""
    from scipy.special import stdtrit

    return float(stdtrit(len(residuals) - 2, (1 + LEVEL) / 2))


@dataclass(frozen=True)
class BestBatch:
    """The global batch that reaches the target soonest.

    Attributes:
        batch: In samples: between the smallest and largest that were run, or at most a doubling beyond.
        low: Lower end of its interval, no further away than it may lie itself.
        high: Upper end.
        gain: Share by which its time to the target is below that of the best batch that was run.
        nearest: The best batch that was run, by the fit.
    """

    batch: float
    low: float
    high: float
    gain: float
    nearest: float


def best_batch(batches: Sequence[float], steps: Sequence[float], step_times: Sequence[float]) -> BestBatch:
    """Return the batch of least time to the target, from runs that reached it, with the t-interval of its logarithm.

    Args:
        batches: Global batch of each run, in samples; all numbers are above zero.
        steps: Updates that it needed to reach the target.
        step_times: Mean time of its steps, in s.

    Raises:
        NotIdentifiableError: The runs do not show how steps depend on the batch.
    """
    from scipy.optimize import nnls

    sizes, times = np.array([batches, step_times], np.float64)
    log_batches, log_steps = np.log(sizes), np.log(np.array(steps, np.float64))
    log_min, log_critical = _identified(log_batches, log_steps)
    # Residuals are shares of the step times.
    design = np.stack([1 / times, sizes / times], axis=1)
    fixed, each = nnls(design, np.ones(len(times)))[0].tolist()
    variance = np.sum((design @ (fixed, each) - 1) ** 2) / (len(times) - 2)
    wide = _t_quantile(times) * np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * variance)
    least, most = _log_ratio(fixed - wide[0], each + wide[1]), _log_ratio(fixed + wide[0], each - wide[1])
    bend = _log_ratio(fixed, each)
    step_residuals = log_min + np.logaddexp(0.0, log_critical - log_batches) - log_steps
    half = _half_width(log_batches, step_residuals, log_critical)
    # Where a part of the step times is 0, from the end that is known.
    below, above = ((bend, end - bend) if math.isfinite(bend) else (end, 0.0) for end in (least, most))
    low, high = below[0] - math.hypot(below[1], half), above[0] + math.hypot(above[1], half)
    ends = log_batches.min() - math.log(BEYOND), log_batches.max() + math.log(BEYOND)
    best, low, high = np.exp(np.clip((np.array([bend, low, high]) + log_critical) / 2, *ends)).tolist()
    every = np.append(np.unique(sizes), best)
    totals = (1 + math.exp(log_critical) / every) * (fixed + each * every)
    nearest = int(totals[:-1].argmin())
    gain = 1 - float(totals[-1] / totals[nearest])
    return BestBatch(best, low, high, max(0.0, gain), float(every[nearest]))


def _log_ratio(part: float, other: float) -> float:
    """Return log(part / other) of numbers that are not below 0; a negative one counts as 0."""
    return (math.log(part) if part > 0 else -math.inf) - (math.log(other) if other > 0 else -math.inf)


def noise_scale(norms: Sequence[tuple[int, float, float] | None], batch: int) -> float | None:
    """Return the noise scale in samples; None where it is not known, or noise hides the gradient.

    Args:
        norms: Of each worker: steps, sum of |g_i|^2, sum of |g|^2.
        batch: Of all workers together.
    """
    enough = [norm for norm in norms if norm is not None and norm[0] >= LEAST_NORMS]
    workers = len(norms)
    if workers < 2 or len(enough) < workers:
        return None
    local, mean = (fmean(norm[part] / norm[0] for norm in enough) for part in (1, 2))
    signal, noise = gradient_moments(workers, local, mean, (local - mean) * batch)
    return noise / signal if signal > 0 and noise > 0 else None
