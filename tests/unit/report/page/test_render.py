"""The page: well formed, accessible, closed against everything from outside, and quick for a thousand runs."""

import base64
import hashlib
import itertools
import re
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dlbench.report.data import read
from dlbench.report.page import render as page
from dlbench.report.page.render import policy, ticked
from tests.unit.report.charts import contrast, luminance
from tests.unit.report.figures.makers import report_data, run
from tests.unit.report.page.pages import HOSTILE, NUL, SVG, UNSEEN, content, hostile, large, read_html, study

ROOT = Path(__file__).parents[4]
CSS = Path(page.__file__).with_name("page.css").read_text(encoding="utf-8")
JS = Path(page.__file__).with_name("page.js").read_text(encoding="utf-8")
STUDIES = [*sorted(path.parent for path in (ROOT / "results").glob("*/runs.csv")), ROOT / "tests/fixtures/study-v3"]


@pytest.fixture
def html(tmp_path):
    return page.html(content(study(tmp_path)))


def spaced(text):
    return " ".join(text.split())


def test_everything_is_said_in_order(html):
    text = read_html(html).text("body")
    parts = [
        "dlbench report", "Does a second worker pay?", "The answer", "Answer: least training time",
        "use", "mpi, 2 workers, batch 64; 2.10 s", "doubt", "three repeats show little", "All doubts",
        "Arms that were not compared", "1 of 3 runs did not complete",
        "Training time", "n = 3.", "batch_size Against batch size. b.png b.svg b.csv",
        "study: 11 runs: 10 completed, 1 out-of-memory, 12 attempts", "Published shapes", "kim2023",
        "holds training time falls", "cannot be told", "Charts", "1 chart could not be drawn",
        "strategies: needs two strategies", "Runs", "throughput", "1,500", "What failed", "out-of-memory",
        "worker 0: no memory left", "RuntimeError: first line", "last line", "Scenario", "# What for?", "Machine",
        "AMD EPYC", "23.5 GiB", "none found", "Definitions", "nats",
    ]  # fmt: skip
    assert SVG in html
    places = [text.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    found = 0
    for part in parts:
        found = text.find(part, found)
        assert found >= 0, f"{part!r} is not after what stands before it"


def test_the_same_content_gives_the_same_page(tmp_path):
    found = content(study(tmp_path))
    assert page.html(found) == page.html(found)


def test_parts_without_content_are_left_out(tmp_path):
    reader = read_html(page.html(content(study(tmp_path), answers=(), judged=(), drawn=(), left_out=())))
    assert {"shapes", "charts"} & {attributes.get("id") for attributes in reader.all("section")} == set()
    assert "#charts" not in [attributes["href"] for attributes in reader.all("a")]


def test_it_loads_nothing(html):
    reader = read_html(html)
    for _, attributes in reader.elements:
        for name in ("src", "href", "xlink:href", "action", "poster", "srcset", "data"):
            if name in attributes:
                parts = urlsplit(attributes[name])
                assert (parts.netloc, parts.scheme) in (("", ""), ("", "data")), attributes
    assert not re.search(r"@import|url\(", CSS)
    assert not reader.all("img", "iframe", "object", "embed", "base", "video", "audio")


def test_the_policy_allows_the_one_script_and_style_of_the_page_and_no_network(html):
    reader = read_html(html)
    (found,) = [one["content"] for one in reader.all("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in found.split("; "))
    assert rules.pop("default-src") == "'none'"
    for name, text in (("script", JS), ("style", CSS)):
        assert "".join(data for open_, data in reader.texts if open_[-1:] == (name,)) == text
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules.pop(f"{name}-src") == f"'sha256-{digest}'"
    assert rules == {"img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}
    assert not [attributes for _, attributes in reader.elements if "style" in attributes]
    assert policy(CSS, JS) == found != policy(CSS, JS + " ")


def test_script_and_style_end_where_the_page_ends_them():
    assert "</" not in JS
    assert "<" not in CSS
    assert "<!--" not in JS


def test_headings_and_landmarks(html):
    reader = read_html(html)
    count = reader.count()
    assert [count[name] for name in ("h1", "main", "nav", "footer", "form")] == [1] * 5
    assert count["table"] == 2  # the arms of one study, and all runs
    levels = [int(tag[1]) for tag, _ in reader.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))
    assert reader.all("html") == [{"lang": "en"}]
    assert reader.all("nav")[0]["aria-label"]


def test_what_is_referred_to_is_there_once(tmp_path):
    for found in (content(study(tmp_path)), hostile(tmp_path)):
        reader = read_html(page.html(found))
        ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
        assert len(ids) == len(set(ids))
        for tag, attributes in reader.elements:
            for name in ("aria-labelledby", "aria-describedby"):
                assert set((attributes.get(name) or "").split()) <= set(ids), (tag, attributes)
            if (attributes.get("href") or "").startswith("#"):
                assert attributes["href"][1:] in ids


def test_the_tables_are_such_for_those_who_hear_them(html):
    reader = read_html(html)
    assert reader.count()["caption"] == 2
    scopes = [attributes.get("scope") for attributes in reader.all("th")]
    assert None not in scopes
    assert scopes.count("row") == 11
    boxes = [attributes for attributes in reader.all("div") if attributes.get("class") == "box"]
    assert [(box["role"], box["tabindex"], box["aria-labelledby"]) for box in boxes] == [
        ("region", "0", "arms-title"), ("region", "0", "runs-title"),
    ]  # fmt: skip
    assert "hidden" in reader.all("form")[0]
    for number in (1, 2):
        headings = html.split("<thead>")[number].split("</thead>")[0].count("<th ")
        rows = html.split("<tbody>")[number].split("</tbody>")[0].split("<tr")[1:]
        assert {row.count("<td") + row.count("<th ") for row in rows} == {headings}
    assert reader.count()["button"] == 1  # a heading becomes a button where scripts run


def test_a_number_is_short_to_read_and_whole_to_sort_by(html):
    assert '<td data-v="1e-12">1.00e-12</td>' in html
    assert '<td data-v="1000000000000.0">1e+12</td>' in html
    assert "<td></td>" in html
    assert not re.search(r"<td[^>]*>(nan|None|NA|&lt;NA&gt;)</td>", html)


def test_a_failed_run_is_marked_in_words_and_leads_to_its_reason(html):
    (row,) = re.findall(r'<tr class="failed">.*?</tr>', html, re.DOTALL)
    (target,) = re.findall(r'<a href="#(why-\d+)">out-of-memory</a>', row)
    assert re.search(rf'<li id="{target}">.*?worker 0: no memory left', html, re.DOTALL)
    assert "(then attempt 2: completed)" in read_html(html).text("li")


def test_hostile_texts_are_texts(tmp_path):
    html = page.html(hostile(tmp_path))
    reader = read_html(html)
    text = reader.text("body")
    for wanted in (*HOSTILE, *UNSEEN.values(), NUL.replace("\x00", r"\x00")):
        assert spaced(wanted) in text, wanted
    assert reader.count()["script"] == 1
    assert not reader.all("img")
    assert not [data for open_, data in reader.texts if open_[-1:] == ("b",) and data == "bold"]
    assert not [attributes for _, attributes in reader.elements if any(name.startswith("on") for name in attributes)]
    assert "x" * 100_000 in html
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)
    assert html.encode().decode() == html


def test_a_hostile_file_name_is_a_path_and_nothing_else(tmp_path):
    links = [attributes["href"] for attributes in read_html(page.html(hostile(tmp_path))).all("a")]
    beside = [link for link in links if not link.startswith("#")]
    assert len(beside) == 2
    assert all(urlsplit(link).scheme == "" and urlsplit(link).netloc == "" for link in beside)
    assert beside[1] == "javascript%3Aalert%281%29"


def test_the_scenario_stands_there_word_for_word(tmp_path):
    text = "\n\n# <b>first</b>\n\tname: 'x'  \n\n  {{ y }}\n"
    reader = read_html(page.html(content(report_data(run(), tmp_path=tmp_path, scenario=text))))
    (found,) = ["".join(data for open_, data in reader.texts if "pre" in open_)]
    assert found.removeprefix("\n") == text  # a browser leaves out the line end after <pre>


def test_what_a_study_lacks_is_said(tmp_path):
    lacking = report_data(run(), tmp_path=tmp_path)
    failed = report_data(*(run(repeat=n, status="failed", reason=None) for n in range(2)), tmp_path=tmp_path)
    for found, parts in (
        (lacking, ("study has no scenario.yaml.", "machine.json is not there or cannot be read")),
        (lacking, ("Nothing: every run completed at its first attempt.",)),
        (failed, ("2 runs: 0 completed, 2 failed", "no reason was recorded")),
    ):
        text = read_html(page.html(content(found))).text("main")
        assert [part for part in parts if part not in text] == []


def test_studies_are_told_apart(tmp_path):
    found = report_data(run(study="one"), run(study="two", status="stalled", reason="still"), tmp_path=tmp_path)
    reader = read_html(page.html(content(found)))
    assert 'data-choice="study"' in page.html(content(found))
    assert "attempt 1, of two" in reader.text("li")


def test_real_studies_have_all_their_runs_arms_and_failures():
    for path in STUDIES:
        found = read([path])
        html, text = page.html(content(found)), page.markdown(content(found))
        assert text.count("\n| ") > sum(arm.n > 0 for arm in found.arms), path
        rows = sum(attributes.get("scope") == "row" for attributes in read_html(html).all("th"))
        assert rows == len(found.runs), path
        failed = [row for row in found.attempts if row["status"] != "completed"]
        assert html.count('<li id="why-') == len(failed), path


def test_a_thousand_runs_are_small(tmp_path):
    found = large(tmp_path)
    assert len(found.data.runs) == 1000
    started = time.process_time()
    html = page.html(found)
    assert time.process_time() - started < 60
    assert html.count('<th scope="row">') == 1000
    table = html.split("<table>")[1].split("</table>")[0]
    assert len(table.encode()) < 2_000_000


def palettes():
    for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL):
        found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", block))
        yield {
            name: colour if len(colour) == 7 else "#" + "".join(2 * digit for digit in colour[1:])
            for name, colour in found.items()
        }


def test_colours_can_be_read():
    light, dark, paper = palettes()
    assert luminance(light["paper"]) > 0.9 > 0.1 > luminance(dark["paper"])
    pairs = [
        (text, ground) for text in ("ink", "quiet", "link", "good", "bad", "unsure") for ground in ("paper", "panel")
    ]
    pairs += [(text, "bad-paper") for text in ("ink", "bad")]
    for palette in (light, dark, paper):
        assert palette.keys() == light.keys()
        for text, ground in pairs:
            assert contrast(palette[text], palette[ground]) >= 4.5, (text, ground, palette[text], palette[ground])


def test_backticks_become_code_and_everything_else_is_escaped():
    assert ticked("a `b<c` d") == "a <code>b&lt;c</code> d"
    assert ticked("one ` alone <x>") == "one ` alone &lt;x&gt;"
    assert ticked("`</code><script>`") == "<code>&lt;/code&gt;&lt;script&gt;</code>"
    assert ticked("") == ""
