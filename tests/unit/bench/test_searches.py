"""The bench of searches: its truths, and what its cells say."""

import pytest

from tests.bench.searches import NOISES, SHAPES, page, simulate

SEARCHES = 30


@pytest.mark.parametrize("shape", SHAPES)
def test_a_search_finds_a_better_rate_where_runs_hardly_scatter(shape: str) -> None:
    found = simulate(shape, min(NOISES), SEARCHES)
    assert found.chosen < 0.5 * found.untuned
    assert found.lost == 0
    assert found.scattered < 0.2
    assert 5 <= found.runs <= 9


def test_chance_is_seen_where_it_decides_and_no_rate_is_taken_at_which_nothing_is_learned() -> None:
    found = simulate("diverging", max(NOISES), SEARCHES)
    assert found.scattered > 0.2
    assert found.lost == 0
    assert simulate("diverging", max(NOISES), 3) == simulate("diverging", max(NOISES), 3)


def test_each_cell_is_a_row_of_the_page() -> None:
    cells = [simulate("even", noise, 3) for noise in NOISES]
    text = "\n".join(page(cells, 0.1))
    assert text.count("\n| even |") == len(NOISES)
