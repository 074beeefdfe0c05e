"""The gradient noise scale: of gradients with known noise it is given back."""

import numpy as np
import pytest

from dlbench.analysis.metrics.critical_batch import LEAST_NORMS, noise_scale
from dlbench.strategies._step import NORMS_EVERY, GradientNorms

SIZE, SIGNAL, NOISE = 1_000, 2.0, 3.0  # of each number of a gradient, and of one sample's


def norms_of(workers: int, batch: int, steps: int, seed: int = 0) -> list[tuple[int, float, float]]:
    """Return what so many workers add up whose gradients are means over so many noisy samples each."""
    generator = np.random.default_rng(seed)
    found = [GradientNorms() for _ in range(workers)]
    for _ in range(steps * NORMS_EVERY):
        local = SIGNAL + NOISE / np.sqrt(batch) * generator.standard_normal((workers, SIZE))
        for one, gradient in zip(found, local, strict=True):
            one.before((gradient / workers).astype(np.float32), scale=1 / workers)
        for one in found:
            one.after(local.mean(0).astype(np.float32))
    return [(one.count, one.local, one.mean) for one in found]


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("batch", [1, 16])
def test_known_noise_is_given_back_within_5_percent(workers: int, batch: int) -> None:
    found = noise_scale(norms_of(workers, batch, 100), workers * batch)
    assert found == pytest.approx(NOISE**2 / SIGNAL**2, rel=0.05)


def test_norms_are_taken_at_every_eighth_step() -> None:
    norms = GradientNorms()
    for _ in range(3 * NORMS_EVERY + NORMS_EVERY - 1):
        norms.before(np.full(4, 0.5), scale=0.5)
        norms.after(np.ones(4))
    assert (norms.count, norms.local, norms.mean) == (3, 12.0, 12.0)


def test_what_is_not_known_is_not_said() -> None:
    known = norms_of(2, 4, LEAST_NORMS)
    assert noise_scale(known, 8) is not None
    assert noise_scale([known[0], None], 8) is None
    assert noise_scale(known[:1], 4) is None
    assert noise_scale(norms_of(2, 4, LEAST_NORMS - 1), 8) is None
    # Workers whose gradients are noise alone.
    assert noise_scale([(100, 100.0, 50.0), (100, 100.0, 50.0)], 8) is None
