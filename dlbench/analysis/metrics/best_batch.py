"""Which batch size reaches a target soonest, from the epochs that each takes and the time of its steps.

    E(B) = E_min (1 + B / B_c),    T_step(B) = a + c B
    time to target = E(B) N / B T_step(B),    least at B* = sqrt(a B_c / c)

E is the form of `critical_batch` (McCandlish et al. 2018): S = E N / B = S_min (1 + B_c / B). The time of a step has a
part that is the same for all batches (a: launches, messages) and one for each sample (c).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlbench.analysis.metrics.critical_batch import RESAMPLES, SEED, critical_batch, fit_steps
from dlbench.analysis.statistics.intervals import LEVEL
from dlbench.analysis.statistics.rank_tests import Floats

# No further than this beyond the batch sizes that were run is anything said.
BEYOND = 2.0


@dataclass(frozen=True)
class BestBatch:
    """The global batch that comes to the target soonest.

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
        batches: Global batch of each run, in samples.
        steps: Updates that it needed to reach the target.
        step_times: Mean time of its steps, in s.

    Raises:
        ValueError: There are not as many of each, or one is not above zero.
        NotIdentifiableError: The runs do not show how steps depend on the batch.
    """
    if len(step_times) != len(batches) or any(not 0 < value < math.inf for value in step_times):
        raise ValueError("needs a time of a step of each run, above zero")
    critical_batch(batches, steps)
    runs = np.log(np.array([batches, steps, step_times], np.float64))
    sizes = np.unique(runs[0])
    best, times = _least(runs, sizes)
    groups = [np.flatnonzero(runs[0] == size) for size in sizes]
    low = high = None
    if any(len(group) > 1 for group in groups):
        generator = np.random.default_rng(SEED)
        start = fit_steps(*runs[:2])[1]
        drawn = [_least(_resampled(runs, groups, generator), sizes, start)[0] for _ in range(RESAMPLES)]
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    of_runs = times[:-1]
    nearest = math.exp(sizes[int(np.argmin(of_runs))])
    return BestBatch(best, low, high, max(0.0, 1 - float(times[-1] / of_runs.min())), nearest)


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
    log_min, log_critical = fit_steps(log_batches, log_steps, start)
    weights = np.exp(-log_times)
    fixed, each = nnls(np.stack([weights, np.exp(log_batches) * weights], axis=1), np.ones(len(weights)))[0]
    ends = math.exp(sizes[0]) / BEYOND, math.exp(sizes[-1]) * BEYOND
    wanted = math.sqrt(fixed * math.exp(log_critical) / each) if each > 0 else math.inf
    best = min(max(wanted, ends[0]), ends[1])
    every = np.append(np.exp(sizes), best)
    return best, np.exp(log_min) * (1 + math.exp(log_critical) / every) * (fixed + each * every)
