"""Contrasts against scipy's Welch test, and what follows from several of them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t, ttest_1samp, ttest_ind

from dlbench.analysis.claims.contrast import Contrast, Evidence, Side, contrast, every, some
from dlbench.analysis.judge import POWER

A, B = (10.0, 11.0, 12.5, 10.5, 11.5), (9.0, 9.5, 10.5)


def test_two_groups_are_compared_as_by_welch_with_the_degrees_of_freedom_of_the_smaller() -> None:
    welch = ttest_ind(np.log(A), np.log(B), equal_var=False)
    for above, expected in ((True, t.sf(welch.statistic, 2)), (False, t.cdf(welch.statistic, 2))):
        found = contrast("a", ((1.0, A), (-1.0, B)), above=above)
        assert found.shown.p == pytest.approx(expected)
        assert found.shown.p + found.refuted.p == pytest.approx(1.0)
    low, high = found.shown.contrast.interval
    assert (low + high) / 2 == pytest.approx(np.mean(np.log(A)) - np.mean(np.log(B)))
    # An end of the interval is where the two-sided test is at its level.
    assert contrast("a", ((1.0, A), (-1.0, B)), above=True, bound=low).shown.p == pytest.approx(0.025)


def test_several_groups_have_their_own_variances() -> None:
    groups = ((1.0, A), (-2.0, B), (1.0, (1.0, 2.0, 3.0, 5.0)))
    made = contrast("a", groups, above=True).shown.contrast
    assert made.estimate == pytest.approx(sum(weight * np.mean(np.log(own)) for weight, own in groups))
    variance = sum(weight**2 * float(np.var(np.log(own), ddof=1)) / len(own) for weight, own in groups)
    assert (made.error, made.df) == (pytest.approx(math.sqrt(variance)), 2)


def test_repeats_without_any_difference_show_no_noise() -> None:
    found = contrast("a", ((1.0, (0.3, 0.3, 0.3)), (-1.0, (0.1, 0.1, 0.1))), above=True)
    assert (found.shown.p, found.refuted.p) == (1.0, 1.0)
    assert "noise is not known" in str(found.shown.contrast)


def test_all_and_any_of_several_statements() -> None:
    one, two, three = (Contrast(name, 0.0, 1.0, 4, 0.0, True) for name in "abc")
    pairs = ((0.01, 0.99, one), (0.2, 0.004, two), (0.03, 0.5, three))
    parts = [Evidence(Side(p, made), Side(p_against, made)) for p, p_against, made in pairs]
    assert every(parts) == Evidence(Side(0.2, two), Side(pytest.approx(0.012), two, 3))
    assert some(parts) == Evidence(Side(pytest.approx(0.03), one, 3), Side(0.99, one))
    nested = every([some(parts), parts[2]])
    assert (nested.shown.shares, nested.refuted.shares) == (3, 2)
    assert every(parts[:1]) == some(parts[:1]) == parts[0]
    assert every([Evidence(Side(0.5, one), Side(0.5, one))] * 3).refuted.p == 1.0


def test_the_smallest_difference_is_shown_with_the_power_that_is_said() -> None:
    """One group of normal values, whose noise is known to the test and estimated by the contrast."""
    generator, draws = np.random.default_rng(1), 20_000
    for n, level in ((3, 0.05), (5, 0.05 / 7), (10, 0.01)):
        noise = Contrast("at 1", 1e-9, 1 / math.sqrt(n), n - 1, 0.0, True).power(level)
        assert noise is not None
        values = generator.standard_normal((draws, n)) + math.log1p(noise.smallest)
        shown = ttest_1samp(values, 0.0, axis=1, alternative="greater").pvalue <= level
        assert shown.mean() == pytest.approx(POWER, abs=0.012), (n, level)


def test_as_many_repeats_as_are_said_show_the_difference_and_one_less_does_not() -> None:
    for estimate, is_known in ((0.02, False), (0.15, True), (0.3, True), (-0.3, True)):
        now = Contrast("a", estimate, 0.1, 4, 0.0, estimate > 0)
        found = now.power(0.01)
        assert found is not None
        assert (found.needed is not None) == is_known
        if found.needed is not None:
            for n, suffices in ((found.needed, True), (found.needed - 1, False)):
                then = replace(now, error=0.1 * math.sqrt(5 / n), df=n - 1).power(0.01)
                assert then is not None
                shown = math.log1p(then.smallest) if estimate > 0 else -math.log1p(-then.smallest)
                assert (shown <= abs(estimate)) == suffices, (estimate, n)
    # It was not decided with these: one more at least, however large the difference.
    assert getattr(Contrast("a", 9.0, 0.1, 4, 0.0, True).power(0.01), "needed", None) == 6
    assert Contrast("a", 0.3, 0.0, 4, 0.0, True).power(0.01) is None


def test_a_power_is_said_as_a_share() -> None:
    for above, share in ((True, 43), (False, 30)):
        said = f"5 repeats show a difference of {share}% (power 0.8), about 14 would probably decide it"
        assert str(Contrast("a", 0.18 if above else -0.18, 0.1, 4, 0.0, above).power(0.03)) == said
    for error in (1.0, 100.0):
        assert " of >1,000% (power 0.8)" in str(Contrast("a", 0.1, error, 2, 0.0, True).power(1e-6))


def test_a_contrast_is_said_as_a_share() -> None:
    assert str(Contrast("from 1 to 2", math.log(0.5), 0.1, 8, math.log(1.02), False)) == (
        "from 1 to 2: -50% (95% interval -60% to -37%; claimed < +2%)"
    )
