"""An SVG file into an element of an HTML page: nothing in it reaches, or is reached by, the rest of the page."""

import re
from html import escape

from dlbench.report.style import CURRENT

_TAG = re.compile(r"<[a-zA-Z][^<>]*>")
_ROOT = re.compile(r"<svg\b[^<>]*>")
_VIEW_BOX = re.compile(r'\bviewBox="0 0 ([0-9.]+) ([0-9.]+)"')
_STYLE = re.compile(r"""\sstyle=("[^"]*"|'[^']*')""")
_ID = re.compile(r'\bid="([^"]*)"')
_REFERENCE = re.compile(r'\b((?:xlink:)?href=")#([^"]*)"')
_URL = re.compile(r"\burl\(#([^)]*)\)")
# The drawing library's rules for all elements: in a page they would hold for those outside of the picture too.
_SHEET = re.compile(r"<defs>\s*<style\b[^<>]*>\s*\*\{[^{}<>]*\}\s*</style>\s*</defs>\s*")
# Those rules as attributes of the root, which everything inside inherits.
_INHERITED = 'stroke-linejoin="round" stroke-linecap="butt"'
# Markers of one series: each says again how it looks.
_MARKERS = re.compile(r"<g((?: [^<>]*)?)>\s*((?:<use [^<>]*/>\s*)+)</g>")
_MARKER = re.compile(r"(<use xlink:href=\"[^\"]*\" x=\"[^\"]*\" y=\"[^\"]*\")([^<>]*)/>")
# A hundredth of a point is less than anyone sees.
_DIGITS = re.compile(r"(\d\.\d\d)\d+")
_DECLARATION = re.compile(r"\s*([a-z-]+)\s*:\s*(.*?)\s*$", re.DOTALL)


def inlined(file: str, prefix: str, title: str, description: str) -> str:
    """Return the `<svg>` element of a file, with ids of its own and without a prolog, style sheet or style attribute.

    A page may forbid styles in attributes, so that they become attributes of their own (`fill="#0072b2"`).

    Args:
        file: What the drawing library wrote.
        prefix: What all ids begin with; letters that an id cannot have become `-`.
        title: The picture's name, for those who do not see it.
        description: What it shows, for the same.
    """
    ids = "chart-" + re.sub(r"[^A-Za-z0-9_-]", "-", prefix)
    body = _SHEET.sub("", file[file.index("<svg") :], count=1)
    body = _TAG.sub(lambda tag: _own(tag.group(), ids), body)
    body = _MARKERS.sub(_said_once, re.sub(r"\n\s+", "\n", body))
    root = _ROOT.match(body)
    size = _VIEW_BOX.search(root.group()) if root else None
    if root is None or size is None:
        raise ValueError("this is no SVG file of a picture")
    return _head(ids, float(size[1]), float(size[2]), title, description) + body[root.end() :].strip()


def _head(ids: str, width: float, height: float, title: str, description: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" id="{ids}" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}pt" height="{height:g}pt" role="img" '
        f'aria-labelledby="{ids}-title {ids}-desc" {_INHERITED}>\n'
        f'<title id="{ids}-title">{escape(title)}</title>\n<desc id="{ids}-desc">{escape(description)}</desc>\n'
    )


def _own(tag: str, ids: str) -> str:
    """Return a tag with prefixed ids and references, its style as attributes, and the page's colour of text."""
    tag = _STYLE.sub(lambda style: _attributes(style[1]), tag)
    tag = _ID.sub(rf'id="{ids}-\1"', tag)
    tag = _REFERENCE.sub(rf'\1#{ids}-\2"', tag)
    return _DIGITS.sub(r"\1", _URL.sub(rf"url(#{ids}-\1)", tag).replace(CURRENT, "currentColor"))


def _said_once(group: re.Match[str]) -> str:
    """Return a group of markers that look alike with their look at the group; other groups as they are.

    Opacity is handed to fill and stroke: a group's own would hide that markers overlap.
    """
    markers = _MARKER.findall(group[2])
    looks = {look for _, look in markers}
    if len(looks) != 1:
        return group[0]
    look = re.sub(r' opacity="([^"]*)"', r' fill-opacity="\1" stroke-opacity="\1"', looks.pop())
    return f"<g{group[1]}{look}>\n" + "".join(f"{marker}/>\n" for marker, _ in markers) + "</g>"


def _attributes(style: str) -> str:
    """Return a quoted style as attributes; a value has no semicolon, and is quoted as the style was."""
    quote, text = style[0], style[1:-1]
    found = [_DECLARATION.match(part) for part in text.split(";") if part.strip()]
    values = {one[1]: one[2] for one in found if one is not None}
    return "".join(f" {name}={quote}{value}{quote}" for name, value in values.items())
