"""Repeats until decided: a small part of `python -m tests.bench repeats`, and its page."""

from dataclasses import asdict

import numpy as np
import pytest
from scipy.stats import binom

from tests.bench.repeats import RULE, SHAPES, SOON, page, real_residuals, simulate, study

STUDIES = 120


@pytest.mark.parametrize(
    ("shape", "arms", "least_found"),
    [
        ("real", 2, 0.8),
        pytest.param("normal", 2, 0.88, marks=pytest.mark.soak),
        pytest.param("drifting", 5, 0.4, marks=pytest.mark.soak),
    ],
)
def test_studies_err_in_at_most_5_percent_and_find_what_is_there(shape: str, arms: int, least_found: float) -> None:
    found = simulate(shape, arms, STUDIES)
    most = binom.ppf(0.9999, STUDIES, 0.05) / STUDIES
    assert found.false <= most
    assert found.wrong <= most
    assert found.found >= least_found
    assert RULE.min <= found.repeats_of_slower <= found.repeats_of_equal <= RULE.max


def test_a_study_ends_where_nothing_is_open_or_nobody_may_run_again() -> None:
    quiet = [[10.0, 10.001, 10.002] + [99.0] * 17, [20.0, 20.001, 20.002] + [99.0] * 17]
    family, counts = study(quiet, 0.0093)
    assert counts == [3, 3]
    assert [one.verdict for one in family.judgements] == ["keeps", "loses"]
    noisy = np.random.default_rng(0).lognormal(0, 1, (2, RULE.max)).tolist()
    assert study(noisy, 0.0093)[1] == [RULE.max] * 2


def test_real_noise_is_that_of_committed_runs() -> None:
    assert len(real_residuals()) > 300
    assert real_residuals().std() == pytest.approx(1.0)


def test_the_page_has_a_row_for_each_cell() -> None:
    cells = [simulate(shape, 2, 4) for shape in SHAPES]
    lines = list(page(cells, 0.1))
    assert sum(line.startswith("| ") for line in lines) == len(SHAPES) + 2
    assert f"found by {SOON}, %" in "\n".join(lines)
    assert all(np.isfinite(value) for value in asdict(cells[0]).values() if isinstance(value, float))
