"""Time against device-hours: the front, the knee, and what may be compared."""

from pathlib import Path
from typing import Any

from dlbench.report.chart import Chart, Role
from dlbench.report.figures.pareto import FRONT, MOST_PANELS, chart
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import Row, base_line, line, medians, repeats, run

TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9}
KNEE = "2 workers, batch 32 (knee)"


def arms(**values: Any) -> list[Row]:
    """Return four arms of which the last is beaten by the second in both costs."""
    times = {(1, 32): 100.0, (2, 32): 60.0, (4, 32): 40.0, (4, 64): 80.0}
    return [run(**{"workers": w, "batch_size": b, "train_time_s": t, **values}) for (w, b), t in times.items()]


def times(found: dict[int, float], **values: Any) -> list[Row]:
    return [run(**{"workers": workers, "train_time_s": time_s, **values}) for workers, time_s in found.items()]


def hours(*places: tuple[int, float]) -> dict[float, float]:
    """Return the times at the device-hours of so many workers for so many seconds."""
    return {workers * time_s / 3600: time_s for workers, time_s in places}


def labels(made: Chart, panel: int = 0) -> list[str]:
    return [one.label for one in made.panels[panel].series if one.role is not Role.FITTED]


DONE = [run(**TARGET, workers=w, time_to_target_s=t, train_time_s=500.0) for w, t in ((1, 100.0), (2, 60.0), (4, 40.0))]
LATE = [run(**TARGET, workers=8, repeat=r, time_to_target_s=None, train_time_s=9.0) for r in range(2)]
OTHER = [run(**TARGET, model="cnn", workers=w, time_to_target_s=5.0, study="other") for w in (1, 2)]
CASES = (
    Case(
        "an arm stands at its median with all its runs",
        [*repeats(3, workers=4, train_time_s=[90.0, 110.0, 100.0]), *repeats(3, workers=1, train_time_s=[300.0] * 3)],
        {0: {"1 worker": hours((1, 300)), FRONT: hours((1, 300), (4, 100)),
             "4 workers": {400 / 3600: see(90, 100, 110, value=100, low=90, high=110)}}},
    ),
    Case(
        "the front leaves out what another arm beats, and the knee is named", arms(), num_runs=4,
        shows={0: {"1 worker, batch 32": hours((1, 100)), KNEE: hours((2, 60)), "4 workers, batch 32": hours((4, 40)),
                   "4 workers, batch 64": hours((4, 80)), FRONT: hours((1, 100), (2, 60), (4, 40))}},
        says=[
            "Pareto front, from the fewest device-hours to the least time: 1 worker, batch 32 (100 s, 0.0278",
            "); 2 workers, batch 32 (60 s, 0.0333 device-hours); 4 workers, batch 32 (40 s, 0.0444 device-hours).",
            "Its knee: 2 workers, batch 32, which lies farthest below the line between the front's ends",
        ],
    ),
    Case(
        "a front of two has no knee", times({1: 100.0, 2: 60.0}), {0: {"1 worker": ..., "2 workers": ..., FRONT: ...}},
        says=["A knee needs a third arm between them."],
    ),
    Case(
        "a front that does not bend has no knee", times({1: 100.0, 2: 99.0, 8: 40.0}),
        {0: {"1 worker": ..., "2 workers": ..., "8 workers": ..., FRONT: hours((1, 100), (2, 99), (8, 40))}},
        says=["no arm on it lies below"],
    ),
    Case(
        "one arm that beats all is the whole front", times({1: 10.0, 2: 10.0}),
        {0: {"1 worker": ..., "2 workers": ..., FRONT: hours((1, 10))}},
        says=["Pareto front: one arm has both the least time and the fewest device-hours, 1 worker (10 s, 0.00278 "],
    ),
    Case(
        "without a target the difference in accuracy is said",
        [run(workers=1, validation_accuracy=0.95), run(workers=2, validation_accuracy=0.91)], says=["do not end alike",
            "0.9100 (mpi workers=2 batch_size=32) to 0.9500 (mpi workers=1 batch_size=32)"],
    ),
    *(
        Case("accuracy that means nothing", arms(**nothing), says=["was not measured as an accuracy"])
        for nothing in ({"validation_accuracy": None}, {"input": "synthetic"})
    ),
    Case(
        "with a target it is the time to it", DONE, silent=["do not end alike"],
        shows={0: {"1 worker": ..., "2 workers (knee)": ..., "4 workers": ...,
                   FRONT: hours((1, 100), (2, 60), (4, 40))}},
    ),
    Case(
        "an arm that never reached the target is shown and not on the front", [*DONE[:2], *LATE],
        {0: {"1 worker": ..., "2 workers": ..., "8 workers": {8 * 9 / 3600: see(ended=(9, 9))},
             FRONT: hours((1, 100), (2, 60))}},
    ),
    Case(
        "tasks and targets and emulation have fronts of their own",
        [*arms(model="cnn"), *arms(model="lstm"), *arms(model="cnn", emulated="simulated"), *OTHER],
        {1: {FRONT: hours((1, 100), (2, 60), (4, 40))} | dict.fromkeys((
            "1 worker, batch 32 (emulated)", f"{KNEE} (emulated)", "4 workers, batch 32 (emulated)",
            "4 workers, batch 64 (emulated)"), ...)},
        titles=["cnn", "cnn, emulated", "lstm", "cnn, to a validation accuracy of at least 0.9"],
        says=["Pareto front of cnn, emulated,", "Pareto front of lstm,", "Its knee: 2 workers, batch 32"],
    ),
    Case(
        "failed runs are at their arm's place",
        [*arms(), run(workers=2, batch_size=32, repeat=1, status="failed"), run(workers=16, status="timeout")],
        {0: {KNEE: {2 * 60 / 3600: see(60, num_failed=1)}, FRONT: ...} | dict.fromkeys(
            ("1 worker, batch 32", "4 workers, batch 32", "4 workers, batch 64"), ...)},
        says=["Left out: 1 arm without the time of any completed run."],
    ),
    Case(
        "an arm alone in its task is counted", [*arms(model="cnn"), run(model="lstm")], titles=["cnn"],
        says=["Left out: 1 arm with no other of the same task"],
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)
    (panel,) = drawn(chart, *arms(), tmp_path=tmp_path).panels
    assert (panel.x.scale, panel.y.scale, panel.y.label) == ("log10", "log10", "training time (s)")
    front = line(panel, FRONT)
    assert front.role is Role.FITTED
    assert front.hue not in {one.hue for one in panel.series if one is not front}
    (panel,) = drawn(chart, *DONE, tmp_path=tmp_path).panels
    assert panel.y.label == "time to a validation accuracy of at least 0.9 (s)"


def test_many_arms_are_spread_over_panels_that_share_the_front(tmp_path: Path) -> None:
    rows = [
        run(workers=w, batch_size=b, train_time_s=1000.0 / w**0.8 / b**0.5)
        for w in (1, 2, 4, 8)
        for b in (8, 16, 32, 64)
    ]
    made = drawn(chart, *rows, tmp_path=tmp_path)
    assert sum(len(labels(made, panel)) for panel in range(4)) == 16
    fronts = [medians(line(panel, FRONT)) for panel in made.panels]
    assert fronts == [fronts[0]] * 4
    assert len(fronts[0]) == 4
    assert len({(panel.x, panel.y) for panel in made.panels}) == 1
    assert any("8 workers, batch 64 (" in note for note in made.notes)


def test_of_very_many_panels_those_with_the_front_are_shown(tmp_path: Path) -> None:
    rows = [
        run(workers=workers, batch_size=batch, strategy=strategy, train_time_s=batch / workers + 0.01 * len(strategy))
        for workers in (2, 4, 8)
        for batch in range(20, 40)
        for strategy in ("mpi", "horovod")
    ] + [row for batch in range(20, 40) for row in base_line(batch_size=batch, train_time_s=3.0)]
    made = drawn(chart, *rows, tmp_path=tmp_path)
    assert (len(made.panels), made.panels[0].title) == (MOST_PANELS, "batch 20")
    assert {one.label for one in made.panels[0].series} >= {"mpi, 8 workers", FRONT}
    (left_out,) = [note for note in made.notes if note.startswith("Left out")]
    assert left_out.startswith("Left out, without an arm of the front: batch 32; ")
    slowest_first = [{**row, "train_time_s": 80.0 - row["train_time_s"]} for row in rows]
    assert "batch 39" in [panel.title for panel in drawn(chart, *slowest_first, tmp_path=tmp_path).panels]
