import pytest

from dlbench.report.page.render import runs_table
from tests.unit.report.figures.makers import base_line, repeats, report_data, run


@pytest.fixture
def table(tmp_path):
    return lambda *rows: runs_table(report_data(*rows, tmp_path=tmp_path))


def cells(found, name):
    (place,) = [place for place, heading in enumerate(found.headings) if heading.name == name]
    return [cells[place] for _, cells in found.rows]


def texts(found, name):
    return [cell.text for cell in cells(found, name)]


def names(found):
    return [heading.name for heading in found.headings]


def test_what_varies_comes_first_and_what_no_run_has_is_left_out(table):
    rows = [*base_line(1, batch_size=8), *repeats(2, batch_size=16, workers=2), *repeats(2, batch_size=8, workers=2)]
    found = table(*rows)
    assert names(found)[:2] == ["strategy", "batch_size"]
    assert texts(found, "strategy") == ["one worker alone", "mpi", "mpi", "mpi", "mpi"]
    assert not {"study", "emulated", "time_to_target_s"} & set(names(found))
    assert names(found)[-1] == "attempt"
    found = names(table(run(validation_mean_squared_error=0.25)))
    assert found.index("validation_mean_squared_error") > found.index("train_time_s")


def test_rows_are_the_last_attempts_in_the_order_of_reading(table):
    found = table(*(run(batch_size=size, repeat=repeat) for repeat in (2, 0, 1) for size in (128, 16, 64)))
    assert [(row["batch_size"], row["repeat"]) for row, _ in found.rows] == [
        (size, repeat) for size in (16, 64, 128) for repeat in (0, 1, 2)
    ]
    found = table(*(run(study=study, batch_size=size) for size in (8, 16) for study in ("b", "a")))
    assert texts(found, "study") == [row["study"] for row, _ in found.rows] == ["a", "a", "b", "b"]
    found = table(run(status="failed"), run(attempt=2), run(batch_size=8, status="stalled"))
    assert sorted((row["status"], row["attempt"]) for row, _ in found.rows) == [("completed", 2), ("stalled", 1)]
    rates = dict(zip((row["status"] for row, _ in found.rows), cells(found, "samples_per_s"), strict=True))
    assert {status: tuple(cell) for status, cell in rates.items()} == {
        "completed": ("1,000", "1000.0"),
        "stalled": ("", ""),
    }


def test_efficiency_is_there_where_a_base_line_is(table):
    found = table(*base_line(3, samples_per_s=[90.0, 100.0, 110.0]), run(workers=2, samples_per_s=150.0))
    assert texts(found, "efficiency") == ["", "", "", "75%"]
    assert "efficiency" not in names(table(run(workers=2)))


@pytest.mark.parametrize(
    ("values", "written", "is_number"),
    [
        ((True, False), ["false", "true"], False),
        ((0.5, 1e-6), ["1e-06", "0.5"], True),
        ((1024, 64), ["64", "1024"], True),
        (("a;b", "[16, 32]"), ["[16, 32]", "a;b"], False),
    ],
)
def test_settings_are_written_as_in_a_scenario(table, values, written, is_number):
    found = table(*(run(**{"model.x": value}, label=str(value)) for value in values))
    assert texts(found, "model.x") == written
    assert next(heading for heading in found.headings if heading.name == "model.x").is_number == is_number


def test_values_at_the_edge_of_numbers_and_reasons_of_emulation(table):
    losses = enumerate((1e-12, 1e12, float("inf"), 0.0))
    found = table(*(run(batch_size=8 * (place + 1), train_loss=loss) for place, loss in losses))
    assert texts(found, "train_loss") == ["1.00e-12", "1e+12", "infinite", "0"]
    assert [cell.value for cell in cells(found, "train_loss")] == ["1e-12", "1000000000000.0", "Infinity", "0.0"]
    found = table(run(workers=2, emulated="oversubscribed;throttled-link"), run(workers=4))
    assert texts(found, "emulated") == ["oversubscribed, throttled-link", ""]


def test_rates_are_marked_as_those_of_arms_are(table):
    found = table(
        run(batch_size=8), run(batch_size=16, rate_drift=-0.06), run(batch_size=32, warmup_detected=False),
        run(batch_size=64, extended_steps=50, rate_drift=0.06),
    )  # fmt: skip
    assert texts(found, "samples_per_s") == ["1,000", "1,000 ~", "1,000 ~", "1,000 * ~"]
    assert {cell.value for cell in cells(found, "samples_per_s")} == {"1000.0"}
    assert [note[:2] for note in found.notes] == ["*:", "~:"]
