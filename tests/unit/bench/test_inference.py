"""The rule of inference on studies of random numbers: a small part of `python -m tests.bench inference`."""

import numpy as np
import pytest
from scipy.stats import binom

from dlbench.analysis.compare.judgement import SIGNIFICANCE, Verdict, judge_best
from dlbench.analysis.statistics.rank_tests import holm, mann_whitney
from tests.bench.inference import SHAPES, ahead, alarms, compared, drawn, page, simulate

STUDIES = 1_000
# More false alarms than this are above 5% by more than chance.
MOST = binom.ppf(0.999, STUDIES, 0.05) / STUDIES


@pytest.mark.parametrize(("arms", "repeats"), [(2, 3), (7, 5), (18, 6)])
@pytest.mark.parametrize("shape", ["normal, 2%", "outliers in 7.5%", "one quiet, 8:1", "scores in steps"])
def test_equal_arms_are_told_apart_in_at_most_5_percent_of_studies(shape, arms, repeats):
    found = simulate(shape, arms, repeats, STUDIES)
    assert max(alarms(found)) <= MOST
    if shape == "normal, 2%":
        assert found.told_25 > 0.99
        assert found.covered >= 0.93


def test_where_the_best_arm_scatters_far_less_than_many_others_few_repeats_hold_less_than_is_said():
    """What `statistics.welch` and docs/measurement.md say of it, within four standard errors."""
    for repeats, share in ((3, 0.92), (4, 0.935), (5, 0.955)):
        held = ahead(SHAPES["one quiet, 8:1"], np.random.default_rng(1), (STUDIES, 18, repeats), 9.0)[1]
        assert abs(held - share) <= 4 * (share * (1 - share) / STUDIES) ** 0.5, repeats


def test_a_correction_for_the_others_alone_forgets_that_the_best_was_chosen():
    """The rule before: Mann and Whitney's test of the best against each other, Holm over these."""
    values = drawn(SHAPES["normal, 2%"], np.random.default_rng(1), (300, 18, 10), np.zeros(18))
    order = np.median(values, axis=-1).argsort(-1)
    false = []
    for study, places in zip(values, order, strict=True):
        best, *others = study[places]
        false.append(min(holm(mann_whitney(np.tile(best, (17, 1)), np.array(others)).tolist())) <= SIGNIFICANCE)
    assert np.mean(false) > 0.07
    assert np.mean((compared(values)[2].p <= SIGNIFICANCE).any(-1)) <= 0.08


def test_what_is_simulated_is_what_the_terminal_and_the_page_say():
    values = drawn(SHAPES["normal, 2%"], np.random.default_rng(2), (5, 7, 5), np.linspace(0, 0.2, 7))
    best, others, found = compared(values)
    for study, first, rest, p in zip(np.exp(values), best, others, found.p, strict=True):
        judged = judge_best([[tuple(study[place].tolist()) for place in (first, *rest)]], 0.0, lower=True)[0]
        assert [one.p for one in judged] == pytest.approx(p.tolist())
        assert [one.verdict is Verdict.BETTER for one in judged] == (p <= SIGNIFICANCE).tolist()


def test_the_tables_name_the_worst_cell():
    text = "\n".join(page([simulate("normal, 2%", 2, repeats, 40) for repeats in (3, 5)]))
    assert "In 0 of 2 cells" in text
    assert "| normal, 2% |" in text
