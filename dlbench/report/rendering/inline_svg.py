"""An SVG file into an element of an HTML page whose policy forbids style sheets and style attributes in it."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from dlbench.report.rendering.hover import said
from dlbench.report.rendering.style import CURRENT, HOLLOW

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
GROUP, USE = f"{{{SVG}}}g", f"{{{SVG}}}use"
# What a mark may be: a marker, a bar or cell, the text in a cell.
MARKS = (USE, f"{{{SVG}}}path", f"{{{SVG}}}text")
HREF = f"{{{XLINK}}}href"
# What is a marker's own; all else is the same for the markers of a series.
PLACE = ("x", "y", HREF)
# matplotlib's rules for all elements, as attributes of the root, which everything inside inherits.
INHERITED = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
# Lines and intervals over a mark let the mouse through.
SILENT = {"pointer-events": "none"}
_URL = re.compile(r"url\(#([^)]*)\)")
# A hundredth of a point is invisible.
_DIGITS = re.compile(r"(\d\.\d\d)\d+")


def inlined(file: str, prefix: str, title: str, description: str) -> str:
    """Return the `<svg>` element of a file, with ids of its own and styles as attributes (`fill="#0072b2"`).

    Args:
        file: What matplotlib wrote.
        prefix: The beginning of all ids; letters that an id cannot have become `-`.
        title: The picture's name, for those who do not see it.
        description: What it shows, for the same.

    Raises:
        ValueError: The file is no SVG picture with a view box.
    """
    ids = "chart-" + re.sub(r"[^A-Za-z0-9_-]", "-", prefix)
    root = ElementTree.fromstring(file)  # noqa: S314 - matplotlib wrote it
    if not (root.tag == f"{{{SVG}}}svg" and (view_box := root.get("viewBox"))):
        raise ValueError("this is no SVG file of a picture")
    spoken = [(group, said(group.get("id", ""))) for group in root.iter(GROUP)]
    for element in root.iter():
        _make_own(element, ids)
    for element in root.iter(GROUP):
        _state_once(element)
    for group, texts in spoken:
        _title_marks(group, texts)
    for child in [child for child in root if child.find("{*}style") is not None or child.tag.endswith("metadata")]:
        root.remove(child)
    root.attrib = {
        "id": ids,
        "viewBox": view_box,
        "width": root.get("width", ""),
        "height": root.get("height", ""),
        "role": "img",
        "aria-labelledby": f"{ids}-title {ids}-desc",
        **INHERITED,
        **SILENT,
    }
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        child = ElementTree.Element(f"{{{SVG}}}{tag}", {"id": f"{ids}-{tag}"})
        child.text = text
        root.insert(place, child)
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _title_marks(group: ElementTree.Element, texts: Sequence[str]) -> None:
    """Give each mark of a group its text as a title, which a browser shows where the mouse rests."""
    found = ((holder, [child for child in holder if child.tag == tag]) for tag in MARKS for holder in group.iter(GROUP))
    holder, marks = next(((holder, marks) for holder, marks in found if len(marks) == len(texts)), (group, []))
    for mark, text in zip(marks, texts, strict=False):  # none where some are not drawn, or they are an image
        holder.set("pointer-events", "all")
        if text:
            ElementTree.SubElement(mark, f"{{{SVG}}}title").text = text


def _make_own(element: ElementTree.Element, ids: str) -> None:
    """Give an element ids and references of its own, its style as attributes, and the page's colour of text."""
    element.text, element.tail = element.text and element.text.rstrip("\n "), None
    declarations = (part.partition(":") for part in element.attrib.pop("style", "").split(";") if part.strip())
    found = element.attrib | {name.strip(): value.strip() for name, _, value in declarations}
    if element.tag == GROUP:
        found.pop("id", None)  # nothing refers to it
    if not found.get("font-family", "sans-serif").endswith("sans-serif"):  # a browser may lack the font
        found["font-family"] += ", sans-serif"
    if "id" in found:
        found["id"] = f"{ids}-{found['id']}"
    if HREF in found and found[HREF].startswith("#"):
        found[HREF] = f"#{ids}-{found[HREF][1:]}"
    element.attrib = {name: _own_value(value, ids) for name, value in found.items()}


def _state_once(group: ElementTree.Element) -> None:
    """Move to a group of markers what all of them share.

    Opacity becomes that of fill and stroke: a group's own would hide that markers overlap.
    """
    markers = list(group)
    shared = [{name: value for name, value in one.attrib.items() if name not in PLACE} for one in markers]
    if any(one.tag != USE for one in markers) or any(one != shared[0] for one in shared):
        return
    if markers:
        if opacity := shared[0].pop("opacity", ""):
            shared[0] |= {"fill-opacity": opacity, "stroke-opacity": opacity}
        group.attrib |= shared[0]
    for marker in markers:
        marker.attrib = {name: value for name, value in marker.attrib.items() if name in PLACE}


def _own_value(value: str, ids: str) -> str:
    own = _URL.sub(rf"url(#{ids}-\1)", value).replace(CURRENT, "currentColor").replace(HOLLOW, "none")
    return _DIGITS.sub(r"\1", own)
