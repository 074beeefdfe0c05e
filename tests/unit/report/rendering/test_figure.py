"""Pictures: everything is in them, no text leaves the canvas or covers another, and equal charts give equal bytes."""

import itertools
import logging
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

from dlbench.report.chart import Axis, Chart, Hues, Series
from dlbench.report.rendering import figure as rendering
from dlbench.report.rendering.figure import WIDTH_IN, described, draw, picture
from dlbench.report.rendering.panels import AT_LEAST
from dlbench.report.rendering.style import CURRENT, PAPER, STYLES, applied
from dlbench.report.rendering.svg import USE, XLINK
from tests.unit.report.charts import EVERY, HOSTILE, hostile, lines, many_panels, mark, measured
from tests.unit.report.rendering.pictures import LIGHT, assert_legible, drawn, said, svg

FORMS = ("lines", "bars", "cells")
LONG_CAPTION = "Large markers are medians of 5 repeats; small dots are single runs. " * 8
WIDE_CAPTION = "MARKERS: MEDIANS OF WORKERS AND HOSTS. " * 8


def save_all(chart: Chart, caption: str, paths: Sequence[Path]) -> None:
    assert draw(chart, LIGHT, paths, caption) == ""


@pytest.mark.parametrize("name", EVERY)
def test_every_chart_is_legible_and_drawn_for_the_page(name: str) -> None:
    assert_legible(drawn(EVERY[name]))
    assert len(list(ElementTree.fromstring(svg(EVERY[name], name)).iter())) > 10


def test_every_style_draws() -> None:
    for name, style in zip(itertools.cycle(FORMS), STYLES, strict=False):
        assert len(draw(EVERY[name], STYLES[style], page_id=name)) > 1_000, (name, style)


def test_hostile_labels_stay_text_inside_the_canvas(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    figure = drawn(hostile())
    assert_legible(figure)
    everything = " ".join(said(figure))
    for text in (*HOSTILE[:3], "two lines", HOSTILE[4], r"\x1b[31mred\x00"):
        assert text in everything, text
    found = svg(hostile(), "rate")
    root = ElementTree.fromstring(found)
    assert "script" not in {element.tag.rpartition("}")[2] for element in root.iter()}
    assert any(element.text == "$x^2_i$ and $" for element in root.findall(".//{*}text"))
    assert "&lt;script&gt;" in found
    assert caplog.records == []


def test_ids_of_a_picture_are_its_own_and_lead_somewhere() -> None:
    for name in FORMS:
        first, second = svg(EVERY[name], name), svg(EVERY[name])
        ids, others = (re.findall(' id="([^"]*)"', found) for found in (first, second))
        assert len(ids) == len(set(ids))
        assert not set(ids) & set(others)
        wanted = set(re.findall(r'(?:href="|url\()#([^")]*)', first))
        assert wanted <= set(ids)
        assert wanted or name == "cells"  # which has neither markers nor anything cut at its edges


def test_an_inlined_picture_is_cut_to_its_panels_and_described() -> None:
    found = svg(lines(), "rate")
    for there in (
        "Throughput against workers</title>", described(lines()), "currentColor", 'fill="none"', 'role="img"',
        'stroke-linejoin="round"', "DejaVu Sans, Verdana, sans-serif",
    ):  # fmt: skip
        assert there in found, there
    for absent in (CURRENT, f'fill="{PAPER}"', "style=", "<style", "<!DOCTYPE", "<rdf"):
        assert absent not in found, absent
    assert described(lines()).startswith("digits, mlp: throughput (samples/s) by workers of mpi; horovod")
    assert described(Chart("x", ())) == "Nothing to show."
    root = ElementTree.fromstring(found)
    _, top, _, height = map(float, root.attrib["viewBox"].split())
    texts = root.findall(".//{*}text")
    assert "Throughput against workers" not in [text.text for text in texts]  # the page shows it itself
    ys = [float(text.attrib["y"]) for text in texts if "y" in text.attrib]
    assert top < min(ys) < top + 30
    assert max(ys) < top + height < max(ys) + 20
    # Markers state their style once, in their group.
    assert {name for use in root.iter(USE) for name in use.attrib} == {"x", "y", f"{{{XLINK}}}href", "pointer-events"}


def test_the_same_chart_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("lines", "cells"):  # of bars other processes give the same bytes, too: see `test_pool`
        found = []
        for number in "12":
            paths = [tmp_path / f"{number}{suffix}" for suffix in (".png", ".svg")]
            save_all(EVERY[name], "A caption.", paths)
            found.append([path.read_bytes() for path in paths])
        assert found[0] == found[1], name
        assert draw(EVERY[name], LIGHT, page_id="x") == svg(EVERY[name])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.png", "1.svg", "2.png", "2.svg"]


def test_each_file_is_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draws, draw = [], Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda figure, renderer: (draws.append(figure), draw(figure, renderer)))
    save_all(lines(), "", [tmp_path / "a.svg", tmp_path / "a.png"])
    assert len(draws) == 2


