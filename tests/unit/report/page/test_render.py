"""The page: well formed, accessible, closed against everything from outside, and quick for a thousand runs.

That it loads nothing, and that its colours can be read, `tests/functional/test_page_in_browser.py` holds.
"""

import base64
import hashlib
import itertools
import re
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dlbench.report.data import read
from dlbench.report.page import render as page
from dlbench.report.page.render import policy, ticked
from tests.unit.report.figures.makers import report_data, run
from tests.unit.report.page.pages import (
    FIXTURE,
    HOSTILE,
    NUL,
    SVG,
    UNSEEN,
    assert_in_order,
    content,
    hostile,
    large,
    read_html,
    study,
)

ROOT = Path(__file__).parents[4]
CSS = Path(page.__file__).with_name("page.css").read_text(encoding="utf-8")
JS = Path(page.__file__).with_name("page.js").read_text(encoding="utf-8")
STUDIES = [ROOT / "results" / "digits-strategies", ROOT / "results" / "dividing", FIXTURE]


@pytest.fixture
def html(tmp_path):
    return page.html(content(study(tmp_path)))


def test_everything_is_said_in_order(html):
    assert_in_order(read_html(html).text("body"), [
        "dlbench report", "Does a second worker pay?", "The answer", "Answer: least training time",
        "use", "mpi, 2 workers, batch 64; 2.10 s", "doubt", "three repeats show little", "All doubts",
        "Arms that were not compared", "1 of 3 runs did not complete",
        "Training time", "n = 3.", "batch_size Against batch size. b.png b.svg b.csv",
        "study: 11 runs: 10 completed, 1 out-of-memory, 12 attempts", "Published shapes", "kim2023",
        "holds training time falls", "cannot be told", "Charts", "1 chart could not be drawn",
        "strategies: needs two strategies", "Runs", "throughput", "1,500", "What failed", "out-of-memory",
        "worker 0: no memory left", "RuntimeError: first line", "last line", "Scenario", "# What for?", "Machine",
        "Intel(R) Xeon(R)", "23.5 GiB", "none found", "Definitions", "nats",
    ])  # fmt: skip
    assert SVG in html


def test_parts_without_content_are_left_out(tmp_path):
    found = content(study(tmp_path), answers=(), judged=(), drawn=(), left_out=())
    reader = read_html(html := page.html(found))
    assert page.html(found) == html
    assert {"shapes", "charts"} & {attributes.get("id") for attributes in reader.all("section")} == set()
    assert "#charts" not in [attributes["href"] for attributes in reader.all("a")]


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
    # Script and style end where the page ends them.
    assert not re.search("</|<!--", JS)
    assert "<" not in CSS


def test_headings_landmarks_and_tables_are_such_for_those_who_hear_them(html):
    reader = read_html(html)
    count = Counter(tag for tag, _ in reader.elements)
    assert [count[name] for name in ("h1", "main", "nav", "footer", "form")] == [1] * 5
    assert count["table"] == 2  # the arms of one study, and all runs
    levels = [int(tag[1]) for tag, _ in reader.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))
    assert reader.all("html") == [{"lang": "en"}]
    assert reader.all("nav")[0]["aria-label"]
    assert count["caption"] == 2
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
    assert count["button"] == 1  # a heading becomes a button where scripts run


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
        assert " ".join(wanted.split()) in text, wanted
    assert len(reader.all("script")) == 1
    assert not reader.all("img")
    assert not [data for open_, data in reader.texts if open_[-1:] == ("b",) and data == "bold"]
    assert not [attributes for _, attributes in reader.elements if any(name.startswith("on") for name in attributes)]
    assert "x" * 100_000 in html
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)
    # A file's name is a path and nothing else.
    beside = [attributes["href"] for attributes in reader.all("a") if not attributes["href"].startswith("#")]
    assert [(urlsplit(link).scheme, urlsplit(link).netloc) for link in beside] == [("", "")] * 2
    assert beside[1] == "javascript%3Aalert%281%29"


def test_the_scenario_stands_there_word_for_word(tmp_path):
    text = "\n\n# <b>first</b>\n\tname: 'x'  \n\n  {{ y }}\n"
    reader = read_html(page.html(content(report_data(run(), tmp_path=tmp_path, scenario=text))))
    (found,) = ["".join(data for open_, data in reader.texts if "pre" in open_)]
    assert found.removeprefix("\n") == text  # a browser leaves out the line end after <pre>


def test_what_a_study_lacks_is_said_and_studies_are_told_apart(tmp_path):
    lacking = report_data(run(), tmp_path=tmp_path)
    failed = report_data(*(run(repeat=n, status="failed", reason=None) for n in range(2)), tmp_path=tmp_path)
    two = report_data(run(study="one"), run(study="two", status="stalled", reason="still"), tmp_path=tmp_path)
    for found, parts in (
        (lacking, ("Nothing: every run completed at its first attempt.", "study has no scenario.yaml.",
                   "machine.json is not there or cannot be read")),
        (failed, ("2 runs: 0 completed, 2 failed", "no reason was recorded")),
        (two, ("attempt 1, of two",)),
    ):  # fmt: skip
        html = page.html(content(found))
        assert_in_order(read_html(html).text("main"), parts)
        assert ('data-choice="study"' in html) == (found is two)


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


def test_backticks_become_code_and_everything_else_is_escaped():
    assert ticked("a `b<c` d") == "a <code>b&lt;c</code> d"
    assert ticked("one ` alone <x>") == "one ` alone &lt;x&gt;"
    assert ticked("`</code><script>`") == "<code>&lt;/code&gt;&lt;script&gt;</code>"
    assert ticked("") == ""
