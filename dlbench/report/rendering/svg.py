"""A drawing of matplotlib's as an SVG file, and as an element of an HTML page whose policy forbids styles in it."""

import re
from collections.abc import Sequence
from io import BytesIO
from xml.etree import ElementTree

from matplotlib.figure import Figure

from dlbench.report.rendering.hover import said
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
# A hundredth of a point is invisible.
_DIGITS = re.compile(r"(\d\.\d\d)\d+")


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
    for child in (root.find("{*}metadata"), root.find("{*}defs")):
        if child is not None:  # the first definitions are a style sheet
            child.clear()
    for group in root.iter(GROUP):
        for marker in group.findall(USE):  # all of a group have the same style
            group.set("style", marker.attrib.pop("style"))
        if group.get("id") not in (TITLE, CAPTION) and (texts := said(group.attrib.pop("id", ""))):
            _title_marks(group, texts)
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