def test_title_and_caption_are_in_the_file(tmp_path: Path) -> None:
    sizes = []
    for caption in ("한글 $caption$ <b>", LONG_CAPTION, WIDE_CAPTION):
        save_all(lines(), caption, [tmp_path / "a.svg", tmp_path / "a.png"])
        with Image.open(tmp_path / "a.png") as image:
            sizes.append(image.size)
            assert np.array(image.convert("L"))[:, -8:].min() == 255, caption  # no line is cut at the edge
        found = (tmp_path / "a.svg").read_text(encoding="utf-8")
        title = ElementTree.fromstring(found).find("{*}title")
        assert title is not None
        assert title.text == "Throughput against workers"
        texts = [text.text or "" for text in ElementTree.fromstring(found).iterfind(".//{*}text")]
        assert len(texts) > 10
        assert any(caption.split()[1] in text for text in texts)
    assert sizes[1][0] == sizes[0][0]
    assert sizes[1][1] > sizes[0][1]


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()
    with pytest.raises(OSError):
        save_all(lines(), "", [tmp_path / "a.png"])
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_the_settings_of_the_user_neither_show_nor_change() -> None:
    plain = svg(lines())
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "text.parse_math": True, "axes.grid": True}):
        before, filters = matplotlib.rcParams.copy(), list(warnings.filters)
        assert draw(lines(), LIGHT, page_id="x") == plain
        picture(lines(), LIGHT)
        assert matplotlib.rcParams.copy() == before
        assert list(warnings.filters) == filters


def test_the_legend_names_each_series_once_in_full() -> None:
    found = said(drawn(many_panels(4)))
    for text in ("mpi", "paper", "shared cores (emulated)", AT_LEAST):
        assert found.count(text) == 1, text
    names = [f"{'a long beginning ' * 3}{middle}{' and a long end' * 3}" for middle in ("ONE", "TWO")]
    (legend,) = drawn(lines(*(measured(name, hue=hue) for hue, name in enumerate(names)))).legends
    assert [text.get_text().replace("\n", " ") for text in legend.get_texts()] == [name.strip() for name in names]
    (legend,) = drawn(lines(*(measured(label, hue=hue) for hue, label in enumerate(HOSTILE)))).legends
    assert len(legend.get_texts()) == len(HOSTILE)  # also of labels that begin with an underscore


def test_many_panels_are_legible_in_few_columns() -> None:
    figure = drawn(many_panels(12, 3, measured()))
    assert len(figure.axes) == 12
    assert figure.get_figwidth() <= WIDTH_IN[2]
    assert_legible(figure)
    for columns, across in ((1, 1), (4, 2), (5, 3)):
        axes = drawn(many_panels(5, columns, measured())).axes
        assert len({round(one.get_position().x0, 3) for one in axes}) == across, columns
        assert np.ptp([one.get_position().height for one in axes]) < 1e-6


def test_a_very_high_picture_has_fewer_pixels_an_inch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_PIXELS", 1_000)
    figure = drawn(many_panels(3, 1, measured()))
    assert figure.get_figheight() * figure.dpi == pytest.approx(1_000)
    assert_legible(figure)


