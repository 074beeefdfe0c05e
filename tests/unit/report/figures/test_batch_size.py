"""Against batch size: the right numbers at the right place, and nothing joined that does not belong together."""

import csv
from pathlib import Path
from statistics import median

import pytest

from dlbench.report.chart import Role
from dlbench.report.data import read
from dlbench.report.figures.batch_size import chart
from dlbench.report.lines import ALONE
from tests.unit.report.figures.makers import base_line, line, medians, panel, repeats, report_data, run

HOSTILE = '<script>alert("$x_1")</script>\n=1+1 한글'


def two_sizes(**values) -> list[dict]:
    small = repeats(3, batch_size=16, train_time_s=[4.0, 2.0, 3.0], samples_per_s=[100.0, 120.0, 110.0], **values)
    large = repeats(3, batch_size=64, train_time_s=[1.5, 1.0, 2.0], samples_per_s=[300.0, 310.0, 290.0], **values)
    return small + large


def test_each_quantity_has_a_panel_with_every_run_and_the_median(tmp_path):
    found = report_data(*two_sizes(workers=2), tmp_path=tmp_path)
    made = chart(found)
    assert [one.title for one in made.panels] == [
        "training time", "throughput", "training loss", "validation loss", "training accuracy", "validation accuracy",
    ]  # fmt: skip
    assert made.columns == 2
    time = panel(made, "training time")
    assert (time.x.label, time.x.scale) == ("batch size of one worker (samples)", "log2")
    (measured,) = time.series
    assert medians(measured) == {16: 3.0, 64: 1.5}
    assert measured.marks[0].points == (4.0, 2.0, 3.0)
    assert (measured.marks[0].interval.low, measured.marks[0].interval.high) == (2.0, 4.0)
    assert medians(panel(made, "throughput").series[0]) == {16: 110.0, 64: 300.0}
    assert made.runs == set(zip(found.runs["study"], found.runs["run_id"], strict=True))


def test_base_lines_stand_beside_their_arms(tmp_path):
    base = [*base_line(2, batch_size=16, train_time_s=5.0), *base_line(2, batch_size=64, train_time_s=4.0)]
    time = panel(chart(report_data(*two_sizes(workers=2), *base, tmp_path=tmp_path)), "training time")
    assert [one.role for one in time.series] == [Role.MEASURED, Role.BASE_LINE]
    assert medians(line(time, ALONE)) == {16: 5.0, 64: 4.0}


def test_batches_of_one_worker_and_of_all_never_share_a_panel(tmp_path):
    # Mirrored counts all samples here: the scope follows from the strategy, and must still split the panels.
    rows = [*two_sizes(workers=2), *two_sizes(workers=2, batch_scope="global", strategy="mirrored")]
    made = chart(report_data(*rows, tmp_path=tmp_path))
    labels = {one.x.label: one for one in made.panels if one.title.endswith("training time")}
    assert set(labels) == {"batch size of one worker (samples)", "batch size of all workers (samples)"}
    assert all(len(one.series) == 1 for one in labels.values())
    assert len({one.title for one in made.panels}) == len(made.panels) == 12


def test_models_have_panels_apart_and_one_without_a_second_size_is_named(tmp_path):
    rows = [*two_sizes(model="cnn"), *two_sizes(model="lstm"), run(model="resnet20", batch_size=16)]
    made = chart(report_data(*rows, tmp_path=tmp_path))
    assert {one.title.split(": ")[0] for one in made.panels} == {"cnn", "lstm"}
    assert "Left out, with one batch size only: resnet20." in made.notes
    assert not any(run_id.startswith("resnet20") for _, run_id in made.runs)


def test_losses_of_random_numbers_are_not_shown(tmp_path):
    made = chart(report_data(*two_sizes(input="synthetic"), tmp_path=tmp_path))
    assert [one.title for one in made.panels] == ["training time", "throughput"]
    assert any("synthetic" in note for note in made.notes)


def test_the_learning_rate_is_said_to_be_as_it_was(tmp_path):
    linear = two_sizes(learning_rate_scale="linear", learning_rate_base=0.02)
    notes = chart(report_data(*linear, tmp_path=tmp_path)).notes
    grew = "The learning rate (0.02 at a global batch of 32) grew with the global batch; it was not tuned for each."
    assert grew in notes
    notes = chart(report_data(*two_sizes(), tmp_path=tmp_path)).notes
    assert "The learning rate (0.1) was the same at every batch size; it was not tuned for each." in notes


def test_a_real_study_shows_the_medians_of_its_rows(root: Path):
    folder = root / "results" / "digits-batch-workers"
    made = chart(read([folder]))
    with (folder / "runs.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for column, title in (("train_time_s", "training time"), ("validation_accuracy", "validation accuracy")):
        values = {size: [float(row[column]) for row in rows if row["strategy"] == "mpi" and row["workers"] == "2"
                         and row["batch_size"] == str(size)] for size in (8, 16, 32, 64, 128, 256)}  # fmt: skip
        expected = {size: median(found) for size, found in values.items()}
        assert medians(line(panel(made, title), "2 workers")) == pytest.approx(expected)
    assert len(made.panels) == 6
    assert len(made.runs) == 90
