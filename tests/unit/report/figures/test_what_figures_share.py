"""What holds of each of these figures, whatever the study: real, rich, or with holes in a column."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dlbench.report.chart import Chart, Lacking, Panel, Role
from dlbench.report.evidence import Evidence, read
from dlbench.report.figures import batch_size, efficiency, learning_curves, strategies, throughput, up_against_out
from tests.unit.report.figures.makers import Row, base_line, epochs_of, evidence, run

FIGURES = (batch_size, learning_curves, throughput, efficiency, up_against_out, strategies)
STUDIES = ("results/cifar10-resnet20", "results/digits-batch-workers", "results/dividing", "tests/fixtures/study-v1")
every_figure = pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.__name__.rpartition(".")[2])
# Columns that a study of another version, a user's own script or an early end may leave empty.
COLUMNS = (
    "algorithm", "mode", "workers_per_host", "batch_scope", "train_samples", "momentum", "learning_rate_base", "epochs",
    "epochs_per_worker", "input", "label", "emulated", "train_time_s", "samples_per_s", "samples_per_s_per_worker",
    "baseline",
)  # fmt: skip


def rich() -> list[Row]:
    """Return a study that all the figures can draw: strategies, modes, batch sizes, real, emulated and failed runs."""
    ways = [("mpi", "scale-up"), ("mpi", "scale-out"), ("horovod", "scale-up")]
    arms = [
        {"strategy": strategy, "mode": mode, "batch_size": size, "workers": 2, "emulated": emulated}
        for strategy, mode in ways
        for size in (16, 64)
        for emulated in (None, "oversubscribed")
    ]
    own = [run(repeat=repeat, samples_per_s=1500.0 + repeat, **arm) for arm in arms for repeat in (0, 1)]
    lost = [run(mode=mode, batch_size=16, workers=2, repeat=2, status=status)
            for mode, status in (("scale-up", "stalled"), ("scale-out", "completed"))]  # fmt: skip
    base = [
        base_line(2, batch_size=size, emulated=emulated) for size in (16, 64) for emulated in (None, "oversubscribed")
    ]
    return [*own, *lost, *(row for rows in base for row in rows)]


def drawn(chart: Callable[[Evidence], Chart], found: Evidence) -> Chart | None:
    try:
        return chart(found)
    except Lacking as lacking:
        if not str(lacking).startswith("needs "):
            pytest.fail(f"it does not say what it needs: {lacking}")
        return None


def check(made: Chart, found: Evidence) -> None:
    known = set(zip(found.runs["study"], found.runs["run_id"], strict=True))
    assert made.runs
    assert made.runs <= known
    assert made.panels
    assert len({panel.title for panel in made.panels}) == len(made.panels)
    assert not made.title.endswith(".")
    assert all(note.endswith(".") for note in made.notes)
    for panel in made.panels:
        check_panel(panel)


def check_panel(panel: Panel) -> None:
    lines = [(series.label, series.emulated, series.role) for series in panel.series]
    assert len(set(lines)) == len(lines)
    for series in panel.series:
        places = [mark.x for mark in series.marks]
        assert places == sorted(set(places))
        for mark in series.marks:
            assert mark.interval is not None or not mark.points
            assert series.role is not Role.IDEAL or not mark.points
            assert mark.interval is None or mark.interval.low is None or mark.interval.low <= mark.interval.value


@every_figure
@pytest.mark.parametrize("study", STUDIES)
def test_a_real_study_gives_a_sound_chart_or_says_what_it_lacks(root: Path, study, figure):
    found = read([root / study])
    if made := drawn(figure.chart, found):
        check(made, found)
        assert not any(series.emulated for panel in made.panels for series in panel.series)


@every_figure
def test_a_rich_study_gives_a_sound_chart(tmp_path, figure):
    rows = rich()
    found = evidence(*rows, epochs=[row for of in rows if of["steps"] for row in epochs_of(of)], tmp_path=tmp_path)
    made = drawn(figure.chart, found)
    assert made is not None
    check(made, found)
    of_runs = [series for panel in made.panels for series in panel.series if series.role is not Role.IDEAL]
    assert {series.emulated for series in of_runs} == {"", "oversubscribed"}
    assert any(mark.num_failed for series in of_runs for mark in series.marks)


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_without_a_value_breaks_no_figure(tmp_path, column):
    rows = [{**row, column: None} for row in rich()]
    epochs = [row for of in rows if of["status"] == "completed" for row in epochs_of({**of, "steps": 100, "epochs": 2})]
    found = evidence(*rows, epochs=epochs, tmp_path=tmp_path)
    for figure in FIGURES:
        if made := drawn(figure.chart, found):
            check(made, found)


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_with_holes_breaks_no_figure(tmp_path, column):
    rows = [{**row, column: None} if number % 3 == 0 else row for number, row in enumerate(rich())]
    epochs = [row for of in rows if of["status"] == "completed" for row in epochs_of({**of, "steps": 100, "epochs": 2})]
    found = evidence(*rows, epochs=epochs, tmp_path=tmp_path)
    for figure in FIGURES:
        if made := drawn(figure.chart, found):
            check(made, found)


@every_figure
def test_a_figure_says_what_it_is_and_where_it_stands(figure):
    assert figure.__doc__.split("\n")[0].endswith(".")
    assert isinstance(figure.ORDER, int)
    assert len({one.ORDER for one in FIGURES}) == len(FIGURES)
