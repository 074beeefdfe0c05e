"""What holds of every figure, whatever the study: real, rich, with failed or emulated runs, or with rows missing."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from dlbench import plugins
from dlbench.plugins import Plugin
from dlbench.records import files
from dlbench.report.caption import caption
from dlbench.report.chart import Chart, MissingRowsError, Panel, Role
from dlbench.report.data import ReportData, read
from dlbench.report.rendering.figure import LETTERS_IN, WIDTH_IN
from dlbench.report.rendering.style import wrapped
from tests.unit.report.charts import HOSTILE
from tests.unit.report.figures.cases import check
from tests.unit.report.figures.makers import Row, base_line, epochs_of, readings, report_data, run

FIGURES = {name: plugins.load("figures", name) for name in plugins.names("figures")}
STUDIES = Path(__file__).parents[4] / "results"
REFERENCE = "# source: A\n# x: batch_size\nbatch_size,train_time_s\n16,1000\n64,600\n"
TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9}
WAYS = (("mpi", "scale-up"), ("mpi", "scale-out"), ("horovod", "scale-up"))
# Columns that a study of another version, a user's own script or an early end may leave empty. Without the settings all
# at once most figures still have something to show; without a result few do.
SETTINGS = (
    "algorithm", "mode", "workers_per_host", "batch_scope", "train_samples", "momentum", "learning_rate_base", "epochs",
    "epochs_per_worker", "input", "label", "emulated", "baseline",
)  # fmt: skip
RESULTS = (
    "train_time_s", "samples_per_s", "samples_per_s_per_worker", "steps", "target_value", "timed_window_s",
    "device_utilization",
)  # fmt: skip


def rich(
    repeats: int = 2, emulated: Iterable[str | None] = (None,), workers: Iterable[int] = (2, 4), **values: object
) -> list[Row]:
    """Return runs that every figure can draw: strategies, modes, batch sizes, workers, targets and base lines."""
    rows = [
        run(strategy=strategy, mode=mode, batch_size=size, workers=count, emulated=reason, repeat=repeat,
            samples_per_s=1500.0 * count + 10 * repeat + size, train_time_s=900.0 / count + repeat,
            time_to_target_s=300.0 / count + repeat, epochs_to_target=2, messages=100 * count,
            bytes_sent=1e6 * count, samples_seen=1000 + repeat, staleness_mean=count - 1.0, **TARGET, **values)
        for strategy, mode in WAYS
        for size in (16, 64)
        for count in workers
        for reason in emulated
        for repeat in range(repeats)
    ]  # fmt: skip
    alone = {"time_to_target_s": 400.0, "epochs_to_target": 2, **TARGET, **values}
    rows += [row for size in (16, 64) for reason in emulated
             for row in base_line(repeats, batch_size=size, emulated=reason, **alone)]  # fmt: skip
    return rows


def failed() -> list[Row]:
    """Return failed runs of arms of `rich`, with numbers that nobody may draw."""
    absurd = {"samples_per_s": 9e9, "train_time_s": 9e9, "validation_loss": 9e9, "device_utilization": 9e9}
    return [
        run(strategy=strategy, mode=mode, batch_size=size, workers=w, repeat=7, status="stalled", **TARGET, **absurd)
        for strategy, mode in WAYS
        for size in (16, 64)
        for w in (2, 4)
    ]


def made_of(rows: list[Row], tmp_path: Path) -> ReportData:
    """Return rows with epochs, readings of sensors and a reference beside them."""
    learned = [{**row, "steps": row["steps"] or 100, "epochs": 2} for row in rows if row["status"] == "completed"]
    sensors = [reading for row in learned for reading in readings(row, [0.5, 0.6, 0.7])]
    losses = {True: {"train_loss": [9.0, 8.0]}, False: {}}
    epochs = [epoch for row in learned for epoch in epochs_of(row, **losses[bool(row["emulated"])])]
    found = report_data(*rows, epochs=epochs, sensors=sensors, tmp_path=tmp_path)
    for folder in found.studies:
        (folder.path / files.REFERENCE).write_text(REFERENCE, encoding="utf-8")
    return found


def drawn(figure: Plugin, found: ReportData) -> Chart | None:
    """Return a sound chart, or None where it says what it needs."""
    try:
        made: Chart = figure.target.chart(found)
    except MissingRowsError as missing:
        if not str(missing).startswith("needs "):
            pytest.fail(f"it does not state what it needs: {missing}")
        return None
    check(made, found)
    return made


def where(panel: Panel, x: float) -> str:
    """Return where a mark stands: at a bar's name, or at a place that equal costs do not move."""
    return panel.x.categories[int(x)].removesuffix(", emulated") if panel.form == "bars" else f"{x:.6g}"


