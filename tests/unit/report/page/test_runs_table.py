import pytest

from dlbench.report.page.runs_table import runs_table
from tests.unit.report.figures.makers import base_line, repeats, report_data, run


def column(found, name):
    (place,) = [place for place, heading in enumerate(found.headings) if heading.name == name]
    return [cells[place] for _, cells in found.rows]


def names(found):
    return [heading.name for heading in found.headings]


def test_what_varies_comes_first_and_what_nobody_has_is_left_out(tmp_path):
    rows = [*base_line(1, batch_size=8), *repeats(2, batch_size=16, workers=2), *repeats(2, batch_size=8, workers=2)]
    found = runs_table(report_data(*rows, tmp_path=tmp_path))
    assert names(found)[:2] == ["strategy", "batch_size"]
    assert [cell.text for cell in column(found, "strategy")] == ["one worker alone", "mpi", "mpi", "mpi", "mpi"]
    assert not {"study", "emulated", "time_to_target_s"} & set(names(found))
    assert names(found)[-1] == "attempt"


def test_rows_are_in_the_order_of_reading(tmp_path):
    rows = [run(batch_size=size, repeat=repeat) for repeat in (2, 0, 1) for size in (128, 16, 64)]
    found = runs_table(report_data(*rows, tmp_path=tmp_path))
    assert [(row["batch_size"], row["repeat"]) for row, _ in found.rows] == [
        (size, repeat) for size in (16, 64, 128) for repeat in (0, 1, 2)
    ]


def test_studies_stay_together(tmp_path):
    rows = [run(study=study, batch_size=size) for size in (8, 16) for study in ("b", "a")]
    found = runs_table(report_data(*rows, tmp_path=tmp_path))
    assert [cell.text for cell in column(found, "study")] == ["a", "a", "b", "b"]
    assert [row["study"] for row, _ in found.rows] == ["a", "a", "b", "b"]


def test_only_the_last_attempt_is_a_row(tmp_path):
    rows = [run(status="failed"), run(attempt=2), run(batch_size=8, status="stalled")]
    found = runs_table(report_data(*rows, tmp_path=tmp_path))
    assert sorted((row["status"], row["attempt"]) for row, _ in found.rows) == [("completed", 2), ("stalled", 1)]


def test_what_a_failed_run_did_not_measure_is_empty(tmp_path):
    found = runs_table(report_data(run(), run(batch_size=8, status="failed"), tmp_path=tmp_path))
    by_status = dict(zip((row["status"] for row, _ in found.rows), column(found, "samples_per_s"), strict=True))
    assert (by_status["completed"].text, by_status["completed"].value) == ("1,000", "1000.0")
    assert (by_status["failed"].text, by_status["failed"].value) == ("", "")


def test_efficiency_is_there_where_a_base_line_is(tmp_path):
    rows = [*base_line(3, samples_per_s=[90.0, 100.0, 110.0]), run(workers=2, samples_per_s=150.0)]
    found = runs_table(report_data(*rows, tmp_path=tmp_path))
    assert [cell.text for cell in column(found, "efficiency")] == ["", "", "", "75%"]
    assert "efficiency" not in names(runs_table(report_data(run(workers=2), tmp_path=tmp_path)))


def test_reasons_of_emulation_are_words(tmp_path):
    rows = [run(workers=2, emulated="oversubscribed;throttled-link"), run(workers=4)]
    found = runs_table(report_data(*rows, tmp_path=tmp_path))
    assert [cell.text for cell in column(found, "emulated")] == ["oversubscribed, throttled-link", ""]


@pytest.mark.parametrize(
    ("values", "texts", "is_number"),
    [
        ((True, False), ["false", "true"], False),
        ((0.5, 1e-6), ["1e-06", "0.5"], True),
        ((1024, 64), ["64", "1024"], True),
        (("a;b", "[16, 32]"), ["[16, 32]", "a;b"], False),
    ],
)
def test_settings_are_written_as_in_a_scenario(tmp_path, values, texts, is_number):
    found = runs_table(
        report_data(*(run(**{"model.x": value}, label=str(value)) for value in values), tmp_path=tmp_path)
    )
    assert [cell.text for cell in column(found, "model.x")] == texts
    assert next(heading for heading in found.headings if heading.name == "model.x").is_number == is_number


def test_values_at_the_edge_of_numbers(tmp_path):
    rows = [
        run(batch_size=8 * (place + 1), train_loss=loss) for place, loss in enumerate((1e-12, 1e12, float("inf"), 0.0))
    ]
    found = column(runs_table(report_data(*rows, tmp_path=tmp_path)), "train_loss")
    assert [cell.text for cell in found] == ["1.00e-12", "1e+12", "infinite", "0"]
    assert [cell.value for cell in found] == ["1e-12", "1000000000000.0", "Infinity", "0.0"]


def test_rates_are_marked_as_those_of_arms_are(tmp_path):
    rows = [
        run(batch_size=8), run(batch_size=16, rate_drift=-0.06), run(batch_size=32, warmup_detected=False),
        run(batch_size=64, rate_drift=0.05), run(batch_size=128, extended_steps=50),
        run(batch_size=256, extended_steps=50, rate_drift=0.06),
    ]  # fmt: skip
    found = runs_table(report_data(*rows, tmp_path=tmp_path))
    cells = column(found, "samples_per_s")
    assert [cell.text for cell in cells] == ["1,000", "1,000 ~", "1,000 ~", "1,000", "1,000 *", "1,000 * ~"]
    assert {cell.value for cell in cells} == {"1000.0"}
    assert [note[:2] for note in found.notes] == ["*:", "~:"]


def test_every_score_has_a_column(tmp_path):
    found = names(runs_table(report_data(run(validation_mean_squared_error=0.25), tmp_path=tmp_path)))
    assert found.index("validation_mean_squared_error") > found.index("train_time_s")
