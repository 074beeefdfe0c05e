"""Updates to a target, the 1/B line and the critical batch size."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dlbench.report.chart import Chart, Role, Series
from dlbench.report.figures.steps_to_target import chart
from tests.unit.report.figures import real
from tests.unit.report.figures.makers import run

TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9}
SIZES = (16, 32, 64, 128, 256, 512)


drawn = partial(real.drawn, chart)


def planted(batch: int, least: int = 100, critical: int = 128) -> int:
    return least * (batch + critical) // batch


def took(updates: int | None, batch: int, **values: Any) -> dict[str, Any]:
    """Return a run of 10 epochs of 1000 steps, which reached its target after `updates` of them."""
    per_epoch = 1000 if updates is None else updates // 5
    epochs = None if updates is None else 5
    more = {"time_to_target_s": None if updates is None else 1.0, "epochs_to_target": epochs, "epochs_completed": 10}
    return run(**{**TARGET, "batch_size": batch, "steps": 10 * per_epoch, **more, **values})


def of_role(made: Chart, role: Role, panel: int = 0) -> list[Series]:
    return [one for one in made.panels[panel].series if one.role is role]


def heights(one: Series) -> dict[float, float]:
    return {mark.x: mark.interval.value for mark in one.marks if mark.interval is not None}


def test_epochs_become_updates_of_the_global_batch(tmp_path: Path) -> None:
    rows = [took(900, 16, workers=1), took(505, 32, workers=1), took(500, 16, workers=2), took(300, 32, workers=2)]
    made = drawn(*rows, tmp_path=tmp_path)
    one, two = of_role(made, Role.MEASURED)
    assert (one.label, heights(one)) == ("1 worker", {16: 900, 32: 505})
    assert (two.label, heights(two)) == ("2 workers", {32: 500, 64: 300})
    assert made.panels[0].x.scale == made.panels[0].y.scale == "log2"


def test_perfect_scaling_goes_through_the_smallest_batch(tmp_path: Path) -> None:
    made = drawn(*(took(planted(batch), batch) for batch in SIZES), tmp_path=tmp_path)
    (ideal,) = of_role(made, Role.IDEAL)
    assert heights(ideal) == {batch: 900 * 16 / batch for batch in SIZES}


def test_the_fit_finds_what_was_planted(tmp_path: Path) -> None:
    made = drawn(*(took(planted(batch), batch) for batch in SIZES), tmp_path=tmp_path)
    (line,) = of_role(made, Role.FITTED)
    assert heights(line) == pytest.approx({batch: planted(batch) for batch in SIZES})
    assert line.label == "fit of measured"
    assert (
        "Critical batch of measured: 128 samples, S_min 100 updates (fit of S = S_min (1 + B_c / B) to 6 runs, "
        "residuals 0.0%)." in made.notes
    )


def test_repeats_give_it_an_interval(tmp_path: Path) -> None:
    rows = [
        took(5 * (planted(batch) // 5 + extra), batch, repeat=n)
        for batch in SIZES
        for n, extra in enumerate((-3, 0, 3))
    ]
    made = drawn(*rows, tmp_path=tmp_path)
    assert any(note.startswith("Critical batch of measured: ") and " [" in note for note in made.notes)


def test_batch_sizes_at_which_a_run_never_arrived_are_not_fitted(tmp_path: Path) -> None:
    rows = [took(planted(batch), batch) for batch in SIZES]
    made = drawn(*rows, took(None, 512, repeat=1), took(5, 512, repeat=2), tmp_path=tmp_path)
    assert "Critical batch of measured: 128 samples" in " ".join(made.notes)
    assert "to 5 runs" in " ".join(made.notes)
    last = of_role(made, Role.MEASURED)[0].marks[-1]
    assert (sorted(last.points), last.ended) == ([5, planted(512)], (10_000,))


@pytest.mark.parametrize(
    ("updates", "why"),
    [
        ({16: 800, 32: 400}, "it needs 3 or more batch sizes"),
        ({16: 800, 32: 400, 64: 200, 128: 100}, "it lies above 128"),
        ({16: 200, 32: 200, 64: 200}, "it lies far below 16"),
    ],
)
def test_what_cannot_be_told_is_said(updates: dict[int, int], why: str, tmp_path: Path) -> None:
    made = drawn(*(took(steps, batch) for batch, steps in updates.items()), tmp_path=tmp_path)
    assert of_role(made, Role.FITTED) == []
    assert any(note.startswith("Critical batch of measured: not identifiable") and why in note for note in made.notes)


def test_models_and_targets_have_panels_and_fits_of_their_own(tmp_path: Path) -> None:
    rows = [took(planted(batch), batch, model=model) for batch in SIZES for model in ("cnn", "lstm")]
    others = [took(planted(batch), batch, target_value=0.5, study="other") for batch in SIZES]
    made = drawn(*rows, *others, tmp_path=tmp_path)
    assert [panel.title for panel in made.panels] == [
        "validation accuracy of at least 0.5",
        "validation accuracy of at least 0.9: cnn",
        "validation accuracy of at least 0.9: lstm",
    ]
    assert [len(of_role(made, Role.FITTED, panel)) for panel in range(3)] == [1, 1, 1]


def test_emulated_runs_are_fitted_apart(tmp_path: Path) -> None:
    rows = [took(planted(batch), batch, emulated=e) for batch in SIZES for e in (None, "simulated")]
    made = drawn(*rows, tmp_path=tmp_path)
    assert [one.emulated for one in of_role(made, Role.FITTED)] == ["", "simulated"]
    assert any(note.startswith("Critical batch of measured, emulated:") for note in made.notes)


def test_untuned_learning_rates_are_said(tmp_path: Path) -> None:
    rows = [took(400, 16), took(200, 32)]
    assert "none was tuned" in " ".join(drawn(*rows, tmp_path=tmp_path).notes)
    tuned = [took(400, 16, learning_rate_base=0.1), took(200, 32, learning_rate_base=0.3)]
    assert "none was tuned" not in " ".join(drawn(*tuned, tmp_path=tmp_path).notes)


def test_the_study_of_digits() -> None:
    found = real.study("digits")
    made = chart(found)
    real.check(made, found)
    (panel,) = made.panels
    roles = [one.role for one in panel.series]
    assert roles[:4] == [Role.MEASURED, Role.MEASURED, Role.BASE_LINE, Role.IDEAL]
    assert sum(note.startswith("Critical batch of ") for note in made.notes) == 3
    # One worker needs the same updates with and without a communication library: the seeds are the same.
    one, alone = heights(panel.series[0]), heights(panel.series[2])
    assert one == alone