def points(made: Chart, *, emulated: bool = False) -> Counter[tuple[object, ...]]:
    """Return how often each value of real or of emulated runs is drawn, and where."""
    return Counter(
        (panel.y.label, where(panel, mark.x), value)
        for panel in made.panels
        for series in panel.series
        if series.role in (Role.MEASURED, Role.BASE_LINE, Role.TOTAL) and bool(series.emulated) == emulated
        for mark in series.marks
        for value in (*mark.points, *mark.ended)
    )


@pytest.fixture(scope="module")
def of_rows(tmp_path_factory: pytest.TempPathFactory) -> list[ReportData]:
    """Rich rows alone, with failed runs, with emulated ones, and of one repeat each."""
    rows, folder = rich(), tmp_path_factory.mktemp("studies")
    each = (rows, [*rows, *failed()], rich(emulated=(None, "oversubscribed")), rich(1))
    return [made_of(found, folder) for found in each]


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_every_run_and_keeps_failed_and_emulated_ones_apart(name: str, of_rows: list[ReportData]) -> None:
    figure = FIGURES[name]
    assert figure.doc.endswith(".")
    alone, with_failed, mixed, single = (drawn(figure, found) for found in of_rows)
    assert alone
    assert points(alone)
    if name == "winners":  # an arm with failed runs wins nothing
        assert with_failed is None
        return
    assert with_failed
    assert points(with_failed) == points(alone), "a number of a failed run is drawn"
    assert sum(mark.num_failed for mark in with_failed.marks())
    assert with_failed.runs > alone.runs or name == "efficiency"
    assert mixed is not None
    assert set(points(mixed)) <= set(points(alone)), "emulated runs change what real ones show"
    # There are more arms than the panels of learning curves hold: some are left out.
    assert points(mixed) == points(alone) or name == "learning_curves"
    assert points(mixed, emulated=True)
    assert single is not None
    assert {mark.interval.low for mark in single.marks() if mark.interval} == {None}


def test_tasks_have_panels_of_their_own_and_odd_names_stay_as_they_are(tmp_path: Path) -> None:
    odd = f"{HOSTILE[0]} {HOSTILE[1]}\n=1+1 한글"
    found = made_of([*rich(1), *rich(1, model=odd, train_loss=1e-12, validation_loss=1e12)], tmp_path)
    alone = made_of(rich(1), tmp_path)
    for name in FIGURES.keys() - {"winners"}:  # a loss of 1e12 wins nothing
        made, expected = drawn(FIGURES[name], found), drawn(FIGURES[name], alone)
        assert made, name
        assert expected, name
        own = replace(made, panels=tuple(panel for panel in made.panels if odd not in panel.title))
        if name == "learning_curves":  # which has room for one task alone
            assert set(points(own)) <= set(points(expected))
        else:
            assert len(own.panels) < len(made.panels), name
            assert set(points(own)) == set(points(expected)), name


def test_a_real_study_gives_sound_charts_with_captions_of_three_lines_at_most_or_says_what_it_lacks() -> None:
    for name, count in (("digits-strategies", 9), ("kim2018-as-published-four-hosts-small-1gbit", 8), ("dividing", 8)):
        study = read([STUDIES / name])
        charts = [made for figure in FIGURES.values() if (made := drawn(figure, study))]
        assert len(charts) == count, name
        has_emulated = any(row.get("emulated") for row in study.runs)
        for made in charts:
            assert has_emulated or not points(made, emulated=True), name
            width = WIDTH_IN[1] if made.columns == 1 else WIDTH_IN[2]
            shown = wrapped(caption(made, study)[0], int(1.2 * width * LETTERS_IN), 20)
            assert shown.count("\n") < 3, (name, made.title, shown)


