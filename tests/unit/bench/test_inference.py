"""The judge on families of random numbers: a small part of `python -m tests.bench inference`, and its page."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from dlbench.scenario.metrics import TRAIN_TIME
from tests.bench.inference import ACCURACY, ERRORS, PART, SHAPES, STEPS, UNIT, drawn, page, simulate

FAMILIES = 200


@pytest.mark.parametrize(
    ("shape", "noise", "arms", "repeats", "least_told", "least_kept"),
    [
        ("normal", 0.25, 2, 3, 0.99, 0.9), ("drift", 1.0, 4, 5, 0.99, 0.05), ("one noisy, 4:1", 1.0, 2, 10, 0.99, 0.6),
        ("scores in steps", 1.0, 4, 10, 0.99, 0.1),
        *(pytest.param(*further, marks=pytest.mark.soak) for further in (
            ("normal", 1.0, 4, 10, 0.99, 0.2), ("normal", 0.25, 20, 5, 0.99, 0.8), ("lognormal", 1.0, 4, 5, 0.95, 0.05),
            ("outliers", 0.25, 4, 5, 0.5, 0.1), ("spreads 8:1", 1.0, 8, 5, 0.6, 0.001),
            ("one quiet, 8:1", 1.0, 2, 5, 0.99, 0.3), ("scores in coarse steps", 0.25, 8, 5, 0.99, 0.3),
        )),
    ],
)  # fmt: skip
def test_the_judge_errs_in_at_most_5_percent_and_shows_what_is_there(
    shape, noise, arms, repeats, least_told, least_kept
):
    found = simulate(shape, noise, arms, repeats, FAMILIES)
    for error in ERRORS:
        count = FAMILIES // PART if error.endswith("pair") else FAMILIES
        assert getattr(found, error) <= binom.ppf(0.9999, count, 0.05) / count, error
    assert found.loses_behind >= least_told
    assert found.keeps_equal >= least_kept
    if found.ratio_covered is not None:
        assert found.ratio_covered >= binom.ppf(0.0001, FAMILIES, 0.95) / FAMILIES


@pytest.mark.parametrize("shape", SHAPES)
def test_arms_are_behind_by_what_is_said(shape):
    values = drawn(shape, 1.0, [0.0, 1.0], 5, 4000, np.random.default_rng(0))
    behind = 0.9 - values if shape in STEPS else np.log(values / 10)
    margins = behind / (UNIT * (ACCURACY.margin if shape in STEPS else np.log1p(TRAIN_TIME.margin)))
    assert np.subtract(*margins.mean((0, 2))) == pytest.approx(-1, abs=0.25 if shape == "outliers" else 0.06)
    spread = margins[:, 0].std(-1, ddof=1).mean()
    expected = {"one quiet, 8:1": 0.118, "one noisy, 4:1": 0.235, "drift": 1.82, "outliers": 3.7}
    assert spread == pytest.approx(expected.get(shape, 0.94), rel=0.12)
    if shape in STEPS:
        assert margins / STEPS[shape] == pytest.approx(np.round(margins / STEPS[shape]))


def test_the_page_names_each_cell_that_errs_too_often():
    cells = [simulate("normal", 0.25, 2, repeats, 40) for repeats in (3, 5)]
    good = "\n".join(page([replace(one, **dict.fromkeys(ERRORS, 0.05)) for one in cells], 1.0))
    assert "0 of 8 shares" in good
    assert "| normal | 5.0 / 5.0 |" in good
    bad = "\n".join(page([replace(cells[0], keeps_beyond=0.3), replace(cells[1], loses_pair=1.0)], 1.0))
    assert "2 of 8 shares" in bad
    assert bad.index("| normal | 0.25 | 2 | 5 | 100.0 |") < bad.index("| normal | 0.25 | 2 | 3 | 30.0 |")
