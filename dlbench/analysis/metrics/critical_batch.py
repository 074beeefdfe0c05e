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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from dlbench.analysis.statistics.differences import Floats
from dlbench.analysis.statistics.intervals import LEVEL
from dlbench.records.result import gradient_moments

LEAST_SIZES = 3
# A fit takes about a millisecond, and the ends of an interval need no more digits than this many draws give.
RESAMPLES = 499
SEED = 0
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


def _fit(log_batches: Floats, log_steps: Floats, start: float | None = None) -> tuple[float, float]:
    """Return log S_min and log B_c; without a start the best of three, from the smallest, middle and largest batch."""
    starts = np.quantile(log_batches, [0.0, 0.5, 1.0]).tolist() if start is None else [start]
    return min(_solve(log_batches, log_steps, guess) for guess in starts)[1:]


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
    from scipy.special import expit, stdtrit

    # Residuals depend on log S_min as 1 and on log B_c as expit(...): its error is that of a straight line's slope.
    slopes, freedom = expit(log_critical - log_batches), len(residuals) - 2
    error = math.sqrt(np.sum(residuals**2) / freedom / np.sum((slopes - slopes.mean()) ** 2))
    half = stdtrit(freedom, (1 + LEVEL) / 2) * error
    low, high = log_critical - half, log_critical + half
    return (
        0.0 if low <= log_batches.min() + math.log(LEAST_FALL) else math.exp(low),
        math.inf if high >= log_batches.max() else math.exp(high),
    )


@dataclass(frozen=True)
class BestBatch:
    """The global batch that reaches the target soonest.

    Attributes:
        batch: In samples: between the smallest and largest that were run, or at most a doubling beyond.
        low: Lower end of its interval over resampled runs; None where no batch size was repeated.
        high: Upper end.
        gain: Share by which its time to the target is below that of the best batch that was run.
        nearest: The best batch that was run, by the fit.
    """

    batch: float
    low: float | None
    high: float | None
    gain: float
    nearest: float


def best_batch(batches: Sequence[float], steps: Sequence[float], step_times: Sequence[float]) -> BestBatch:
    """Return the batch of least time to the target, from runs that reached it.

    Args:
        batches: Global batch of each run, in samples; all numbers are above zero.
        steps: Updates that it needed to reach the target.
        step_times: Mean time of its steps, in s.

    Raises:
        NotIdentifiableError: The runs do not show how steps depend on the batch.
    """
    runs = np.log(np.array([batches, steps, step_times], np.float64))
    _, log_critical = _identified(*runs[:2])
    sizes = np.unique(runs[0])
    best, times = _least(runs, sizes)
    groups = [np.flatnonzero(runs[0] == size) for size in sizes]
    low = high = None
    if any(len(group) > 1 for group in groups):
        generator = np.random.default_rng(SEED)
        drawn = [_least(_resampled(runs, groups, generator), sizes, log_critical)[0] for _ in range(RESAMPLES)]
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    nearest = int(times[:-1].argmin())
    gain = 1 - float(times[-1] / times[nearest])
    return BestBatch(best, low, high, max(0.0, gain), math.exp(sizes[nearest]))


def _resampled(runs: Floats, groups: Iterable[NDArray[np.signedinteger]], generator: np.random.Generator) -> Floats:
    """Return runs drawn within each batch size, about its mean as widely as such runs scatter, not as these few do."""
    drawn = runs.copy()
    for group in groups:
        mean, count = runs[:, group].mean(1, keepdims=True), len(group)
        wider = math.sqrt(count / max(count - 1, 1))
        drawn[:, group] = mean + wider * (runs[:, generator.choice(group, count)] - mean)
    return drawn


def _least(runs: Floats, sizes: Floats, start: float | None = None) -> tuple[float, Floats]:
    """Return the best batch, and the times to the target of all sizes and of it; all inputs are logarithms."""
    from scipy.optimize import nnls

    log_batches, log_steps, log_times = runs
    log_min, log_critical = _fit(log_batches, log_steps, start)
    weights = np.exp(-log_times)
    fixed, each = nnls(np.stack([weights, np.exp(log_batches) * weights], axis=1), np.ones(len(weights)))[0]
    ends = math.exp(sizes[0]) / BEYOND, math.exp(sizes[-1]) * BEYOND
    wanted = math.sqrt(fixed * math.exp(log_critical) / each) if each > 0 else math.inf
    best = min(max(wanted, ends[0]), ends[1])
    every = np.append(np.exp(sizes), best)
    return best, np.exp(log_min) * (1 + math.exp(log_critical) / every) * (fixed + each * every)


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
