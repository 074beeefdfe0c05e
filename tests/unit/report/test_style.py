"""Every hue can be read on every ground it may stand on, and is told from the others without colour."""

import itertools

import pytest

from dlbench.errors import UserError
from dlbench.report.chart import Role, Series
from dlbench.report.looks import look
from dlbench.report.style import CURRENT, LEAST_CONTRAST, STYLES, Style, contrast, luminance, style_of

ALL = list(STYLES.values())


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#ffffff", "#ffffff") == 1.0
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
    assert luminance("#ff0000") == pytest.approx(0.2126)


@pytest.mark.parametrize("style", ALL, ids=lambda style: style.name)
def test_every_colour_can_be_read_on_every_ground(style: Style) -> None:
    colours = {*style.hues, style.muted, style.alarm, style.foreground} - {CURRENT}
    found = {(colour, ground): contrast(colour, ground) for colour in colours for ground in style.grounds}
    assert {pair: ratio for pair, ratio in found.items() if ratio < LEAST_CONTRAST} == {}


@pytest.mark.parametrize("style", ALL, ids=lambda style: style.name)
def test_hues_are_told_apart_without_colour(style: Style) -> None:
    hues = range(len(style.hues))
    assert len({style.colour(hue) for hue in hues}) == len(style.hues)
    assert len({style.marker(hue) for hue in hues}) == len(style.hues)
    assert len({style.hatch(hue) for hue in hues}) == len(style.hues)
    many = range(50)
    assert len({(style.colour(hue), style.marker(hue)) for hue in many}) == len(many)


def test_print_has_no_colour() -> None:
    style = style_of("print")
    for colour in (*style.hues, style.muted, style.alarm, style.foreground):
        assert colour[1:3] == colour[3:5] == colour[5:7]


def test_the_page_lends_its_colour_of_text() -> None:
    page = style_of("page")
    assert page.background == "none"
    assert page.foreground == CURRENT
    assert all(style.grounds for style in ALL)


def test_an_unknown_style_names_those_there_are() -> None:
    with pytest.raises(UserError, match="light, dark, print, page") as caught:
        style_of("drak")
    assert "dark" in caught.value.hint


@pytest.mark.parametrize("style", ALL, ids=lambda style: style.name)
def test_no_two_roles_look_alike(style: Style) -> None:
    found = [look(Series("x", (), role), style) for role in Role]
    found.append(look(Series("x", (), emulated="simulated"), style))
    for one, other in itertools.combinations(found, 2):
        assert (one.marker, one.is_hollow, one.dash) != (other.marker, other.is_hollow, other.dash)