def test_a_column_that_is_empty_or_has_holes_breaks_no_figure(tmp_path: Path) -> None:
    def without(*columns: str) -> ReportData:
        return made_of([row | dict.fromkeys(columns) for row in rich(1, workers=(2,))], tmp_path)

    together, alone = without(*SETTINGS), {column: without(column) for column in SETTINGS}
    for figure in FIGURES.values():
        if drawn(figure, together) is None:  # then one of them may hide another
            for found in alone.values():
                drawn(figure, found)
    # Each column is unknown in two runs, never in the same two as another.
    columns, rows = (*SETTINGS, *RESULTS), rich(2, workers=(2,))
    for number, column in enumerate(columns):
        for row in (rows[number % len(rows)], rows[(number + 3 + number // len(rows)) % len(rows)]):
            row[column] = None
    for found in (made_of(rows, tmp_path), *map(without, RESULTS)):
        for figure in FIGURES.values():
            drawn(figure, found)


RANDOM = {"input": "synthetic"}
NO_RATE, NO_WINDOW = {"samples_per_s": None}, {"timed_window_s": None, "timed_steps": None}
W1, W2, FAILED1, FAILED2 = {"workers": 1}, {"workers": 2}, {"status": "failed"}, {"status": "failed", "workers": 2}
CNN, LSTM = {"model": "cnn"}, {"model": "lstm"}
OUT = {"mode": "scale-out", "workers": 2}
WINDOW = "at least 50 steps and 5 s"
# The figure, what differs from a plausible completed run, and a part of the reason.
MISSING = (
    ("accuracy", [FAILED1, FAILED2], "a loss or an accuracy"),
    ("accuracy", [W1 | RANDOM, W2 | RANDOM], "that can be learned"),
    ("devices", [FAILED1, FAILED1 | {"batch_size": 8}], "peaks of device and host memory"),
    ("devices_over_time", [{}], "needs sensors.csv"),
    ("efficiency", [W2], "samples/s of one worker alone"),
    ("efficiency", [{"strategy": "single", "baseline": True, "batch_size": 64}, W2], "equal to other arms"),
    ("pareto", [FAILED1, FAILED2], "two or more arms of one task"),
    ("pareto", [CNN, LSTM], "two or more arms of one task"),
    ("pareto", [W1, W2 | {"emulated": "simulated"}], "two or more arms of one task"),
    ("pareto", [W1, W2 | {"train_time_s": 0.0}], "with a time, of two or more arms of one task"),
    ("reference", [{}], "reference: NAME"),
    ("step_parts", [NO_WINDOW], "timed window and compute_time_s"),
    ("step_parts", [{"timed_steps": 0}], "timed window and compute_time_s"),
    ("steps_to_target", [{"batch_size": 8}, {"batch_size": 16}], "needs a target"),
    ("steps_to_target", [TARGET | FAILED1, TARGET | FAILED2], "completed runs with a target"),
    ("strategies", [W2, {"strategy": "single"}], "with a value: mpi"),
    ("strategies", [W2, FAILED2 | {"strategy": "horovod"}], "with a value: mpi"),
    ("throughput", [NO_RATE], WINDOW),
    ("time_to_target", [W1, W2], "set `target: {metric: validation_accuracy, value: 0.9}`"),
    ("training_time", [{}, {"repeat": 1}], "with a value: mpi workers=1 batch_size=32"),
    ("training_time", [FAILED1, {"batch_size": 64, "status": "stalled"}], "needs completed runs with"),
    ("training_time", [CNN, LSTM | {"batch_size": 64}], "equal in all else"),
    ("up_against_out", [W2], "of both, scale-up and several hosts"),
    ("up_against_out", [FAILED2, OUT | {"status": "failed"}], "of both, scale-up and several hosts"),
    ("up_against_out", [{"workers": 4, "mode": None, "workers_per_host": 2}], "of both, scale-up and several hosts"),
    ("up_against_out", [W2, OUT | {"repeat": 1}], "they differ in seed, repeat"),
)  # fmt: skip


def test_missing_rows_are_named(tmp_path: Path) -> None:
    for name, rows, message in MISSING:
        found = report_data(*(run(**row) for row in rows), tmp_path=tmp_path)
        with pytest.raises(MissingRowsError) as caught:
            FIGURES[name].target.chart(found)
        assert message in str(caught.value), (name, rows)
