"""The soak: what it draws, and the page that it writes."""

from collections import Counter

import click
import pytest

from tests.functional.host_faults.kinds import KINDS
from tests.soak import advice, claims, faults
from tests.soak.hosts import COLUMNS, draw, page
from tests.unit.analysis.claims.truths import NOISES, published, truths


def test_every_kind_comes_before_any_comes_again() -> None:
    kinds = [name for name in KINDS if name != "none"]
    drawn = draw(3 * len(kinds), seed=1)
    assert Counter(fault.kind for fault in drawn) == dict.fromkeys(kinds, 3)
    assert sorted(fault.kind for fault in drawn[: len(kinds)]) == sorted(kinds)
    assert drawn == draw(3 * len(kinds), seed=1) != draw(3 * len(kinds), seed=2)
    assert all(KINDS[fault.kind].is_right_for(fault.rank) for fault in drawn)


def test_the_page_counts_faults_by_kind_and_has_those_that_ended_wrongly() -> None:
    kinds = [name for name in KINDS if name != "none"]
    rows = [[kind, "1", "launched", "failed", "", "1.5", "3", "3", "0", "0"] for kind in kinds]
    rows += [[kinds[0], "2", "steps 1 2", "timeout", "a | b", "", "0", "0", "1", "2"]]
    assert {len(row) for row in rows} == {len(COLUMNS)}
    text = page(rows, "13 faults: all reported", "`soak`", 3.4)
    lines = text.splitlines()
    first = next(line for line in lines if line.startswith(f"| {kinds[0]} |"))
    assert first.endswith("| 2 | 1 failed, 1 timeout | 1.5 | 1 |")
    assert lines[-1] == rf"| {kinds[0]} | 2 | steps 1 2 | timeout | a \| b |  | 0 | 0 | 1 | 2 |"
    assert "launched" not in text
    assert "took 3 minutes on " in text


def test_verdicts_that_are_false_too_often_are_wrong() -> None:
    assert [claims.most(studies) for studies in (10, 1000)] == [4, 73]
    (row,) = claims.drawn(next(truths()), "outliers", 3, 20)
    assert row[:4] == ["falls: no effect", "outliers", "3", "20"]
    assert claims.wrong([row]) == 0
    assert claims.wrong([[*row[:4], "8", *row[5:]], [*row[:5], "8", *row[6:]], row]) == 2
    found = [row, *(one for noise in NOISES for one in claims.drawn(next(published()), noise, 5, 2))]
    assert claims.wrong([[*one[:4], "2", *one[5:]] for one in found[1:]]) == 0
    assert row[0] in claims.page(found, "`soak`", 1.0)


def test_shuffled_runs_are_a_row_of_the_table() -> None:
    row = claims.shuffled(claims.DESIGNS[0], 3)
    assert row[:4] == ["all of 2023, shuffled columns", "shuffled", "3", "3"]
    assert claims.wrong([row]) == 0


def test_a_campaign_goes_on_after_the_studies_that_it_has() -> None:
    listed = faults.studies(faults.draw(60, seed=1))
    sizes = [len(drawn) for _, drawn in listed]
    assert sum(sizes) == 60
    assert faults.after(0, listed) == listed
    assert faults.after(sum(sizes[:3]), listed) == listed[3:]
    assert faults.after(60, listed) == []
    with pytest.raises(click.UsageError, match="another --faults or --seed"):
        faults.after(61, listed)


def test_advice_is_never_foolish_in_a_small_part_of_the_campaign():
    found = [advice.studies(kind, noise, 5, 1, 0) for kind in advice.KINDS for noise in advice.NOISES]
    assert advice.wrong(found) == []
    total = dict(zip(advice.COLUMNS, zip(*found, strict=True), strict=True))
    assert sum(map(int, total["recommended"])) > 10
    assert sum(map(int, total["open"])) > 10
    text = advice.page(found, "`soak`", 1.0)
    assert "| out_of_reach | 4 | 0.0% |" in text
    assert text.endswith("Nothing is wrong more often than it may be.\n")


def test_foolish_advice_is_noticed():
    row = advice.studies("spread", "even", 5, 1, 0)
    place = {name: n for n, name in enumerate(advice.COLUMNS)}

    def changed(**values: str) -> list[str]:
        return [values.get(name, row[n]) for name, n in place.items()]

    assert "1 arms that nobody may use are recommended" in advice.wrong([changed(bad="1")])
    assert advice.wrong([changed(recommended="100", worse="20")]) == [
        "20 of 100 recommended arms are worse than the best"
    ]
    assert advice.wrong([changed(recommended="100", worse="6", slower="3")]) == []
