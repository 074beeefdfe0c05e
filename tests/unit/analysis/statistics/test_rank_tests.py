"""Mann and Whitney's test against every arrangement counted one by one and against scipy's, and Holm's correction."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dlbench.analysis.statistics.rank_tests import EXACT_UP_TO, holm, mann_whitney


def by_counting(a: list[float], b: list[float]) -> float:
    """Return the two-sided p-value of the rank sum by going through every choice of the first group."""
    ranks = stats.rankdata([*a, *b])
    sums = np.array([sum(chosen) for chosen in itertools.combinations(ranks, len(a))])
    found = ranks[: len(a)].sum()
    return min(1.0, 2 * min((sums <= found + 1e-9).mean(), (sums >= found - 1e-9).mean()))


@pytest.mark.parametrize(("n", "m"), [(2, 3), (3, 3), (4, 4), (5, 5), (3, 7)])
def test_few_values_have_the_exact_p(n, m):
    """With and without equal values, and infinite ones."""
    generator = np.random.default_rng(n * 10 + m)
    a, b = generator.normal(size=(8, n)), generator.normal(0.5, size=(8, m))
    a[4:], b[4:] = np.round(a[4:]), np.round(b[4:])
    a[7], b[7, 0] = math.inf, math.inf
    for first, second in zip(a.tolist(), b.tolist(), strict=True):
        assert mann_whitney(first, second)[0] == pytest.approx(by_counting(first, second)), (first, second)


@pytest.mark.parametrize(("n", "m"), [(12, 4), (15, 15), (40, 40)])
def test_more_values_than_are_counted(n, m):
    generator = np.random.default_rng(n)
    a, b = generator.normal(size=n), generator.normal(0.5, size=m)
    assert mann_whitney(a, b)[0] == pytest.approx(stats.mannwhitneyu(a, b, method="exact").pvalue)
    if math.comb(n + m, n) > EXACT_UP_TO:
        a, b = np.round(a), np.round(b)
        assert mann_whitney(a, b)[0] == pytest.approx(stats.mannwhitneyu(a, b, method="asymptotic").pvalue)


@pytest.mark.parametrize(
    ("a", "b", "p", "share_above"),
    [
        ([1.0, 2.0], [3.0, 4.0], 1 / 3, 0.0), ([5.0, 6.0, 7.0], [1.0, 2.0, 3.0], 0.1, 1.0),
        ([1e-12, 2e-12, 3e-12, 4e-12], [5e-12, 6e-12, 7e-12, 8e-12], 2 / 70, 0.0),
        # The normal approximation, corrected for equal values, would give 0.047.
        ([1.0] * 3, [2.0] * 3, 0.1, 0.0), ([math.inf] * 5, [1.0, 2.0, 3.0, 4.0, 5.0], 2 / 252, 1.0),
        ([2.0] * 20, [2.0] * 20, 1.0, 0.5), ([math.inf] * 3, [math.inf] * 3, 1.0, 0.5),
        # Of 3 x 2 pairs one is above and one is equal.
        ([1.0, 2.0, 3.0], [2.0, 4.0], 0.6, (1 + 0.5) / 6),
    ],
)  # fmt: skip
def test_known_p_values_and_shares(a, b, p, share_above):
    assert mann_whitney(a, b) == pytest.approx((p, share_above))
    assert mann_whitney(b, a) == pytest.approx((p, 1 - share_above))


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        # 0.01 x 4; 0.02 x 3; 0.03 x 2; 0.04 x 1 is below the one before it.
        ([0.04, 0.01, 0.03, 0.02], (0.06, 0.04, 0.06, 0.06)), ([0.6, 0.7], (1.0, 1.0)), ([], ()), ([0.03], (0.03,)),
    ],
)  # fmt: skip
def test_holm_by_hand(p_values, adjusted):
    assert holm(p_values) == pytest.approx(adjusted)
