"""Critical and best batch, on planted numbers and on published ones: what is not shown is not said."""

import math
from typing import Any

import numpy as np
import pytest

from dlbench.analysis.metrics.critical_batch import NotIdentifiableError, best_batch, critical_batch

# MLPerf's reference points of ResNet-50: global batch and epochs to 75.9%.
MLPERF = {
    1632: 35.0, 3264: 35.15, 4096: 39.88, 8192: 41.88, 13056: 45.5, 32768: 56.0, 49152: 68.0, 58880: 80.0,
    65536: 84.5, 67840: 85.88,
}  # fmt: skip
SAMPLES = 1_281_167
SIZES = [16, 32, 64, 128, 256, 512]


def steps(batch: Any, least: float = 100.0, critical: float = 128.0) -> Any:
    return least * (1 + critical / batch)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_planted_numbers_come_back_whatever_the_unit(unit: float) -> None:
    found = critical_batch([unit * batch for batch in SIZES], [steps(batch) / unit for batch in SIZES])
    assert (found.batch, found.steps_min) == pytest.approx((128 * unit, 100 / unit), rel=1e-6)
    assert found.steps(64 * unit) == pytest.approx(300 / unit, rel=1e-6)
    assert found.rms < 1e-8
    assert (found.n, found.low, found.high) == (6, pytest.approx(found.batch), pytest.approx(found.batch))


def test_published_points_of_resnet_50() -> None:
    """In epochs, E = E_min (1 + B / B_c), with E_min = S_min B_c / samples: the same fit."""
    updates = [epochs * SAMPLES / batch for batch, epochs in MLPERF.items()]
    found = critical_batch(list(MLPERF), updates)
    assert found.batch == pytest.approx(46_900, rel=0.005)
    assert found.steps_min * found.batch / SAMPLES == pytest.approx(34.6, abs=0.05)
    assert found.rms == pytest.approx(0.037, abs=0.0005)
    others = critical_batch(list(MLPERF)[:-1], updates[:-1])
    assert others.steps(list(MLPERF)[-1]) == pytest.approx(updates[-1], rel=0.038), "the largest batch is foretold"


@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_the_interval_covers_what_was_planted_in_95_of_100_fits(repeats: int) -> None:
    batches, generator = np.repeat(np.array(SIZES, np.float64), repeats), np.random.default_rng(5)
    noise = np.exp(0.05 * generator.standard_normal((300, len(batches))))
    fits = [critical_batch(batches, steps(batches) * scattered) for scattered in noise]
    assert np.mean([fit.low <= 128 <= fit.high for fit in fits]) == pytest.approx(0.95, abs=0.03)
    assert all(fit.low < fit.batch < fit.high for fit in fits)
    assert np.median([fit.rms for fit in fits]) == pytest.approx(0.05, rel=0.3)


@pytest.mark.parametrize(
    ("batches", "updates", "why"),
    [
        ([8, 16, 16], [100, 60, 61], "3 or more batch sizes"),
        # Steps that fall as the batch rises to the end, or faster, do not bend.
        ([16, 32, 64, 128], [800, 400, 200, 100], "above 128"),
        ([16, 32, 64, 128], [steps(batch, critical=129.0) for batch in (16, 32, 64, 128)], "above 128"),
        ([16, 32, 64], [1600, 400, 100], "above 64"),
        # Steps that do not fall tell only that it is small.
        ([16, 32, 64], [50, 50, 50], "far below 16"),
        ([16, 32, 64], [50, 51, 53], "far below 16"),
        ([16, 32, 64], [1e12, 1e12, 1e12], "far below 16"),
    ],
)
def test_what_the_steps_do_not_show_is_not_said(batches: list[float], updates: list[float], why: str) -> None:
    with pytest.raises(NotIdentifiableError, match=why):
        critical_batch(batches, updates)


def test_an_upper_end_past_all_batches_is_infinite() -> None:
    batches = [16, 32, 64, 128] * 3
    noisy = [steps(batch, critical=110.0) * factor for factor in (0.7, 1.0, 1.4) for batch in (16, 32, 64, 128)]
    found = critical_batch(batches, noisy)
    assert found.high == math.inf


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


@pytest.mark.parametrize("count", [1, 2, 5])
def test_its_interval_covers_what_was_planted(count: int) -> None:
    truth = math.sqrt(0.01 * 300 / 1e-4)
    batches, steps, times = runs(0.01, 1e-4, 300.0, count=count)
    noise = np.exp(0.03 * np.random.default_rng(0).standard_normal((200, 2, len(batches))))
    found = [best_batch(batches, (each[0] * steps).tolist(), (each[1] * times).tolist()) for each in noise]
    assert np.mean([each.low <= truth <= each.high for each in found]) > 0.92
    assert np.median([each.high / each.low for each in found]) < 1.7


def test_nothing_is_said_beyond_one_doubling() -> None:
    # Steps that cost the same at any batch make the largest one best; steps that cost their samples the smallest.
    for noise in (0.0, 0.02):
        for largest in (best_batch(*runs(0.01, each, 300.0, noise)) for each in (0.0, 1e-8)):
            assert (largest.low, largest.batch, largest.high) == pytest.approx((1024, 1024, 1024), rel=0.2)
        for smallest in (best_batch(*runs(fixed, 1e-4, 300.0, noise)) for fixed in (0.0, 1e-6)):
            assert (smallest.low, smallest.batch, smallest.high) == pytest.approx((16, 16, 16), rel=0.2)


@pytest.mark.parametrize("critical", [1e6, 0.01])
def test_what_the_runs_do_not_show_is_not_said(critical: float) -> None:
    with pytest.raises(NotIdentifiableError):
        best_batch(*runs(0.01, 1e-4, critical))
