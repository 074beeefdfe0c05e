"""Every hue is readable on every background it may stand on, and distinct from the others without colour."""

import itertools

import pytest

from dlbench.errors import UserError
from dlbench.report.chart import Role, Series
from dlbench.report.rendering.style import CURRENT, HATCHES, MARKERS, PAPER, STYLES, Style, style_of, wrapped
from tests.unit.report.charts import HOSTILE, contrast

ALL = list(STYLES.values())
# What each style is seen on; light is on the page, too: white, near-black, or what its own style sheet says.
GROUNDS = {"light": (PAPER, "#121212", "#fdfcf9", "#17191d"), "dark": ("#0d1117",), "print": (PAPER,)}
# Of parts of a graphic (WCAG 2.2, success criterion 1.4.11).
LEAST_CONTRAST = 3.0


@pytest.mark.parametrize("style", ALL, ids=lambda style: style.name)
def test_colours_are_readable_and_hues_distinct_without_them(style: Style) -> None:
    colours = {*style.ways, style.muted, style.alarm, style.foreground} - {CURRENT}
    found = {(colour, ground): contrast(colour, ground) for colour in colours for ground in GROUNDS[style.name]}
    assert {pair: ratio for pair, ratio in found.items() if ratio < LEAST_CONTRAST} == {}
    hues, many = range(len(style.ways)), range(50)
    assert len(set(map(style.colour, hues))) == len(hues) <= min(len(MARKERS), len(HATCHES))
    assert len({(style.colour(hue), MARKERS[hue % len(MARKERS)]) for hue in many}) == len(many)
    looks = [style.line(Series("x", (), role)) for role in Role]
    looks.append(style.line(Series("x", (), emulated="simulated")))
    for one, other in itertools.combinations(looks, 2):
        assert any(one[key] != other[key] for key in ("marker", "markerfacecolor", "linestyle"))


def test_print_has_no_colour() -> None:
    style = style_of("print")
    for colour in (*style.ways, style.muted, style.alarm):
        assert colour in (CURRENT, *style.ways) or colour[1:3] == colour[3:5] == colour[5:7]


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(UserError, match="light, dark, print") as caught:
        style_of("drak")
    assert "dark" in caught.value.hint


@pytest.mark.parametrize("letters", [1, 8, 40, 140])
def test_wrapped_lines_are_short_and_long_texts_are_cut_in_the_middle(letters: int) -> None:
    for text in HOSTILE:
        lines = wrapped(text, letters, 3).split("\n")
        assert all(len(line) <= max(2, letters) for line in lines), text
        assert len(lines) <= 5
    assert wrapped("a long beginning and the end", 10, 2) == "a long\nbe...e end"
    assert wrapped("한글 이름 한글 이름", 10) == "한글 이름\n한글 이름"
