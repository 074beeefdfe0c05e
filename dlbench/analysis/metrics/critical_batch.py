"""The critical batch size: below it twice the batch halves the steps to a target, above it that buys little.

    S = S_min (1 + B_c / B)

with S the updates to the target and B the global batch (McCandlish et al. 2018, "An Empirical Model of Large-Batch
Training"). It is fitted in logarithms, so that residuals are relative, to every run. B_c is given only where the runs
show it: three or more batch sizes, of which the largest lies past the bend.

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

from dlbench.analysis.statistics.intervals import LEVEL
from dlbench.analysis.statistics.rank_tests import Floats

LEAST_SIZES = 3
# A fit takes about a millisecond, and the ends of an interval need no more digits than this many draws give.
RESAMPLES = 499
SEED = 0
# If steps at the smallest batch are within this of S_min, they do not fall with the batch: B_c may be anything below.
LEAST_FALL = 0.1
# Fewer steps with norms do not give a noise scale.
LEAST_NORMS = 50


class NotIdentifiableError(Exception):
    """The runs do not show a critical batch size; the message says why."""


@dataclass(frozen=True)
class CriticalBatch:
    """A fit of S = S_min (1 + B_c / B).

    Attributes:
        steps_min: S_min, in updates.
        batch: B_c, in samples.
        low: Lower end of B_c's interval over resampled runs; None where no batch size was repeated.
        high: Upper end; infinite where that many resamples do not bend within the batch sizes that were run.
        rms: Root mean square of the residuals in logarithms: 0.04 is about 4%.
        n: Runs that were fitted.
    """

    steps_min: float
    batch: float
    low: float | None
    high: float | None
    rms: float
    n: int

    def steps(self, batch: float) -> float:
        """Return the updates that the fit gives for a global batch."""
        return self.steps_min * (1 + self.batch / batch)


def critical_batch(batches: Sequence[float], steps: Sequence[float]) -> CriticalBatch:
    """Fit the critical batch size, with a percentile bootstrap interval that resamples the runs of each batch size.

    Args:
        batches: Global batch of each run, in samples.
        steps: Updates that the run needed to reach its target.

    Raises:
        ValueError: There are not as many batches as steps, or one is not above zero.
        NotIdentifiableError: The runs do not show it.
    """
    if len(batches) != len(steps) or any(not 0 < value < math.inf for value in (*batches, *steps)):
        raise ValueError("needs one batch and one number of steps of each run, all above zero")
    sizes = sorted(set(batches))
    if len(sizes) < LEAST_SIZES:
        raise NotIdentifiableError(f"it needs {LEAST_SIZES} or more batch sizes with runs that all reach the target")
    log_batches, log_steps = np.log(np.asarray(batches, np.float64)), np.log(np.asarray(steps, np.float64))
    log_min, log_critical = fit_steps(log_batches, log_steps)
    residuals = log_min + np.logaddexp(0.0, log_critical - log_batches) - log_steps
    if log_critical >= math.log(sizes[-1]):
        raise NotIdentifiableError(f"the steps do not bend within the batch sizes: it lies above {sizes[-1]:g}")
    if log_critical < math.log(LEAST_FALL * sizes[0]):
        raise NotIdentifiableError(f"the steps do not fall with the batch: it lies far below {sizes[0]:g}")
    low, high = _interval(log_batches, log_steps, log_critical)
    rms = float(np.sqrt(np.mean(residuals**2)))
    return CriticalBatch(math.exp(log_min), math.exp(log_critical), low, high, rms, len(batches))


def fit_steps(log_batches: Floats, log_steps: Floats, start: float | None = None) -> tuple[float, float]:
    """Return log S_min and log B_c; without a start the best of three, from the smallest, middle and largest batch."""
    starts = np.quantile(log_batches, [0.0, 0.5, 1.0]).tolist() if start is None else [start]
    return min(_solve(log_batches, log_steps, guess) for guess in starts)[1:]


def _solve(log_batches: Floats, log_steps: Floats, start: float) -> tuple[float, float, float]:
    """Return the cost, log S_min and log B_c; logarithms keep both above zero."""
    from scipy.optimize import least_squares
    from scipy.special import expit

    def residuals(logs: Floats) -> Floats:
        return np.asarray(logs[0] + np.logaddexp(0.0, logs[1] - log_batches) - log_steps)

    def jacobian(logs: Floats) -> Floats:
        return np.stack([np.ones_like(log_batches), expit(logs[1] - log_batches)], axis=1)

    guess = np.array([np.mean(log_steps - np.logaddexp(0.0, start - log_batches)), start])
    fit = least_squares(residuals, guess, jac=jacobian, method="lm")
    return float(fit.cost), float(fit.x[0]), float(fit.x[1])


def _interval(log_batches: Floats, log_steps: Floats, log_critical: float) -> tuple[float | None, float | None]:
    """Return the ends of B_c over resamples; what lies past the batch sizes is infinite, what lies far below is 0."""
    groups = [np.flatnonzero(log_batches == size) for size in np.unique(log_batches)]
    if all(len(group) == 1 for group in groups):
        return None, None
    generator = np.random.default_rng(SEED)
    drawn = []
    for _ in range(RESAMPLES):
        chosen = np.concatenate([generator.choice(group, size=len(group)) for group in groups])
        drawn.append(_solve(log_batches[chosen], log_steps[chosen], log_critical)[2])
    ends = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    is_far = ends <= log_batches.min() + math.log(LEAST_FALL)
    low, high = np.select([ends >= log_batches.max(), is_far], [math.inf, 0.0], np.exp(ends)).tolist()
    return low, high


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
    signal = (workers * mean - local) / (workers - 1)
    noise = (local - mean) * batch / (workers - 1)
    return noise / signal if signal > 0 and noise > 0 else None
