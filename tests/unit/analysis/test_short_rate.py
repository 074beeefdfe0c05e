"""The rate of a short window is shown with its mark and its length, and only where there is no other."""

import pytest

from dlbench.analysis.arm_table import short_rate
from dlbench.analysis.formatting import rounded, unit_of
from dlbench.analysis.statistics.intervals import Interval
from dlbench.scenario.metrics import TRAIN_TIME


def row(samples: int | None, window_s: float | None, steps: int | None = 100, rate: float | None = None) -> dict:
    return {"timed_samples": samples, "timed_window_s": window_s, "timed_steps": steps, "samples_per_s": rate}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(2_200_000, 1.1)], "~2.0 M/s, 1.1 s window"),
        ([row(1000, 1.0), row(3000, 1.0), row(2000, 2.0)], "~1.0 k/s, 1 s window"),
        ([row(640, 64.0, steps=40)], "~10/s, 40 steps"),
        ([row(640, 1.0), row(9000, 9.0, rate=1000.0)], ""),
        ([row(None, None, None)], ""),
        ([row(0, 0.0, 0)], ""),
        ([], ""),
    ],
)
def test_what_is_shown(rows: list[dict], said: str) -> None:
    assert short_rate(rows) == said


def test_two_digits_and_a_prefix() -> None:
    found = [rounded(value) for value in (0.034, 40.5, 99.6, 999, 2375, 12_345, 999_900, 1.98e6, 1.2e9)]
    assert found == ["0.034", "40", "100", "1.0 k", "2.4 k", "12 k", "1.0 M", "2.0 M", "1.2 G"]


def test_a_margin_is_never_narrower_than_the_interval() -> None:
    seconds = unit_of(TRAIN_TIME)
    assert seconds.with_margin(Interval(100.0, 98.9, 100.5, 5, 0.93)) == "100 s ±2%"
    assert seconds.with_margin(Interval(100.0, 99.95, 100.51, 5, 0.93)) == "100 s ±0.6%"
    assert seconds.with_margin(Interval(100.0, None, None, 1, None)) == "100 s"
