"""Where the time of a step goes."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dlbench.report.chart import Panel
from dlbench.report.figures.step_parts import chart
from tests.unit.report.figures import real
from tests.unit.report.figures.makers import base_line, repeats, run

ONE_CALL = {"communication_time_s": None, "update_time_s": None}


drawn = partial(real.drawn, chart)


def bar(panel: Panel, place: int) -> dict[str, float]:
    """Return the median of each part of one bar, from the bottom to the top."""
    return {
        one.label: mark.interval.value
        for one in panel.series
        for mark in one.marks
        if mark.x == place and mark.interval is not None
    }


def test_parts_of_a_step_in_milliseconds(tmp_path: Path) -> None:
    made = drawn(run(timed_window_s=6.0), tmp_path=tmp_path)
    (panel,) = made.panels
    assert (panel.form, panel.y.label, panel.x.categories) == ("bars", "time per step (ms)", ("mpi",))
    assert bar(panel, 0) == pytest.approx(
        {
            "waiting for data": 1.0, "forward and backward": 40.0, "exposed communication": 5.0, "update": 4.0,
            "other": 10.0,
        }
    )  # fmt: skip


def test_marked_steps_split_waiting_from_the_exchange(tmp_path: Path) -> None:
    made = drawn(run(peer_wait_s=0.001, wire_time_s=0.003), tmp_path=tmp_path)
    found = bar(made.panels[0], 0)
    assert "exposed communication" not in found
    assert (found["waiting for slower workers"], found["exchange"]) == pytest.approx((1.25, 3.75))
    assert "as in the marked steps" in " ".join(made.notes)


@pytest.mark.parametrize(
    "marked", [{"peer_wait_s": 0.0, "wire_time_s": 0.0}, {"peer_wait_s": 0.1, "wire_time_s": None}]
)
def test_marked_steps_that_tell_nothing_split_nothing(marked: dict[str, Any], tmp_path: Path) -> None:
    made = drawn(run(**marked), tmp_path=tmp_path)
    assert bar(made.panels[0], 0)["exposed communication"] == pytest.approx(5.0)
    assert "marked steps" not in " ".join(made.notes)


def test_what_cannot_be_observed_is_no_zero(tmp_path: Path) -> None:
    made = drawn(run(strategy="mirrored", **ONE_CALL), run(strategy="mpi"), tmp_path=tmp_path)
    (panel,) = made.panels
    assert panel.x.categories == ("mirrored", "mpi")
    assert bar(panel, 0) == pytest.approx(
        {"waiting for data": 1.0, "whole step in one compiled call": 40.0, "other": 9.0}
    )
    communication = next(one for one in panel.series if one.label == "exposed communication")
    assert [mark.x for mark in communication.marks] == [1]
    assert "In 1 run (mirrored) the step is one compiled call" in " ".join(made.notes)


def test_a_step_in_which_data_are_unknown_leaves_them_to_the_rest(tmp_path: Path) -> None:
    made = drawn(run(data_wait_s=None), tmp_path=tmp_path)
    assert bar(made.panels[0], 0)["other"] == pytest.approx(1.0)
    assert "waiting for data" not in bar(made.panels[0], 0)


def test_rounding_makes_no_negative_rest(tmp_path: Path) -> None:
    made = drawn(run(timed_window_s=4.999999999), tmp_path=tmp_path)
    assert bar(made.panels[0], 0)["other"] == 0.0


def test_a_bar_is_an_arm_with_the_median_of_its_repeats(tmp_path: Path) -> None:
    made = drawn(*repeats(3, compute_time_s=[3.0, 4.0, 3.2]), run(workers=2), tmp_path=tmp_path)
    (panel,) = made.panels
    assert panel.x.categories == ("1 worker", "2 workers")
    compute = next(one for one in panel.series if one.label == "forward and backward")
    assert compute.marks[0].interval is not None
    assert (compute.marks[0].interval.value, compute.marks[0].interval.n) == (pytest.approx(32.0), 3)
    assert sorted(compute.marks[0].points) == pytest.approx([30.0, 32.0, 40.0])
    assert compute.marks[1].interval is not None
    assert compute.marks[1].interval.low is None


def test_base_lines_come_first_and_models_have_panels_of_their_own(tmp_path: Path) -> None:
    rows = [run(model=m, workers=w) for m in ("cnn", "lstm") for w in (2, 4)]
    made = drawn(*rows, *base_line(model="cnn"), *base_line(model="lstm"), tmp_path=tmp_path)
    assert [(panel.title, panel.x.categories) for panel in made.panels] == [
        ("cnn", ("one worker alone", "2 workers", "4 workers")),
        ("lstm", ("one worker alone", "2 workers", "4 workers")),
    ]


def test_long_names_have_their_settings_in_the_label_of_the_axis(tmp_path: Path) -> None:
    rows = [run(divide=d, learning_rate_scale=s) for d in ("data", "epochs") for s in ("linear", "none")]
    (panel,) = drawn(*rows, *base_line(divide="data", learning_rate_scale="none"), tmp_path=tmp_path).panels
    assert panel.x.label == "divide, learning_rate_scale"
    assert panel.x.categories == (
        "one worker alone, data, none", "data, linear", "data, none", "epochs, linear", "epochs, none",
    )  # fmt: skip


def test_emulated_arms_have_a_panel_of_their_own(tmp_path: Path) -> None:
    made = drawn(run(workers=2), run(workers=4, emulated="oversubscribed"), tmp_path=tmp_path)
    assert [(panel.title, panel.x.categories) for panel in made.panels] == [
        ("", ("2 workers",)), ("emulated", ("4 workers",)),
    ]  # fmt: skip
    assert {one.emulated for one in made.panels[1].series} == {"oversubscribed"}
    assert {one.emulated for one in made.panels[0].series} == {""}


def test_completed_runs_without_a_window_are_counted(tmp_path: Path) -> None:
    made = drawn(run(workers=2), run(workers=4, timed_window_s=None, timed_steps=None), tmp_path=tmp_path)
    assert "Left out: 1 run that completed without a timed window or its parts." in made.notes
    assert len(made.runs) == 1
