"""The gradient noise scale of a run: how large a batch may grow before its gradient is known well enough.

    B_simple = tr(S) / |G|^2        (McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", appendix A.1)

Of P workers with batches of b samples each, gradients g_i and their mean g:

    |G|^2 = (P |g|^2 - mean |g_i|^2) / (P - 1)        tr(S) = (mean |g_i|^2 - |g|^2) b P / (P - 1)

Each is averaged over steps before one is divided by the other.
"""

from collections.abc import Sequence
from statistics import fmean

LEAST_STEPS = 50


def noise_scale(norms: Sequence[tuple[int, float, float] | None], batch: int) -> float | None:
    """Return the noise scale in samples; None where it is not known, or noise hides the gradient.

    Args:
        norms: Of each worker: steps, sum of |g_i|^2, sum of |g|^2.
        batch: Of all workers together.
    """
    enough = [norm for norm in norms if norm is not None and norm[0] >= LEAST_STEPS]
    workers = len(norms)
    if workers < 2 or len(enough) < workers:
        return None
    local, mean = (fmean(norm[part] / norm[0] for norm in enough) for part in (1, 2))
    signal = (workers * mean - local) / (workers - 1)
    noise = (local - mean) * batch / (workers - 1)
    return noise / signal if signal > 0 and noise > 0 else None
