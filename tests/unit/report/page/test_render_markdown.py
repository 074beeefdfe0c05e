"""The Markdown: read by a reader of Markdown, it says what the page says, and every text from outside is text."""

import re

import pytest
from markdown_it import MarkdownIt

from dlbench.report.markdown import escaped, table
from dlbench.report.page.content import RenderedFigure
from dlbench.report.page.render import markdown
from tests.unit.report.figures.makers import report_data, run
from tests.unit.report.page.pages import HOSTILE, NUL, UNSEEN, assert_in_order, content, hostile, read_html, study

# Reads what GitHub reads: raw HTML is on, so that what is not escaped would show.
READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def html_of(text):
    return read_html(READER.render(text))


def line_of(text, beginning):
    (found,) = [line for line in text.splitlines() if line.startswith(beginning)]
    return found


def test_everything_is_said_in_order(tmp_path):
    assert_in_order(html_of(markdown(content(study(tmp_path)))).text(), [
        "study", "Newest run started on 2026-11-21 04:15 UTC.", "The answer", "Answer: least training time",
        "use: mpi, 2 workers, batch 64", "All doubts", "Arms that were not compared",
        "study: 11 runs: 10 completed, 1 out-of-memory, 12 attempts",
        "Published shapes", "training time falls", "cannot be told", "Arms", "Median [interval that covers at least",
        "steady samples/s", "efficiency:", "Charts", "Training time", "n = 3.", "Charts that could not be drawn",
        "strategies: needs two strategies", "What failed", "out-of-memory", "worker 1: RuntimeError: first line",
    ])  # fmt: skip


def test_studies_have_tables_of_their_own(tmp_path):
    rows = [run(study="one"), run(study="two"), run(study="two", batch_size=8, status="failed")]
    text = markdown(content(report_data(*rows, tmp_path=tmp_path)))
    assert text.count("| strategy | n |") == 2
    assert "| study | run | attempt | status | reason | afterwards |" in text
    assert line_of(text, "| two |")
    text = markdown(content(report_data(rows[2], tmp_path=tmp_path), answers=()))
    assert "## Arms" not in text
    assert "1 run: 0 completed, 1 failed" in text
    assert "Nothing: every run completed" in markdown(content(report_data(rows[0], tmp_path=tmp_path)))


@pytest.mark.parametrize("text", [*HOSTILE, "# a", "- a", "+ a", "1. a", "1) a", "= a", "---", "`", "_a_", "__init__"])
def test_a_text_is_read_as_it_is(text):
    for beginning in ("", "- ", "# "):
        reader = html_of(beginning + escaped(text))
        assert reader.text() == " ".join(text.split())
        assert {tag for tag, _ in reader.elements} <= {"p", "ul", "li", "h1"}


@pytest.mark.parametrize("text", [*HOSTILE, "a\nb", "a\r\n| b |", "|", "\\|", "\\"])
def test_a_text_stays_in_its_cell(text):
    reader = html_of("\n".join(table(("one", "two"), [(escaped(text), "end")])))
    assert len(reader.all("td")) == 2
    assert reader.text("td").startswith(" ".join(text.split()))


def test_words_with_underscores_and_numbers_stay_readable():
    for text in ("batch_size=32 learning_rate_scale=none", "0.97 of 1.2"):
        assert escaped(text) == text


def test_hostile_texts_are_texts(tmp_path):
    text = markdown(hostile(tmp_path))
    assert markdown(hostile(tmp_path)) == text
    reader = html_of(text)
    assert not reader.all("script", "a", "b", "code", "em", "strong", "del")
    assert len(reader.all("img")) == 1
    assert not [attributes for _, attributes in reader.elements if any(name.startswith("on") for name in attributes)]
    said = reader.text()
    for wanted in (*HOSTILE, *UNSEEN.values(), NUL.replace("\x00", r"\x00")):
        assert " ".join(wanted.split()) in said, wanted
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert max(map(len, text.splitlines())) < 10_000  # a reason of 100 kB is cut
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("| ")]
    assert tables
    for lines in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1, lines


def test_a_picture_is_the_png_where_there_is_one(tmp_path):
    found = report_data(run(), tmp_path=tmp_path)
    for names, shown in (("a.svg a.png a.csv", ["a.png"]), ("a.svg a.csv", ["a.svg"]), ("a.csv", [])):
        drawn = (RenderedFigure("a", "A.", "A [x]", "<svg/>", "c", tuple(names.split())),)
        assert re.findall(r"!\[A \\\[x\\\]\]\((.*)\)", markdown(content(found, drawn=drawn))) == shown
