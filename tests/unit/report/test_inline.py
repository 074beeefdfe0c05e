"""An inlined picture has nothing that reaches out of it, and looks as its file does."""

import re
from xml.etree import ElementTree

import pytest

from dlbench.report.inline import inlined
from dlbench.report.style import CURRENT

FILE = f"""<?xml version="1.0" encoding="utf-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN"
  "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="72pt" height="36pt" viewBox="0 0 72 36" version="1.1">
 <defs>
  <style type="text/css">*{{stroke-linejoin: round; stroke-linecap: butt}}</style>
 </defs>
 <defs><path id="m1" d="M 0 0" style="stroke: #0072b2"/></defs>
 <g id="axes_1" clip-path="url(#p1)"><use xlink:href="#m1" x="1" style="fill: #0072b2; stroke: {CURRENT}"/>
 <text style="font-size: 9px; font-family: 'DejaVu Sans', sans-serif; fill: {CURRENT}"
 >id="x" &lt;b id="y"&gt; url(#z)</text></g>
 <defs><clipPath id="p1"><rect x="0" y="0" width="7" height="7"/></clipPath></defs>
</svg>
"""


def test_ids_and_references_get_the_prefix_together() -> None:
    found = inlined(FILE, "rate", "Title", "What it shows")
    assert 'id="chart-rate-m1"' in found
    assert 'xlink:href="#chart-rate-m1"' in found
    assert "url(#chart-rate-p1)" in found
    assert set(re.findall(r'\sid="([^"]*)"', found.split("<text")[0])) >= {"chart-rate", "chart-rate-axes_1"}


def test_text_stays_as_it_is() -> None:
    assert '>id="x" &lt;b id="y"&gt; url(#z)</text>' in inlined(FILE, "rate", "", "")


def test_no_prolog_no_sheet_and_no_style_attribute() -> None:
    found = inlined(FILE, "rate", "", "")
    assert found.startswith("<svg ")
    assert found.endswith("</svg>")
    assert "<style" not in found
    assert "style=" not in found
    assert "<!DOCTYPE" not in found
    root = ElementTree.fromstring(found)  # well-formed
    text = root.find(".//{*}text")
    assert text is not None
    assert text.attrib["font-family"] == "'DejaVu Sans', sans-serif"
    assert text.attrib["fill"] == "currentColor"
    assert root.attrib["stroke-linejoin"] == "round"


def test_title_and_description_are_its_name() -> None:
    root = ElementTree.fromstring(inlined(FILE, "a:b.c d", "1 < 2 & more", 'says "so"'))
    title, description = root.find("{*}title"), root.find("{*}desc")
    assert title is not None
    assert description is not None
    assert (title.text, description.text) == ("1 < 2 & more", 'says "so"')
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"].split() == [title.attrib["id"], description.attrib["id"]]
    assert title.attrib["id"] == "chart-a-b-c-d-title"


def test_what_is_no_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="no SVG"):
        inlined("<svg width='7'></svg>", "x", "", "")


def uses(*looks: str) -> str:
    markers = "\n".join(f'<use xlink:href="#m1" x="1.23456" y="2" style="{look}"/>' for look in looks)
    return FILE.replace('<g id="axes_1"', f'<g clip-path="url(#p1)">\n{markers}\n</g>\n<g id="axes_1"')


def test_markers_that_look_alike_say_so_once() -> None:
    found = inlined(uses("fill: #111111; opacity: 0.6", "fill: #111111; opacity: 0.6"), "x", "", "")
    ElementTree.fromstring(found)
    assert '<g clip-path="url(#chart-x-p1)" fill="#111111" fill-opacity="0.6" stroke-opacity="0.6">' in found
    assert found.count('<use xlink:href="#chart-x-m1" x="1.23" y="2"/>') == 2


def test_markers_that_differ_keep_their_looks() -> None:
    found = inlined(uses("fill: #111111", "fill: #222222"), "x", "", "")
    assert '<use xlink:href="#chart-x-m1" x="1.23" y="2" fill="#222222"/>' in found
