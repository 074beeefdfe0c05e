"""A drawing as a file and as an element of a page: what each has, and that the element refers to nothing outside."""

from xml.etree import ElementTree

from matplotlib.figure import Figure

from dlbench.report.rendering import svg
from dlbench.report.rendering.style import CURRENT, LIGHT, PAPER, applied


def drawing() -> ElementTree.Element:
    with applied(LIGHT, "a"):
        figure = Figure((2, 1))
        axes = figure.add_axes((0.2, 0.2, 0.6, 0.6))
        axes.axis("off")
        for height, looks in ((1, {"color": "#0072b2", "markerfacecolor": PAPER}), (2, {"color": CURRENT})):
            (line,) = axes.plot([1, 2, 3], [height, float("nan"), height], marker="o", **looks)
            svg.say(line, ["first", 'third < "3"'])
        axes.text(1, 1, 'id="x" <b id="y"> url(#z)')
        figure.text(0, 0.9, "the title", gid=svg.TITLE)
        return svg.tree(figure, "1 < 2 & more", 'says "so".')


def test_a_file_has_all_and_an_element_what_no_page_shows_itself() -> None:
    root = drawing()
    file = ElementTree.tostring(root, "unicode")
    element = svg.inlined(root, 10.0, 60.0)
    for there in ("the title", CURRENT, f'fill="{PAPER}"'):
        assert there in file
        assert there not in element
    for there in (file, element):
        for absent in ("<style", "style=", "<!DOCTYPE", "<rdf"):
            assert absent not in there, absent
        assert "DejaVu Sans, Verdana, sans-serif" in there
    title = ElementTree.fromstring(file).find("{*}title")
    assert title is not None
    assert title.text == "1 < 2 & more"
    parsed = ElementTree.fromstring(element)
    assert (parsed.attrib["role"], parsed.attrib["aria-label"]) == ("img", '1 < 2 & more. says "so".')
    assert parsed.attrib["viewBox"] == "0 10.00 144.00 50.00"
    assert [text.text for text in parsed.findall(".//{*}text")] == ['id="x" <b id="y"> url(#z)']
    for there in ('stroke="currentColor"', 'fill="none"', 'stroke-linejoin="round"'):
        assert there in element, there


def test_markers_state_their_style_once_and_say_their_texts() -> None:
    groups = [group for group in drawing().iter(svg.GROUP) if group.find(svg.USE) is not None]
    assert len(groups) == 2
    for group in groups:
        assert group.attrib["stroke"] in ("#0072b2", CURRENT)
        assert [set(marker.attrib) for marker in group] == [{"x", "y", f"{{{svg.XLINK}}}href", "pointer-events"}] * 2
        assert [title.text for title in group.findall("{*}use/{*}title")] == ["first", 'third < "3"']
