"""Every hue is readable on every background it may stand on, and distinct from the others without colour."""

import itertools

import pytest

from dlbench.errors import UserError
from dlbench.report.chart import Role, Series
from dlbench.report.rendering.series_style import series_style
from dlbench.report.rendering.style import (
    CURRENT,
    LEAST_CONTRAST,
    STYLES,
    Style,
    contrast,
    letter_pt,
    luminance,
    style_of,
    wrapped,
)
from tests.unit.report.charts import HOSTILE

ALL = list(STYLES.values())


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#ffffff", "#ffffff") == 1.0
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
    assert luminance("#ff0000") == pytest.approx(0.2126)


@pytest.mark.parametrize("style", ALL, ids=lambda style: style.name)
def test_colours_are_readable_and_hues_distinct_without_them(style: Style) -> None:
    colours = {*style.hues, style.muted, style.alarm, style.foreground} - {CURRENT}
    found = {(colour, ground): contrast(colour, ground) for colour in colours for ground in style.grounds}
    assert {pair: ratio for pair, ratio in found.items() if ratio < LEAST_CONTRAST} == {}
    hues, many = range(len(style.hues)), range(50)
    for kind in (style.colour, style.marker, style.hatch):
        assert len(set(map(kind, hues))) == len(hues)
    assert len({(style.colour(hue), style.marker(hue)) for hue in many}) == len(many)
    roles = [series_style(Series("x", (), role), style) for role in Role]
    roles.append(series_style(Series("x", (), emulated="simulated"), style))
    for one, other in itertools.combinations(roles, 2):
        assert (one.marker, one.is_hollow, one.dash) != (other.marker, other.is_hollow, other.dash)


def test_print_has_no_colour_and_the_page_takes_that_of_its_text() -> None:
    style, page = style_of("print"), style_of("page")
    for colour in (*style.hues, style.muted, style.alarm, style.foreground):
        assert colour[1:3] == colour[3:5] == colour[5:7]
    assert (page.background, page.foreground) == ("none", CURRENT)


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(UserError, match="light, dark, print, page") as caught:
        style_of("drak")
    assert "dark" in caught.value.hint


@pytest.mark.parametrize("width_pt", [1.0, 40.0, 150.0, 700.0])
def test_wrapped_lines_are_short_and_complete(width_pt: float) -> None:
    for text in HOSTILE:
        letters = max(1, int(width_pt / letter_pt(text, 9.0)))
        lines = wrapped(text, width_pt, 9.0).split("\n")
        assert all(len(line) <= letters for line in lines), text
        few = wrapped(text, width_pt, 9.0, max_lines=2)
        assert few.count("\n") <= 1
        assert few == "\n".join(lines) or few.endswith("…")


def test_a_name_longer_than_a_line_is_broken_at_its_joints() -> None:
    width = 16 * letter_pt("a", 9.0)
    assert wrapped("of bandwidth_bytes_per_s=120000", width, 9.0).split("\n") == [
        "of bandwidth_",
        "bytes_per_s=",
        "120000",
    ]
    assert wrapped("a" * 20, width, 9.0).split("\n") == ["a" * 16, "a" * 4]
