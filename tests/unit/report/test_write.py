"""Charts of large reports: whole grids of arms, the best ones among them, and a sentence on what is left out."""

import re

import pytest

from dlbench.analysis.groups import values_of, ways
from dlbench.report.page.content import Content
from dlbench.report.page.render import html, markdown
from dlbench.report.write import MOST_CHARTED, ReportRequest, thinned, write_report
from tests.unit.report.figures.makers import base_line, repeats, report_data, run

RATES = [round(0.01 * number, 2) for number in range(1, 31)]


@pytest.fixture
def grid(tmp_path):
    """30 learning rates x 4 batch sizes with their base lines; one arm is the fastest, one the most accurate."""
    rows = []
    for rate in RATES:
        for batch in (16, 32, 64, 128):
            fast = {"train_time_s": 1.0} if (rate, batch) == (0.08, 64) else {"train_time_s": 9.0}
            good = {"validation_accuracy": 0.99 if (rate, batch) == (0.15, 32) else 0.9}
            rows += repeats(2, workers=2, batch_size=batch, learning_rate_base=rate, **fast, **good)
            rows += base_line(batch_size=batch, learning_rate_base=rate, train_time_s=20.0)
    return report_data(*rows, tmp_path=tmp_path)


def test_the_setting_with_the_most_values_is_thinned_and_grids_stay_whole(grid, tmp_path):
    found, note = thinned(grid)
    bases, arms = ([arm for arm in found.arms if arm.baseline is added] for added in (True, False))
    rates = values_of(arms, "learning_rate_base")
    assert {0.08, 0.15, min(RATES), max(RATES)} <= set(rates)
    assert len(arms) == 4 * len(rates)
    for key in ("learning_rate_base", "batch_size"):
        assert values_of(bases, key) == values_of(arms, key)
    assert len(found.arms) <= MOST_CHARTED
    assert note == (
        f"Charts show {len(found.arms)} of 240 arms (learning_rate_base at {len(rates)} of 30 values), the best among "
        "them; `arms.csv` has all."
    )
    write_report(grid, ReportRequest(tmp_path / "report", ("training_time",), ("svg",)))
    drawn = (tmp_path / "report" / "training_time.csv").read_text()
    assert set(re.findall(r"learning_rate=[\d.]+", drawn)) == {f"learning_rate={rate:g}" for rate in rates}


def test_arms_of_several_settings_or_of_none_are_thinned_too(tmp_path):
    small = report_data(*repeats(2, workers=2), *base_line(), tmp_path=tmp_path)
    assert thinned(small) == (small, "")
    found, note = thinned(report_data(*(run(run_id=f"odd{number:03}-r0") for number in range(90)), tmp_path=tmp_path))
    assert len(found.runs) == MOST_CHARTED
    assert {row["run_id"] for row in found.runs} > {"odd000-r0", "odd089-r0"}
    assert f"{MOST_CHARTED} of 90 arms (evenly chosen)" in note
    rows = [
        run(workers=2, learning_rate_base=0.001 * number, momentum=0.5 + 0.001 * number, train_time_s=100.0 - number)
        for number in range(200)
    ]
    found, _ = thinned(report_data(*rows, tmp_path=tmp_path))
    assert 1 < len(found.arms) <= MOST_CHARTED
    assert min(row["train_time_s"] for row in found.runs) == 100.0 - 199
    rows = [
        run(strategy="single", workers=1, batch_size=batch, learning_rate_base=rate, epochs=epochs, mode=mode)
        for batch in (8, 16, 32, 64)
        for rate in (0.1, 0.2, 0.3)
        for epochs in (1, 2, 3)
        for mode in ("scale-up", "scale-out")
    ]
    found, _ = thinned(report_data(*rows, tmp_path=tmp_path))
    assert 0 < len(found.arms) <= MOST_CHARTED


def test_the_setting_with_the_most_values_is_cut_and_others_keep_theirs(tmp_path):
    rows = [
        run(strategy=f"way{way}", workers=workers, momentum=momentum, train_time_s=100.0 - workers + (workers == 16))
        for way in range(10)
        for workers in (4, 16, 64, 256)
        for momentum in (0.0, 0.5, 0.9)
    ]
    rows += [row for momentum in (0.0, 0.5, 0.9) for row in base_line(momentum=momentum)]
    found = thinned(report_data(*rows, tmp_path=tmp_path))[0].arms
    assert len(found) <= MOST_CHARTED
    assert sum(arm.baseline for arm in found) == 3
    assert [len(values_of(ways(found), key)) for key in ("strategy", "workers", "momentum")] == [3, 4, 3]


def test_pages_say_what_tables_leave_out(tmp_path, monkeypatch):
    for name, most in (("render.MOST_ROWS", 7), ("content.MOST_ARMS", 5), ("render.MOST_FAILURES", 3)):
        monkeypatch.setattr(f"dlbench.report.page.{name}", most)
    rows = [run(batch_size=8 * size) for size in range(1, 9)]
    content = Content(report_data(*rows, *repeats(5, workers=4, status="failed"), tmp_path=tmp_path))
    page, text = html(content), markdown(content)
    assert "The first 7 of 13 runs (<code>runs.csv</code> has all), ordered by" in page
    assert page.count('<th scope="row">') == 7
    assert "the first 3 of 5, <code>runs.csv</code> has all" in page
    assert "These are the first 3 of 5; `runs.csv` has all." in text
    assert "These are the first 5 of 8 arms; `arms.csv` has all." in text
