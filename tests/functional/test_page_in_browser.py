"""The page as a browser shows it: it sorts and filters, loads nothing, fits a phone, and can be read in the dark.

Also all files of a report: it takes ten seconds to draw, and the browser looks at the same one.
"""

import csv
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dlbench import plugins
from dlbench.cli import group
from dlbench.report.page.render import html
from tests.functional.browser import browser, program
from tests.unit.report.figures.makers import report_data
from tests.unit.report.page.pages import content, hostile, large, study

ROOT = Path(__file__).parents[2]
COLUMN = """(name) => {
  const table = document.querySelector('#runs table');
  const texts = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim().split(' ')[0]);
  const place = texts.indexOf(name);
  return [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[place].textContent);
}"""
SORTED = "[...document.querySelectorAll('#runs thead th')].map((cell) => cell.getAttribute('aria-sort'))"
COUNT = "document.querySelector('#runs output').textContent"

# Every text that is seen, with its colour and the first ground behind it that is not transparent.
CONTRASTS = """(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).slice(0, 3).map((part) => part / 255)
      .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      const found = parts(colour);
      if (found.length < 4 || found[3] > 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const poor = [];
  let count = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const isSeen = walker.currentNode.data.trim() && element.getClientRects().length;
    if (!isSeen || element.closest('svg, script, style, option')) continue;
    count += 1;
    const [low, high] = [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) poor.push([element.tagName, walker.currentNode.data.trim().slice(0, 40), ratio]);
  }
  return {count, poor};
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return a folder with a page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    contents = {"small": content(study(folder)), "hostile": hostile(folder), "large": large(folder)}
    for name, found in contents.items():
        (folder / f"{name}.html").write_text(html(found), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    if program() is None:
        pytest.skip("there is no Chromium here: sudo apt-get install --no-install-recommends chromium")
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def opened(shared, pages):
    """Return a function that opens a page as it is at first, in a wide window and light colours."""

    def open_page(name="small", width=1400):
        shared.call("Emulation.setScriptExecutionDisabled", value=False)
        shared.look(width)
        shared.open(pages / f"{name}.html")
        return shared

    return open_page


def column(page, name):
    return page.ask(f"({COLUMN})({json.dumps(name)})")


def heading(place):
    return f"#runs thead th:nth-child({place}) button"


def place_of(page, title):
    titles = page.ask("[...document.querySelectorAll('#runs thead th')].map((cell) => cell.textContent.trim())")
    return next(place for place, text in enumerate(titles, 1) if text.startswith(title))


def numbers(texts):
    return [float(text.replace(",", "")) if text else None for text in texts]


@pytest.mark.parametrize("name", ["small", "hostile"])
def test_the_page_loads_nothing_and_reports_no_error(opened, pages, name):
    check_it_is_whole(opened(name), pages / f"{name}.html")


def check_it_is_whole(page, path):
    assert [url for url in page.requests() if not url.startswith("data:")] == [path.as_uri()]
    assert page.complaints() == []
    assert page.ask("document.scripts.length") == 1


def test_the_content_policy_refuses_and_reports(opened, pages):
    html = (pages / "small.html").read_text(encoding="utf-8")
    bad = '<script>window.hit = 1</script><img src="http://127.0.0.1:9/x.png" onerror="window.hit = 2">'
    (pages / "broken.html").write_text(html.replace("</main>", f"{bad}</main>"), encoding="utf-8")
    page = opened("broken")
    assert page.ask("window.hit") is None
    assert len(page.complaints()) >= 2


def test_hostile_texts_do_nothing(opened):
    page = opened("hostile")
    assert page.ask("window.hit") is None
    assert page.ask("document.querySelectorAll('img, iframe, object, [onerror], [onmouseover]').length") == 0
    assert "<script>window.hit = 1</script>" in page.ask("document.body.innerText")
    page.click("#runs tbody td a")
    assert page.ask("location.hash").startswith("#why-")


def test_sorting_by_click(opened):
    page = opened()
    place = place_of(page, "steady")
    before = column(page, "steady")
    page.click(heading(place))
    rising = numbers(column(page, "steady"))
    known = [value for value in rising if value is not None]
    assert len(known) < len(rising) == 11
    assert rising == [*sorted(known), *[None] * (len(rising) - len(known))]
    assert page.ask(SORTED)[place - 1] == "ascending"
    page.click(heading(place))
    falling = numbers(column(page, "steady"))
    assert falling == [*sorted(known, reverse=True), *[None] * (len(rising) - len(known))]
    assert page.ask(SORTED)[place - 1] == "descending"
    page.click(heading(place))
    assert column(page, "steady") == before
    assert set(page.ask(SORTED)) == {"none"}


def test_numbers_are_sorted_as_numbers_and_only_one_heading_says_so(opened):
    page = opened()
    page.click(heading(place_of(page, "steady")))
    page.click(heading(place_of(page, "batch_size")))
    sizes = numbers(column(page, "batch_size"))
    assert sizes == sorted(sizes)
    assert sizes[-1] == 128  # as text it would be first
    assert page.ask(SORTED).count("none") == len(page.ask(SORTED)) - 1


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_sorting_by_key(opened, key):
    page = opened()
    page.ask(f"document.querySelector({json.dumps(heading(1))}).focus()")
    page.press("Tab")
    page.press("Tab")
    assert page.ask("document.activeElement.parentElement.cellIndex") == 2
    page.press(key)
    assert page.ask(SORTED)[2] == "ascending"
    assert page.ask("document.activeElement.parentElement.cellIndex") == 2


def test_the_focus_is_visible(opened):
    page = opened()
    seen = []
    for _ in range(30):
        page.press("Tab")
        seen.append(
            page.ask(
                "[document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle,"
                " parseFloat(getComputedStyle(document.activeElement).outlineWidth)]"
            )
        )
    assert {"A", "INPUT", "SELECT", "BUTTON", "DIV"} <= {tag for tag, _, _ in seen}
    assert all(style != "none" and width >= 2 for _, style, width in seen), seen


def test_searching_all_words(opened):
    page = opened()
    assert page.ask(COUNT) == "11 of 11 runs"
    page.click("#runs input")
    page.write("out-of-")
    assert page.ask(COUNT) == "1 of 11 runs"
    assert column(page, "status") == ["out-of-memory"]
    page.write("memory MLP-mpi")
    assert page.ask(COUNT) == "1 of 11 runs"
    page.write(" completed")
    assert page.ask(COUNT) == "0 of 11 runs"
    page.click("#runs .clear")
    assert page.ask(COUNT) == "11 of 11 runs"
    assert page.ask("document.querySelector('#runs input').value") == ""


def test_choosing_by_status_and_by_what_varies(opened):
    page = opened()
    labels = page.ask("[...document.querySelectorAll('#runs label')].map((one) => one.firstChild.textContent.trim())")
    assert labels == ["Search", "status", "strategy", "batch_size"]
    assert page.ask("[...document.querySelectorAll('#runs select')[2].options].map((one) => one.text)") == [
        "all", "32", "64", "128",
    ]  # fmt: skip
    choose = (
        "((place, text) => {{ const select = document.querySelectorAll('#runs select')[place];"
        "select.value = text; select.dispatchEvent(new Event('input', {{bubbles: true}})); }})({}, {})"
    )
    page.ask(choose.format(0, json.dumps("=completed")))
    assert page.ask(COUNT) == "10 of 11 runs"
    page.ask(choose.format(2, json.dumps("=64")))
    assert page.ask(COUNT) == "4 of 11 runs"
    assert set(column(page, "batch_size")) == {"64"}
    page.ask(choose.format(1, json.dumps("=one worker alone")))
    assert page.ask(COUNT) == "0 of 11 runs"
    page.ask(choose.format(2, json.dumps("=32")))
    assert page.ask(COUNT) == "3 of 11 runs"


def test_a_choice_of_hostile_words_works(opened):
    page = opened("hostile")
    names = [text for text in column(page, "model.name") if text]
    for text in names:
        count = page.ask(
            "((text) => { const select = [...document.querySelectorAll('#runs select')].find("
            "(one) => one.parentElement.textContent.startsWith('model.name'));"
            f"select.value = '=' + text; select.dispatchEvent(new Event('input', {{bubbles: true}})); return {COUNT};"
            f" }})({json.dumps(text.strip())})"
        )
        assert count.startswith("1 of "), text


def test_a_thousand_rows_are_sorted_and_filtered_at_once(opened, pages):
    page = opened("large")
    check_it_is_whole(page, pages / "large.html")
    button = f"document.querySelector({json.dumps(heading(place_of(page, 'steady')))})"
    # The least of several is what it takes where nothing else runs. They end as they began: rising.
    took_s = [page.work_s(f"{button}.click()") for _ in range(4)]
    assert 0 < min(took_s) < 2  # a bound against what never ends, not a measurement
    rates = [value for value in numbers(column(page, "steady")) if value is not None]
    assert len(rates) > 900
    assert rates == sorted(rates)
    words = """(() => {
      const input = document.querySelector('#runs input');
      input.value = 'mpi failed';
      input.dispatchEvent(new Event('input', {bubbles: true}));
    })()"""
    assert 0 < page.work_s(words) < 2
    assert set(column(page, "status")) == {"failed"}


@pytest.mark.parametrize("name", ["small", "hostile"])
@pytest.mark.parametrize("width", [360, 830, 1400])
def test_nothing_but_tables_scroll_sideways_and_charts_on_telephones(opened, name, width):
    page = opened(name, width)
    page.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.ask("innerWidth") == width
    assert page.ask("document.documentElement.scrollWidth") <= width
    beyond = page.ask(
        "[...document.querySelectorAll('body *')].filter((one) => !one.closest('table, svg, select, input, .skip') &&"
        " one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline')"
        ".map((one) => one.className || one.tagName)"
    )
    assert set(beyond) <= ({"box", "drawing"} if width == 360 else {"box"})
    if width == 360:
        assert beyond.count("box") == 2
    cell = "document.querySelector('#arms tbody td:not(.number)')"
    page.ask(f"{cell}.textContent = 'a long name '.repeat(20)")
    assert page.ask(f"{cell}.scrollWidth - {cell}.clientWidth") <= 1


@pytest.mark.parametrize("name", ["small", "hostile"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(opened, name, dark):
    page = opened(name)
    page.look(1400, dark=dark)
    page.ask("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    grounds = page.ask("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", grounds))) < 384) is dark
    found = page.ask(CONTRASTS)
    assert found["count"] > 100
    assert found["poor"] == []


def test_without_scripts_the_page_is_whole(opened, pages):
    page = opened()
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(pages / "small.html")
    assert page.ask("document.querySelectorAll('#runs tbody tr').length") == 11
    assert page.ask("document.querySelectorAll('#arms tbody tr').length") == 3
    assert page.ask("document.querySelectorAll('#runs thead button').length") == 0
    assert page.ask("document.querySelector('#runs form').getClientRects().length") == 0


def test_it_can_be_printed(opened):
    page = opened()
    page.look(1400, dark=True, media="print")
    assert page.ask("document.querySelector('#runs form').getClientRects().length") == 0
    assert page.ask("document.querySelector('nav').getClientRects().length") == 0
    assert page.ask("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    page.ask("window.dispatchEvent(new Event('beforeprint'))")
    assert page.ask("document.querySelectorAll('details:not([open])').length") == 0
    page.ask("window.dispatchEvent(new Event('afterprint'))")
    assert page.ask("document.querySelectorAll('details[open]').length") == 0
    assert page.paper().startswith(b"%PDF-")


def test_a_link_to_a_reason_unfolds_it(opened):
    page = opened()
    target = page.ask("[...document.querySelectorAll('.failures li')].find((one) => one.querySelector('details')).id")
    page.ask(
        "new Promise((done) => { addEventListener('hashchange', done, {once: true});"
        f" location.hash = {json.dumps(target)}; }}).then(() => true)"
    )
    assert page.ask(f"document.getElementById({json.dumps(target)}).querySelector('details').open") is True


def test_a_study_of_one_run_has_nothing_to_choose(opened, pages, tmp_path):
    (pages / "one.html").write_text(html(content(report_data({}, tmp_path=tmp_path))), encoding="utf-8")
    page = opened("one")
    assert page.ask(COUNT) == "1 of 1 run"
    assert page.ask("document.querySelectorAll('#runs select').length") == 0
    assert page.complaints() == []


REAL = ROOT / "results" / "digits-batch-workers"


@pytest.fixture(scope="module")
def reported(pages):
    """Draw the report of a study of the repository beside the other pages; return what is printed."""
    done = CliRunner().invoke(group, ["report", str(REAL), "--output", str(pages / "real"), "--format", "svg"])
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout


@pytest.fixture
def real(reported):
    return "real/report"


def test_a_report_of_a_real_study(pages, reported):
    first, files, place = reported.splitlines()  # of progress no line: this is no terminal
    names = {path.name for path in (pages / "real").iterdir()}
    assert {"report.html", "report.md", "arms.csv"} <= names
    drawn = {path.stem for path in (pages / "real").glob("*.svg")}
    assert (f"{len(names)} files in " in files, place.startswith("page: ")) == (True, True), reported
    left_out = set(first.removeprefix("not drawn: ").removesuffix(" (the page says why)").split(", "))
    assert drawn | left_out == set(plugins.names("figures"))
    assert drawn.isdisjoint(left_out)
    assert {"training_time", "throughput", "efficiency", "accuracy", "learning_curves"} <= drawn
    assert {f"{name}.csv" for name in drawn} <= names
    page = (pages / "real" / "report.html").read_text()
    assert page.count("<svg") == len(drawn)
    with (REAL / "runs.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["study"] in page


AT_MARKS = """[...document.querySelectorAll('.chart svg')].slice(0, 3).flatMap((svg) => {
  svg.scrollIntoView({behavior: 'instant'});
  return [...svg.querySelectorAll('use')].filter((use) => use.querySelector('title')).map((use) => {
    const box = use.getBoundingClientRect();
    const hit = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
    return hit && hit.querySelector('title') && hit.querySelector('title').textContent;
  });
})"""


def test_the_mouse_on_any_mark_of_a_real_study_finds_its_run_repeat_and_value(opened, real):
    page = opened(real)
    found = page.ask(AT_MARKS)
    assert len(found) > 100
    assert all(found), "something else is in front of a mark"
    runs = [text for text in found if text.startswith("run ")]
    assert any(re.fullmatch(r"run mlp-mpi-w2-b\d+-\w+-r3, repeat 3: training time [\d.]+ s", text) for text in runs)
    assert page.complaints() == []


@pytest.mark.parametrize("width", [1280, 1440, 1600])
def test_charts_fill_the_column(opened, real, width):
    page = opened(real, width)
    column, *charts = page.ask(
        "[document.querySelector('main'), ...document.querySelectorAll('.chart svg')]"
        ".map((one) => one.getBoundingClientRect().width)"
    )
    assert len(charts) > 5
    assert min(charts) > 0.99 * column


def test_names_in_legends_and_the_answer_say_the_strategy(opened, real):
    page = opened(real)
    for texts in (
        page.ask("[...document.querySelectorAll('.chart svg text')].map((one) => one.textContent)"),
        page.ask("[...document.querySelectorAll('#answer li')].map((one) => one.textContent)"),
    ):
        named = [text for text in texts if "2 workers" in text or "1 worker," in text]
        assert named
        assert all("mpi" in text for text in named), named
