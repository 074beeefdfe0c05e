"""Against workers: the ideal line goes through what was measured, and only where something equal was."""

import csv
from pathlib import Path
from statistics import median

import pytest

from dlbench.report.chart import Role
from dlbench.report.data import read
from dlbench.report.figures.throughput import chart
from dlbench.report.lines import ALONE
from tests.unit.report.figures.makers import base_line, line, medians, repeats, report_data, run

IDEAL = f"ideal: {ALONE} x workers"


def arms(**values) -> list[dict]:
    one = repeats(3, workers=1, samples_per_s=[90.0, 80.0, 100.0], **values)
    return one + repeats(3, workers=2, samples_per_s=[170.0, 160.0, 180.0], **values)


def ideals(panel) -> list[tuple[str, dict]]:
    return [(one.label, medians(one)) for one in panel.series if one.role is Role.IDEAL]


def test_the_ideal_line_goes_through_the_measured_base_line(tmp_path):
    found = report_data(*arms(), *base_line(3, samples_per_s=[100.0, 130.0, 110.0]), tmp_path=tmp_path)
    made = chart(found)
    (panel,) = made.panels
    assert (panel.title, panel.x.scale, panel.y.scale) == ("weak scaling", "log2", "log10")
    measured = panel.series[0]
    assert medians(measured) == {1: 90.0, 2: 170.0}
    assert measured.marks[1].points == (170.0, 160.0, 180.0)
    assert medians(line(panel, ALONE)) == {1: 110.0}
    assert ideals(panel) == [(IDEAL, {1: 110.0, 2: 220.0})]
    assert any("one worker alone" in note for note in made.notes)
    assert made.runs == set(zip(found.runs["study"], found.runs["run_id"], strict=True))


def test_without_a_base_line_it_goes_through_each_strategys_own_worker_and_says_so(tmp_path):
    made = chart(report_data(*arms(), *arms(strategy="horovod"), tmp_path=tmp_path))
    (panel,) = made.panels
    assert ideals(panel) == [
        ("ideal: 1 worker of horovod x workers", {1: 90.0, 2: 180.0}),
        ("ideal: 1 worker of mpi x workers", {1: 90.0, 2: 180.0}),
    ]
    assert any(
        note.startswith("No run of one worker alone is the equal of the arms of weak scaling") for note in made.notes
    )


def test_without_any_single_worker_there_is_no_ideal_line_and_it_says_so(tmp_path):
    made = chart(report_data(run(workers=2), run(workers=4), tmp_path=tmp_path))
    assert ideals(made.panels[0]) == []
    assert "No ideal line where no single worker was measured: weak scaling." in made.notes


@pytest.mark.parametrize(
    "other", [{"batch_size": 64}, {"cores_per_worker": 2.0}, {"model.hidden": "[9]"}, {"study": "b"}]
)
def test_a_single_worker_that_is_no_equal_carries_no_ideal_line(tmp_path, other):
    made = chart(
        report_data(
            *arms(**{"model.hidden": "[16]"}), *base_line(3, **({"model.hidden": "[16]"} | other)), tmp_path=tmp_path
        )
    )
    assert [label for label, _ in ideals(made.panels[0])] == ["ideal: 1 worker x workers"]


def test_a_single_worker_that_was_no_base_line_of_dlbench_will_do(tmp_path):
    alone = repeats(3, strategy="single", workers=1, samples_per_s=[100.0, 110.0, 120.0])
    two = repeats(3, workers=2, samples_per_s=[190.0, 200.0, 210.0])
    (panel,) = chart(report_data(*alone, *two, tmp_path=tmp_path)).panels
    assert ideals(panel) == [(IDEAL, {1: 110.0, 2: 220.0})]
    assert medians(line(panel, "single")) == {1: 110.0}


def test_weak_and_strong_scaling_have_panels_apart(tmp_path):
    strong = arms(batch_scope="global", strategy="mirrored")
    made = chart(report_data(*arms(), *strong, *base_line(3), tmp_path=tmp_path))
    assert [one.title for one in made.panels] == ["strong scaling", "weak scaling"]
    # With one worker both scopes are the same: one base line serves both.
    assert [[label for label, _ in ideals(one)] for one in made.panels] == [[IDEAL], [IDEAL]]
    assert {
        "Weak scaling: every worker keeps its batch.",
        "Strong scaling: one batch is divided over the workers.",
    } <= set(made.notes)


def test_each_batch_size_has_a_panel_with_its_own_ideal_line(tmp_path):
    rows = [*arms(batch_size=16), *arms(batch_size=64), *base_line(1, batch_size=16, samples_per_s=100.0),
            *base_line(1, batch_size=64, samples_per_s=200.0)]  # fmt: skip
    made = chart(report_data(*rows, tmp_path=tmp_path))
    assert [one.title for one in made.panels] == ["weak scaling, batch 16", "weak scaling, batch 64"]
    assert [ideals(one)[0][1][2] for one in made.panels] == [200.0, 400.0]


def test_emulated_runs_get_no_ideal_line_of_real_ones(tmp_path):
    emulated = repeats(3, workers=4, samples_per_s=200.0, emulated="oversubscribed")
    made = chart(report_data(*arms(), *emulated, *base_line(3, samples_per_s=100.0), tmp_path=tmp_path))
    (panel,) = made.panels
    assert ideals(panel) == [(IDEAL, {1: 100.0, 2: 200.0})]
    assert [one.emulated for one in panel.series if one.role is Role.MEASURED] == ["", "oversubscribed"]
    assert any(note.startswith("No ideal line where") for note in made.notes)


def test_a_real_study_shows_the_medians_of_its_rows(root: Path):
    folder = root / "results" / "digits-batch-workers"
    made = chart(read([folder]))
    with (folder / "runs.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["batch_size"] == "64"]
    alone = median(float(row["samples_per_s"]) for row in rows if row["strategy"] == "single")
    two = median(float(row["samples_per_s"]) for row in rows if row["workers"] == "2")
    assert [one.title for one in made.panels] == [f"weak scaling, batch {size}" for size in (8, 16, 32, 64, 128, 256)]
    assert ideals(made.panels[3]) == [(IDEAL, {1: pytest.approx(alone), 2: pytest.approx(2 * alone)})]
    assert medians(made.panels[3].series[0])[2] == pytest.approx(two)
    assert len(made.runs) == 90
