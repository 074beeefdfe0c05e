"""Learning curves: medians over repeats at each epoch, at the right update and time, of nobody who failed."""

from pathlib import Path
from typing import Any

import pytest

from dlbench.report.chart import MissingRowsError, ringed
from dlbench.report.figures.learning_curves import FEW_MARKS, MOST_MARKS, MOST_PANELS, chart
from dlbench.report.lines import ALONE
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import Row, base_line, epochs_of, medians, panel, repeats, report_data, run

TITLES = [
    f"{value} by {place}"
    for value in ("training loss", "validation loss", "training accuracy", "validation accuracy")
    for place in ("epochs", "updates", "time")
]
LOSS = TITLES[:3]


def curves(runs: list[Row], **columns: Any) -> list[Row]:
    return [row for of in runs if of["status"] == "completed" for row in epochs_of(of, **columns)]


def case(
    name: str, runs: list[Row], shows: dict[str | int, Any] | None = None, *, columns: Any = None, **others: Any
) -> Case:
    """Return a case of runs with the epochs of those that completed."""
    return Case(name, runs, shows or {}, more={"epochs": curves(runs, **columns or {})}, **others)


ARMS = {size: repeats(3, batch_size=size, workers=2, epochs=2) for size in (16, 32)}
LOSSES = {16: ([3.0, 1.0], [4.0, 2.0], [5.0, 0.5]), 32: ([9.0, 8.0], [9.0, 8.0], [9.0, 8.0])}
EPOCHS = [
    row
    for size, runs in ARMS.items()
    for one, values in zip(runs, LOSSES[size], strict=True)
    for row in epochs_of(one, slowest=2.0, train_loss=values, train_time_s=[1.0 + one["repeat"], 10.0])
]
GOOD = repeats(2, batch_size=8, epochs=3)
BEGAN, NEVER = (run(batch_size=8, epochs=3, repeat=n, status=s) for n, s in ((2, "failed"), (3, "timeout")))
POWERS = [run(batch_size=2**power, workers=2) for power in range(6)]
POWERS += [row for power in range(6) for row in base_line(batch_size=2**power)]
CASES = (
    # 1438 samples make 44 global batches of 2 x 16, and 22 of 2 x 32. The slower of both workers took twice as long as
    # the first; the median repeat's first 2 s.
    Case(
        "a line is the median over repeats at each epoch", [*ARMS[16], *ARMS[32]], titles=TITLES, num_runs=6,
        shows={
            LOSS[0]: {"batch 16": {1: see(3, 4, 5, value=4), 2: see(0.5, 1, 2, value=1, low=0.5, high=2)},
                      "batch 32": {1: 9, 2: 8}},
            LOSS[1]: {"batch 16": {44: 4, 88: 1}, "batch 32": {22: 9, 44: 8}},
            LOSS[2]: {"batch 16": {4: 4, 20: 1}, "batch 32": {4: 9, 20: 8}},
        },
        more={"epochs": EPOCHS},
    ),
    case(
        "where batch sizes do not vary each arm is a line", [run(workers=w) for w in (1, 2)],
        {0: {"mpi, 1 worker": ..., "mpi, 2 workers": ...}},
    ),
    case(
        "updates are those of the servers where these apply gradients", titles=TITLES,
        runs=[run(workers=4, epochs=2, strategy="asynchronous", steps=20, updates=80, samples_per_update=31.9)],
        shows={LOSS[1]: {"asynchronous": {40: 3, 80: 1}}}, columns={"train_loss": [3.0, 1.0]},
    ),
    case(
        "only epochs that were evaluated have a mark", [run(epochs=4)], titles=TITLES[:9],
        shows={"validation loss by epochs": {"mpi": {2: 1, 4: 0.5}}},
        columns={"validation_loss": [None, 1.0, None, 0.5], "validation_accuracy": [None] * 4},
    ),
    Case(
        "failed runs have no curve and are counted at the end", [*GOOD, BEGAN, NEVER], num_runs=4,
        shows={
            title: {"mpi": {at[0]: see(3, 3, num_failed=0), at[1]: see(2, 2), at[2]: see(1, 1, num_failed=2)}}
            for title, at in zip(LOSS, ((1, 2, 3), (179, 358, 537), (1, 2, 3)), strict=True)
        },
        more={"epochs": [*curves(GOOD, train_loss=[3.0, 2.0, 1.0]), *epochs_of(BEGAN, train_loss=[99.0])]},
    ),
    case(
        "an arm that failed altogether is counted where it was to end",
        [run(batch_size=8, epochs=3), run(batch_size=16, epochs=3, status="out-of-memory", steps=7)],
        {LOSS[0]: {"batch 8": ..., "batch 16": {3: see(num_failed=1)}}, LOSS[1]: {"batch 8": ...}},
    ),
    case(
        "base lines are shown where there is room", [*POWERS[:2], *base_line(batch_size=1)],
        {0: {"batch 1": ..., "batch 2": ..., f"{ALONE}, batch 1": ...}},
    ),
    case(
        "and left out where there is none", POWERS, {0: {f"batch {2**power}": ... for power in range(6)}},
        says=["Base lines are left out where a panel would have more than 7 lines."], num_runs=6,
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)


def test_of_panels_that_have_no_room_together_the_fullest_are_shown(tmp_path: Path) -> None:
    few = [run(batch_size=size, optimizer="adam", workers=2) for size in (16, 32)]
    many = [run(batch_size=size, optimizer="sgd", workers=2) for size in (8, 16, 32)]
    made = drawn(chart, *few, *many, epochs=curves([*few, *many]), tmp_path=tmp_path)
    assert [len(one.series) for one in made.panels] == [3] * MOST_PANELS
    assert "sgd" in made.title
    assert any(note.startswith("Left out, beyond the number of panels: ") and "adam" in note for note in made.notes)


def test_long_lines_have_fewer_marks_up_to_the_last_and_no_points(tmp_path: Path) -> None:
    made = drawn(chart, run(epochs=251), epochs=curves([run(epochs=251)]), tmp_path=tmp_path)
    (measured,) = panel(made, LOSS[0]).series
    assert len(measured.marks) <= MOST_MARKS
    assert list(medians(measured))[-1] == 251
    assert not any(mark.points for mark in measured.marks)
    assert any(note.startswith(f"Where a line has more than {FEW_MARKS} marks") for note in made.notes)


def test_epochs_in_which_the_batch_changed_are_ringed_in_long_lines_too(tmp_path: Path) -> None:
    for epochs, changed in ((4, {3}), (251, {17, 100})):
        runs = repeats(2, epochs=epochs, batch_policy="goodput")
        changes = [{"run_id": one["run_id"], "step": 9, "epoch": epoch} for one in runs for epoch in changed]
        made = drawn(chart, *runs, epochs=curves(runs), batch_changes=changes, tmp_path=tmp_path)
        (measured,) = panel(made, LOSS[0]).series
        assert {mark.x for mark in measured.marks if mark.flags == "batch-changed" and mark.points} == changed
        assert sum(note.startswith("Ringed: ") for note in made.notes) == 1
        assert ringed(made) == {"batch-changed"}


def test_what_is_lacking_is_said(tmp_path: Path) -> None:
    done, failed, random, short = run(epochs=3), run(status="failed"), run(input="synthetic"), run(epochs=1)
    nothing = dict.fromkeys(("train_loss", "train_accuracy", "validation_loss", "validation_accuracy"), [None] * 3)
    cases = [(failed, []), (done, []), (done, curves([done], **nothing))]
    for one, rows in (*cases, *((one, curves([one])) for one in (short, random))):
        with pytest.raises(MissingRowsError, match="two or more epochs of completed runs on data that can be learned"):
            chart(report_data(one, epochs=rows, tmp_path=tmp_path))


def test_what_is_known_at_one_epoch_alone_is_no_curve(tmp_path: Path) -> None:
    runs = [run(batch_size=8), run(batch_size=16)]
    rows = curves(runs, train_loss=[2.0, 0.5, 0.1], validation_loss=[None, None, 0.2])
    made = drawn(chart, *runs, epochs=rows, tmp_path=tmp_path)
    assert LOSS[0] in {panel.title for panel in made.panels}
    assert not any(panel.title.startswith("validation loss") for panel in made.panels)


def test_colours_are_not_those_of_ways_where_lines_are_sizes(tmp_path: Path) -> None:
    for along, values, palette in (
        ("batch_size", (8, 16), "sizes"), ("workers", (2, 4), "sizes"), ("strategy", ("mpi", "horovod"), "ways"),
    ):  # fmt: skip
        runs = [run(**{"workers": 2, along: value}) for value in values]
        panels = drawn(chart, *runs, epochs=curves(runs), tmp_path=tmp_path).panels
        assert {one.palette for panel in panels for one in panel.series} == {palette}


def test_batches_that_change_share_panels_with_fixed_ones_in_colours_of_their_own(tmp_path: Path) -> None:
    fixed = [run(workers=2, batch_size=2**power, batch_policy="fixed") for power in range(6)]
    names = ("goodput", "step-doubling")
    policies = [run(workers=2, batch_size=1, batch_policy=name, run_id=f"{name}-r0") for name in names]
    made = drawn(chart, *fixed, *policies, epochs=curves([*fixed, *policies]), tmp_path=tmp_path)
    palettes = {one.label: one.palette for one in panel(made, LOSS[0]).series}
    assert palettes == {f"batch {2**power}, fixed": "sizes" for power in range(6)} | {
        f"batch 1, {name}": "policies" for name in names
    }


def test_axes_are_logarithmic_where_lines_end_far_apart_or_losses_fall_far(tmp_path: Path) -> None:
    runs = [run(batch_size=8), run(batch_size=256)]
    rows = curves(runs, train_loss=[2.0, 0.5, 0.1, 0.01], validation_loss=[2.0, 1.0, 0.9, 0.8])
    made = drawn(chart, *runs, epochs=rows, tmp_path=tmp_path)
    scales = {one.title: (one.x.scale, one.y.scale) for one in made.panels}
    assert [scales[title] for title in (LOSS[0], LOSS[1], TITLES[5], TITLES[7])] == [
        ("linear", "log10"), ("log10", "log10"), ("linear", "linear"), ("log10", "linear"),
    ]  # fmt: skip
