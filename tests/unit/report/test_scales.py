"""Limits hold all values, ticks are round and stand apart, numbers are told apart."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbench.report.chart import Axis, Scale
from dlbench.report.scales import (
    backward,
    brief,
    by_weight,
    can_show,
    even_ticks,
    forward,
    labels,
    limits,
    ticks,
    without_overlap,
)

SCALES: tuple[Scale, ...] = ("linear", "log2", "log10")


@pytest.mark.parametrize("scale", SCALES)
@given(values=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=5), strip=st.floats(0, 0.3))
def test_limits_hold_every_value_that_can_be_shown(scale: Scale, values: list[float], strip: float) -> None:
    low, high = limits(Axis("y", scale), values, strip=strip)
    assert low < high
    assert math.isfinite(low)
    assert math.isfinite(high)
    assert all(low <= value <= high for value in values if can_show(value, scale))
    assert scale == "linear" or low > 0


def test_an_axis_shows_what_it_asks_for_and_more_where_values_lie_beyond() -> None:
    assert limits(Axis("y", low=0.0, high=10.0), [5.0]) == (0.0, 10.0)
    low, high = limits(Axis("y", low=0.0, high=10.0), [-1.0, 20.0])
    assert low < -1.0
    assert high > 20.0


def test_percent_goes_from_nothing_to_a_little_more_than_all() -> None:
    assert limits(Axis("efficiency", percent=True), [0.9]) == (0.0, 1.1)
    assert limits(Axis("efficiency", percent=True), [1.6])[1] > 1.6


def test_a_strip_is_kept_free_below() -> None:
    low, high = limits(Axis("y", low=0.0), [10.0], strip=0.1)
    assert low == pytest.approx(-1.0)
    assert high > 10.0


@pytest.mark.parametrize("scale", SCALES)
@given(low=st.floats(1e-200, 1e200), factor=st.floats(1.0001, 1e80))
def test_ticks_are_few_round_and_within(scale: Scale, low: float, factor: float) -> None:
    high = low * factor
    found = ticks(Axis("y", scale), low, high)
    assert 1 <= len(found) <= 16
    assert list(found) == sorted(set(found))
    slack = 1e-6 * (high if scale == "linear" else low)
    assert all(low - slack <= tick <= high * (1 + 1e-6) for tick in found)


def test_ticks_of_a_log2_axis_are_powers_of_two() -> None:
    found = ticks(Axis("batch size", "log2"), 7.0, 300.0)
    assert found == (8, 16, 32, 64, 128, 256)
    assert all(math.log2(tick).is_integer() for tick in ticks(Axis("bytes", "log2"), 1.0, 2.0**40))


def test_a_log_axis_within_one_power_has_plain_ticks() -> None:
    assert len(ticks(Axis("loss", "log10"), 2.1, 2.9)) > 1
    assert ticks(Axis("loss", "log10"), 1.5, 7.0) == (2, 5)
    assert len(ticks(Axis("loss", "log2"), 33.0, 60.0)) > 1


def test_even_ticks() -> None:
    assert even_ticks(0.0, 1.1) == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert even_ticks(-1.0, 1.0) == (-1.0, -0.5, 0.0, 0.5, 1.0)
    assert even_ticks(3.0, 3.0) == (3.0,)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("value", [1e-12, 0.5, 1.0, 7.0, 1e12])
def test_backward_undoes_forward(scale: Scale, value: float) -> None:
    assert backward(scale)(forward(scale)(value)) == pytest.approx(value)


def test_powers_go_first_then_the_ends() -> None:
    values = [3.0, 4.0, 6.0, 8.0, 12.0]
    assert [values[number] for number in by_weight(values, "log2")] == [8, 4, 12, 3, 6]
    assert [values[number] for number in by_weight(values, "linear")] == [12, 3, 8, 6, 4]


@given(
    places=st.lists(st.floats(0, 500), min_size=1, max_size=20),
    width=st.floats(1, 50),
    gap=st.floats(0, 10),
)
def test_labels_that_are_kept_stand_apart_and_the_first_one_is_kept(
    places: list[float], width: float, gap: float
) -> None:
    kept = without_overlap(places, [width] * len(places), range(len(places)), gap)
    assert 0 in kept
    at = sorted(places[number] for number in kept)
    assert all(right - left >= width + gap - 1e-9 for left, right in itertools.pairwise(at))


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([8, 16, 32], ["8", "16", "32"]),
        ([0.1, 0.2], ["0.1", "0.2"]),
        ([0.0, 800_000.0, 1e6], ["0", "800000", "1000000"]),
        ([0.0, 5e6, 1e7], ["0", "5e6", "1e7"]),
        ([1e7, 2e7], ["1e7", "2e7"]),
        ([12345678.0], ["12345678"]),
        ([1e-12], ["1e-12"]),
        ([1e12], ["1e12"]),
        ([2.0**20, 2.0**28, 2.0**70], ["1Mi", "256Mi", "2^70"]),
        ([0.0, -5.0], ["0", "-5"]),
        ([], []),
    ],
)
def test_labels(values: list[float], written: list[str]) -> None:
    assert labels(values) == written


def test_labels_have_the_digits_that_tell_them_apart() -> None:
    assert labels([1.00000001, 1.00000002]) == ["1.00000001", "1.00000002"]
    assert labels([0.0, 0.55, 1.1], percent=True) == ["0%", "55%", "110%"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (0.8512, "0.851"), (12.345, "12.3"), (999.4, "999"), (999.6, "1000"), (1234.5, "1234"),
        (123_456.0, "123456"), (1.234e6, "1.23e6"), (1e-12, "1e-12"), (1e12, "1e12"), (-5.0, "-5"),
        (float("nan"), "-"), (float("inf"), "-"),
    ],
)  # fmt: skip
def test_brief(value: float, text: str) -> None:
    assert brief(value) == text


def test_brief_percent() -> None:
    assert brief(0.8512, percent=True) == "85.1%"


@pytest.mark.parametrize("axis", [Axis("y"), Axis("y", low=5.0), Axis("y", "log2", low=5.0), Axis("y", "log10")])
def test_an_axis_without_values_has_a_length(axis: Axis) -> None:
    low, high = limits(axis, [])
    assert low < high
    assert axis.low is None or low == pytest.approx(axis.low)
