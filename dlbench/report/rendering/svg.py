"""A drawing of matplotlib's as an SVG file, and as an element of an HTML page whose policy forbids styles in it.

Marks say what they are where the mouse rests: a run with its repeat and value, or a median with its interval. An
artist's group id carries these texts into the SVG, as JSON, and `tree` makes titles of them.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from io import BytesIO
from xml.etree import ElementTree

from matplotlib.artist import Artist
from matplotlib.figure import Figure

from dlbench.analysis.formatting import Unit, accuracy, joined, number, one_line, percent
from dlbench.report.chart import Axis, Mark, Series
from dlbench.report.rendering.style import CURRENT, FONT, PAPER

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
GROUP, USE = f"{{{SVG}}}g", f"{{{SVG}}}use"
# What a mark may be: a marker, a bar or cell, the text in a cell.
MARKS = (USE, f"{{{SVG}}}path", f"{{{SVG}}}text")
# Group ids of what a file has and a page shows itself.
TITLE, CAPTION = "title", "caption"
# What everything inside inherits: matplotlib's rules; fonts, of which Verdana is as wide as the first; and that lines
# and intervals over a mark let the mouse through.
ROOT = {
    "stroke-linejoin": "round", "stroke-linecap": "butt", "font-family": f"{FONT}, Verdana, sans-serif",
    "pointer-events": "none", "role": "img",
}  # fmt: skip
# Longer names in texts of marks are cut.
MOST_LETTERS = 300
# A hundredth of a point is invisible.
_DIGITS = re.compile(r"(\d\.\d\d)\d+")
_UNIT = re.compile(r"(.*) \((.*)\)")
# The repeat at the end of a run_id.
_REPEAT = re.compile(r".*-r(\d+)")


def say(artist: Artist, texts: Sequence[str]) -> None:
    """Have the marks of an artist say texts, one each in the order of drawing."""
    artist.set_gid(json.dumps(texts))


def texts_of(series: Series, mark: Mark, axis: Axis) -> list[str]:
    """Return the texts of a median and of its runs."""
    runs = run_texts(mark.runs, mark.points, axis)
    return [median_text(series, mark, axis), *runs, *run_texts(mark.ended_runs, mark.ended, axis, "at least ")]


def median_text(series: Series, mark: Mark, axis: Axis) -> str:
    """Return what is known of a mark as a whole; empty where nothing is."""
    interval, name = mark.interval, one_line(joined(series.label, mark.name), MOST_LETTERS)
    if interval is None:
        return ""
    what, unit = quantity_of(axis)
    of = f", median of {interval.n} runs" if interval.low is not None else ""
    return f"{name}: {what}{unit.with_ends(interval)}{of}"


def run_texts(runs: Sequence[str], values: Sequence[float], axis: Axis, bound: str = "") -> Iterator[str]:
    """Yield a text for each value but NaN, with its run where these are known."""
    what, unit = quantity_of(axis)
    for run, value in zip(runs if len(runs) == len(values) else [""] * len(values), values, strict=True):
        if not math.isnan(value):
            repeat = _REPEAT.fullmatch(run)
            name = f"run {one_line(run, MOST_LETTERS)}{f', repeat {repeat[1]}' if repeat else ''}: " if run else ""
            yield f"{name}{what}{bound}{unit.shown(value)}"


def quantity_of(axis: Axis) -> tuple[str, Unit]:
    """Return the beginning `training time ` of a text, and how the values of an axis are written: `6.24 s`."""
    named = _UNIT.fullmatch(axis.label)
    what, suffix = (named[1], f" {named[2]}") if named else (axis.label, "")
    # Accuracies have an end.
    written = percent if axis.percent else accuracy if axis.most == 1 else number
    return f"{one_line(what, MOST_LETTERS)} ".lstrip(), Unit(written, "" if axis.percent else suffix)


def tree(figure: Figure, title: str, description: str) -> ElementTree.Element:
    """Return an SVG drawing whose marks have titles, with styles as attributes (`fill="#0072b2"`).

    Args:
        figure: What to draw.
        title: The picture's name, for those who do not see it.
        description: What it shows, for the same.
    """
    buffer = BytesIO()
    about = {"Title": title, "Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(buffer, format="svg", metadata=about)
    root = ElementTree.fromstring(buffer.getvalue())  # noqa: S314 - matplotlib wrote it
    for child in (*root.findall("{*}metadata"), *root.findall("{*}defs")[:1]):  # these definitions are a style sheet
        child.clear()
    for group in root.iter(GROUP):
        for marker in group.findall(USE):  # all of a group have the same style
            group.set("style", marker.attrib.pop("style"))
        if group.get("id", "").startswith("["):  # `say` put it there
            _title_marks(group, json.loads(group.attrib.pop("id")))
        elif group.get("id") not in (TITLE, CAPTION):
            group.attrib.pop("id", "")
    for element in root.iter():
        declarations = (part.partition(":") for part in element.attrib.pop("style", "").split(";") if part.strip())
        attributes = element.attrib | {name.strip(): value.strip() for name, _, value in declarations}
        attributes.pop("font-family", "")
        element.attrib = {name: _DIGITS.sub(r"\1", value) for name, value in attributes.items()}
        element.text, element.tail = element.text and element.text.rstrip("\n "), None
    root.attrib |= ROOT | {"aria-label": f"{title}. {description}"}
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    return root


def inlined(root: ElementTree.Element, top: float, bottom: float) -> str:
    """Turn a drawing into the `<svg>` element of a page, in its colour of text, without title and caption.

    Args:
        root: The drawing.
        top: Where what is shown begins, in points from the top.
        bottom: Where it ends.
    """
    width = float(root.get("viewBox", "").split()[2])
    root.attrib |= {"viewBox": f"0 {top:.2f} {width:.2f} {bottom - top:.2f}", "height": f"{bottom - top:.2f}pt"}
    for group in root.iter(GROUP):
        if group.get("id") in (TITLE, CAPTION):
            group.clear()
    text = ElementTree.tostring(root, encoding="unicode")
    return text.replace(f'"{CURRENT}"', '"currentColor"').replace(f'fill="{PAPER}"', 'fill="none"')


def _title_marks(group: ElementTree.Element, texts: Sequence[str]) -> None:
    """Give each mark of a group its text as a title, which a browser shows where the mouse rests."""
    groups = (group.findall(f".//{tag}") for tag in MARKS)
    # None has one where some are not drawn, or they are an image.
    for mark, text in zip(next((marks for marks in groups if len(marks) == len(texts)), ()), texts, strict=False):
        if text:
            mark.set("pointer-events", "all")
            ElementTree.SubElement(mark, f"{{{SVG}}}title").text = text
