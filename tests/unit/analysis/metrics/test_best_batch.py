"""The best batch size: known optima are found, and what is not shown is not said."""

import math

import numpy as np
import pytest

from dlbench.analysis.metrics.best_batch import best_batch
from dlbench.analysis.metrics.critical_batch import NotIdentifiableError


def runs(a: float, c: float, critical: float, noise: float = 0.0, count: int = 3) -> tuple[list[float], ...]:
    batches = np.repeat([32.0, 64, 128, 256, 512], count)
    generator = np.random.default_rng(0)
    steps, times = 100 * (1 + critical / batches), a + c * batches
    scattered = (one * np.exp(noise * generator.standard_normal(len(batches))) for one in (steps, times))
    return batches.tolist(), *(one.tolist() for one in scattered)


def test_the_best_batch_is_that_of_the_formula() -> None:
    found = best_batch(*runs(0.01, 1e-4, 300.0))
    assert found.batch == pytest.approx(math.sqrt(0.01 * 300 / 1e-4), rel=1e-3)
    assert found.nearest == pytest.approx(128) or found.nearest == pytest.approx(256)
    assert 0 < found.gain < 0.05


def test_its_interval_holds_it_in_most_draws() -> None:
    truth, held = math.sqrt(0.01 * 300 / 1e-4), 0
    for seed in range(12):
        batches, steps, times = runs(0.01, 1e-4, 300.0, count=4)
        noise = np.exp(0.03 * np.random.default_rng(seed).standard_normal((2, len(batches))))
        found = best_batch(batches, (steps * noise[0]).tolist(), (times * noise[1]).tolist())
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    assert held >= 9


def test_nothing_is_said_beyond_one_doubling() -> None:
    # Steps that cost the same at any batch make the largest one best; steps that cost their samples the smallest.
    assert best_batch(*runs(0.01, 0.0, 300.0)).batch == pytest.approx(1024)
    assert best_batch(*runs(0.0, 1e-4, 300.0)).batch == pytest.approx(16)


@pytest.mark.parametrize("critical", [1e6, 0.01])
def test_what_the_runs_do_not_show_is_not_said(critical: float) -> None:
    with pytest.raises(NotIdentifiableError):
        best_batch(*runs(0.01, 1e-4, critical))


def test_wrong_input() -> None:
    with pytest.raises(ValueError, match="a time of a step of each run"):
        best_batch([8, 16, 32], [3, 2, 1], [1, 1])