def test_one_label_has_one_colour_in_all_charts_and_parts_keep_theirs() -> None:
    hues = Hues()
    first, second = (
        hues.applied(lines(*(Series(name, (), palette=palette) for name, palette in found))).panels[0].series
        for found in (
            (("mpi", "ways"), ("horovod", "ways")),
            (("horovod", "ways"), ("batch 8", "sizes"), ("b", "ways")),
        )
    )
    assert [one.hue for one in first] == [0, 1]
    assert [one.hue for one in second] == [1, 0, 2]
    (part,) = hues.applied(lines(Series("update", (), hue=6, palette="parts"))).panels[0].series
    assert part.hue == 6


def test_the_palette_of_a_png_keeps_white_and_pure_colours(tmp_path: Path) -> None:
    save_all(lines(measured("a"), measured("b", hue=1)), "", [tmp_path / "a.png"])
    with Image.open(tmp_path / "a.png") as image:
        colours = np.array([colour for _, colour in image.convert("RGB").getcolors(10**6) or ()])
    for wanted, most in (("#ffffff", 0), (LIGHT.colour(0), 2), (LIGHT.colour(1), 2)):
        distances = np.abs(colours - np.array(to_rgb(wanted)) * 255).max(axis=1)
        assert distances.min() < most + 0.5, wanted


def test_panels_reach_from_side_to_side_below_the_title_and_the_legend() -> None:
    for chart in (*map(EVERY.get, FORMS), many_panels(4)):
        figure = drawn(chart)
        with applied(LIGHT):
            (legend,) = figure.legends
            figure.draw_without_rendering()
            title = legend.get_title().get_window_extent()
            entries = [text.get_window_extent() for text in legend.get_texts()]
            panels = Bbox.union([axes.get_tightbbox() for axes in figure.axes])
            box = legend.get_window_extent()
        assert figure.bbox.y1 > title.y1 > title.y0 >= box.y0 >= panels.y1
        assert all(title.y0 > entry.y1 > entry.y0 >= box.y0 for entry in entries)
        assert panels.width > 0.95 * figure.bbox.width


def titles(picture: str, tag: str = "use") -> list[str]:
    """Return what the marks of a picture say."""
    return [title.text or "" for title in ElementTree.fromstring(picture).iterfind(f".//{{*}}{tag}/{{*}}title")]


def test_each_mark_on_the_page_says_its_run_repeat_and_value() -> None:
    runs = ("cnn-mpi-w2-1f-r0", "cnn-mpi-w2-1f-r1", "cnn-mpi-w2-1f-r2")
    marks = (replace(mark(1, 2.0, 4.0, 3.0), runs=runs), replace(mark(2, ended=(7.0,)), ended_runs=("b-r4",)))
    chart = lines(Series("mpi, 2 workers", marks), y=Axis("training time (s)"))
    assert sorted(titles(svg(chart))) == [
        "mpi, 2 workers: training time 3 s [2, 4], median of 3 runs",
        "run b-r4, repeat 4: training time at least 7 s",
        "run cnn-mpi-w2-1f-r0, repeat 0: training time 2 s",
        "run cnn-mpi-w2-1f-r1, repeat 1: training time 4 s",
        "run cnn-mpi-w2-1f-r2, repeat 2: training time 3 s",
    ]
    # Marks that are left out do not shift what others say.
    marks = (replace(mark(1, 0.0, 4.0), runs=("a-r0", "a-r1")),)
    chart = lines(Series("mpi", marks), y=Axis("training loss (nats)", "log10"))
    assert titles(svg(chart))[0] == "run a-r1, repeat 1: training loss 4 nats"
    for name, tag in (("bars", "path"), ("cells", "path"), ("cells", "text")):
        assert any("median of 3 runs" in text for text in titles(svg(EVERY[name], name), tag)), (name, tag)


def test_files_and_hostile_names_say_the_same(tmp_path: Path) -> None:
    save_all(lines(), "", [tmp_path / "a.svg"])
    file = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert len(titles(file)) > 10
    assert titles(file) == titles(svg(lines(), "a"))
    assert 'id="[' not in file
    assert not any(artist.get_gid() for artist in drawn(lines()).findobj())
    names = tuple(f"{text}-r0" for text in HOSTILE)
    odd = Series("mpi", (replace(mark(1, *map(float, range(1, len(names) + 1))), runs=names),))
    assert len(titles(svg(lines(odd)))) == len(names) + 1
