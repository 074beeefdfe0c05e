"""What pages of results/ say of two arms: equal work within a margin, and what repeats show where nothing is told."""

from pathlib import Path
from typing import Any

import pytest

from tests.results.comparisons import Comparison, compared, unequal, verdicts
from tests.unit.report.figures.makers import repeats, report_data

TIMES = [10.0, 10.1, 9.9, 10.05, 9.95]


def comparison(tmp_path: Path, column: str, first: dict[str, Any], second: dict[str, Any]) -> Comparison:
    rows = [*repeats(5, workers=1, **first), *repeats(5, workers=2, **second)]
    arms = report_data(*rows, tmp_path=tmp_path).arms
    one, two = sorted(arms, key=lambda arm: arm.first["workers"])
    return compared([(8, one, two)], column, [one, two])[0]


@pytest.mark.parametrize(
    ("samples", "word"),
    [(10_000, "less"), (9_995, "less"), (9_900, "unequal samples"), (10_100, "less")],
)
def test_times_are_compared_where_work_is_equal_within_a_thousandth(tmp_path: Path, samples: int, word: str) -> None:
    slower = {"train_time_s": [2 * value for value in TIMES], "samples_seen": 10_000}
    found = comparison(tmp_path, "train_time_s", {"train_time_s": TIMES, "samples_seen": samples}, slower)
    assert found.word == word
    assert ("The work was not equal" in unequal([found])) == (abs(samples - 10_000) > 10)


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("train_time_s", [10.0, 10.9, 9.4, 10.5, 9.6], ("**open** (batch 8; differences of ", "would probably tell")),
        ("validation_accuracy", [0.8, 0.6, 0.7, 0.9, 0.7], ("points are shown with a power of 0.8, 50 more repeats",)),
        ("train_time_s", [1.005 * value for value in TIMES], ("**no worse** (batch 8)",)),
        ("train_time_s", [1.1 * value for value in TIMES], ("**less** (batch 8)",)),
    ],
)
def test_what_is_open_has_the_power_of_its_repeats(
    tmp_path: Path, column: str, values: list[float], words: tuple[str, ...]
) -> None:
    first = {column: TIMES if column == "train_time_s" else [0.7, 0.6, 0.75, 0.85, 0.7], "samples_seen": 100}
    said = verdicts([comparison(tmp_path, column, first, {column: values, "samples_seen": 100})])
    assert all(word in said for word in words), said


def test_a_target_that_some_runs_missed_is_counted_not_judged(tmp_path: Path) -> None:
    aim = {"target_metric": "validation_loss", "target_value": 2.0}
    first, second = aim | {"time_to_target_s": TIMES}, aim | {"time_to_target_s": [20.0, None, 21.0, 20.5, 22.0]}
    found = comparison(tmp_path, "time_to_target_s", first, second)
    assert (found.word, found.ratio) == ("not judged", "4 of 5 reached it")
