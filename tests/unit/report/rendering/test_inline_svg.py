"""An inlined picture refers to nothing outside of it, and looks as its file does."""

from xml.etree import ElementTree

import pytest

from dlbench.report.rendering.inline_svg import inlined
from dlbench.report.rendering.style import CURRENT

MARKER = '<use xlink:href="#m1" x="1.23456" y="2" style="fill: {}; opacity: 0.6"/>'
FILE = f"""<?xml version="1.0" encoding="utf-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN"
  "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" xmlns="http://www.w3.org/2000/svg" width="72pt" height="36pt"
 viewBox="0 0 72 36" version="1.1">
 <metadata>about</metadata>
 <defs>
  <style type="text/css">*{{stroke-linejoin: round; stroke-linecap: butt}}</style>
 </defs>
 <defs><path id="m1" d="M 0 0" style="stroke: #0072b2"/></defs>
 <g id="axes_1" clip-path="url(#p1)"><use xlink:href="#m1" x="1" style="fill: #0072b2; stroke: {CURRENT}"/>
 <text style="font-size: 9px; font-family: 'DejaVu Sans', sans-serif; fill: {CURRENT}"
 >id="x" &lt;b id="y"&gt; url(#z)</text></g>
 <g id="alike">{MARKER.format("#111111") * 2}</g>
 <g id="unlike">{MARKER.format("#111111")}{MARKER.format("#222222")}</g>
 <defs><clipPath id="p1"><rect x="0" y="0" width="7" height="7"/></clipPath></defs>
</svg>
"""


def test_an_inlined_picture_is_its_own() -> None:
    found = inlined(FILE, "a:b.c d", "1 < 2 & more", 'says "so"')
    assert found.startswith("<svg ")
    for absent in ("<style", "style=", "<!DOCTYPE", "<metadata", "axes_1", CURRENT):
        assert absent not in found, absent
    for there in (
        'id="chart-a-b-c-d-m1"', 'xlink:href="#chart-a-b-c-d-m1"', "url(#chart-a-b-c-d-p1)", 'role="img"',
        '>id="x" &lt;b id="y"&gt; url(#z)</text>', 'stroke="currentColor"', 'stroke-linejoin="round"',
        "font-family=\"'DejaVu Sans', sans-serif\"",
    ):  # fmt: skip
        assert there in found, there
    root = ElementTree.fromstring(found)
    title, description = root.find("{*}title"), root.find("{*}desc")
    assert title is not None
    assert description is not None
    assert (title.text, description.text) == ("1 < 2 & more", 'says "so"')
    assert root.attrib["aria-labelledby"].split() == [title.attrib["id"], description.attrib["id"]]


def test_markers_that_look_alike_state_it_once_and_others_keep_their_looks() -> None:
    found = inlined(FILE, "x", "", "")
    assert '<g fill="#111111" fill-opacity="0.6" stroke-opacity="0.6">' in found
    assert found.count('<use xlink:href="#chart-x-m1" x="1.23" y="2" />') == 2
    assert 'fill="#222222"' in found


@pytest.mark.parametrize("text", ["<svg width='7'></svg>", "<g xmlns='http://www.w3.org/2000/svg'/>"])
def test_a_file_that_is_no_picture_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no SVG"):
        inlined(text, "x", "", "")
