"""Time against device time: the front, the knee, and what may be compared."""

from math import inf
from pathlib import Path
from typing import Any

import pytest

from dlbench.report.chart import Role
from dlbench.report.figures.pareto import FRONT, OF_SOUND, chart
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import Row, line, medians, repeats, run

TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9}


def arms(**values: Any) -> list[Row]:
    """Return four arms of which the last is beaten by the second in both costs."""
    times = {(1, 32): 100.0, (2, 32): 60.0, (4, 32): 40.0, (4, 64): 80.0}
    return [run(**{"workers": w, "batch_size": b, "train_time_s": t, **values}) for (w, b), t in times.items()]


def device_s(*places: tuple[int, float]) -> dict[float, float]:
    """Return the times at the device-seconds of so many workers for so many seconds."""
    return {workers * time_s: time_s for workers, time_s in places}


DONE = [run(**TARGET, workers=w, time_to_target_s=t, train_time_s=500.0) for w, t in ((1, 100.0), (2, 60.0))]
LATE = [run(**TARGET, workers=8, repeat=r, time_to_target_s=None, train_time_s=9.0) for r in range(2)]
UNFIT = [
    *repeats(2, workers=8, train_time_s=9.0, validation_accuracy=[0.8, 0.1], samples_seen=5000),
    run(workers=16, train_time_s=4.0, samples_seen=5000),
    run(workers=16, repeat=1, status="failed"),
]
OTHER = [run(**TARGET, model="cnn", workers=w, time_to_target_s=5.0, study="other") for w in (1, 2)]
MANY = [
    run(workers=w, optimizer=o, batch_size=b, train_time_s=1000.0 / w**0.8 / b**0.5 + len(o))
    for w in (1, 2, 4, 8)
    for b in (8, 16, 32)
    for o in ("sgd", "adam", "rmsprop")
]
CASES = (
    Case(
        "an arm stands at its median with all its runs",
        [*repeats(3, workers=4, train_time_s=[90.0, 110.0, 100.0]), *repeats(3, workers=1, train_time_s=[300.0] * 3)],
        {0: {"mpi": {400: see(90, 100, 110, value=100, low=90, high=110)} | device_s((1, 300)),
             FRONT: device_s((1, 300), (4, 100))}},
    ),
    Case(
        "a way is one colour, the front leaves out what another arm beats, and the knee is said", arms(), num_runs=4,
        shows={0: {"mpi, 1 worker": device_s((1, 100)), "mpi, 2 workers": device_s((2, 60)),
                   "mpi, 4 workers": device_s((4, 40), (4, 80)), FRONT: device_s((1, 100), (2, 60), (4, 40))}},
        says=[
            "Pareto front, from the fewest device-seconds to the least time: mpi workers=1 batch_size=32 (100 s, 100",
            " device-seconds); mpi workers=2 batch_size=32 (60 s, 120 device-seconds); mpi workers=4 batch_size=32 (40",
            "Its knee: mpi workers=2 batch_size=32, which lies farthest below the line between the front's ends",
        ],
    ),
    Case(
        "one arm that beats all is the whole front", [run(workers=w, train_time_s=10.0) for w in (1, 2)],
        {0: {"mpi": device_s((1, 10), (2, 10))}}, silent=["knee"],
        says=["least time: mpi workers=1 batch_size=32 (10 s, 10 device-seconds)."],
    ),
    Case(
        "of equal device times the least time is on the front alone",
        [run(workers=w, train_time_s=t) for w, t in ((1, 0.9), (3, 0.3), (4, 0.25))],
        {0: {"mpi": {0.9: 0.9, 0.9 - 9e-10: 0.3, 1.0: 0.25},
             FRONT: {0.9: 0.3, 1.0: 0.25}}},
    ),
    Case(
        "servers with slots of their own take device time", [
            run(workers=2, train_time_s=9.0),
            run(strategy="parameter_server", workers=2, servers=1, server_placement="own", train_time_s=9.0),
        ],
        {0: {"mpi": device_s((2, 9)), "parameter_server": device_s((3, 9))}},
    ),
    Case(
        "arms of one way that cost the same stay apart",
        [run(batch_size=b, train_time_s=36.0, validation_loss=0.1 * b) for b in (8, 16)],
        {0: {"mpi": {36: 36, 36 - 36e-9: 36}}},
    ),
    Case(
        "with a target it is the time to it, and an arm that never reached it is not on the front", [*DONE, *LATE],
        {0: {"mpi": device_s((1, 100), (2, 60)) | {8 * 9: see(ended=(9, 9))},
             FRONT: device_s((1, 100), (2, 60))}},
        silent=["accuracies"],
    ),
    Case(
        "an arm of which a run learned nothing or failed is not on the front", [*arms(), *UNFIT],
        {0: {"mpi, 1 worker": ..., "mpi, 2 workers": ..., "mpi, 4 workers": ...,
             "mpi, 8 workers": {8 * 9: see(9, 9, flags="nothing")}, "mpi, 16 workers": {16 * 4: see(4, num_failed=1)},
             FRONT: device_s((1, 100), (2, 60), (4, 40))}},
    ),
    Case(
        "nor is one of which a run missed the target",
        [*DONE, *repeats(3, **TARGET, workers=8, train_time_s=9.0, time_to_target_s=[9.0, 9.0, None])],
        {0: {"mpi": device_s((1, 100), (2, 60)) | {8 * 9: see(9, 9, ended=(9,))}, FRONT: device_s((1, 100), (2, 60))}},
    ),
    Case(
        "it is not where it is unknown when that run ended, and where most missed it an arm has no place",
        [*DONE, *repeats(3, **TARGET, workers=8, train_time_s=None, time_to_target_s=[9.0, 9.0, None]),
         *repeats(3, **TARGET, workers=16, train_time_s=None, time_to_target_s=[4.0, None, None])],
        {0: {"mpi": device_s((1, 100), (2, 60)) | {8 * 9: see(9, 9, ended=(inf,))},
             FRONT: device_s((1, 100), (2, 60))}}, says=["Left out: 1 arm without a median time"],
    ),
    Case(
        "tasks and targets and emulation have fronts of their own",
        [*arms(model="cnn"), *arms(model="lstm"), *arms(model="cnn", emulated="simulated"), *OTHER],
        {1: {FRONT: device_s((1, 100), (2, 60), (4, 40))} | dict.fromkeys(
            [f"{w} (emulated)" for w in ("mpi, 1 worker", "mpi, 2 workers", "mpi, 4 workers")], ...)},
        titles=["cnn", "cnn, emulated", "lstm", "cnn, to a validation accuracy of at least 0.9"],
        says=["Pareto front (cnn, emulated),", "Pareto front (lstm),", "Its knee: mpi workers=2 batch_size=32"],
    ),
    Case(
        "so have tasks that only a table tells apart",
        [row for task in ("bert", "cnn") for row in arms(command="imported", **{"imported.benchmark": task})],
        {0: dict.fromkeys(["mpi, 1 worker", "mpi, 2 workers", "mpi, 4 workers"], ...)
            | {FRONT: device_s((1, 100), (2, 60), (4, 40))}},
        titles=["benchmark bert", "benchmark cnn"],
    ),
    Case(
        "failed runs are at their arm's place, and an arm without a time or alone in its task is counted",
        [*arms(model="cnn"), run(model="cnn", workers=2, batch_size=32, repeat=1, status="failed"),
         run(model="cnn", workers=16, status="timeout"), run(model="lstm")],
        {"cnn": {"mpi, 2 workers": {2 * 60: see(60, num_failed=1)}, FRONT: ..., "mpi, 1 worker": ...,
                 "mpi, 4 workers": ...}},
        titles=["cnn"],
        says=["Left out: 2 arms without a median time, or alone"],
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)
    (panel,) = drawn(chart, *arms(), tmp_path=tmp_path).panels
    assert (panel.x.scale, panel.y.scale, panel.y.label) == ("log10", "log10", "training time (s)")
    assert panel.is_scatter
    lead = "Dashed Pareto front: the arms that no other beats in both"
    assert drawn(chart, *arms(samples_seen=5000), tmp_path=tmp_path).lead == f"{lead}."
    unequal = f"Arms end at validation accuracy 0.450 to 0.850. {lead}{OF_SOUND}."
    assert drawn(chart, *arms(samples_seen=5000), *UNFIT, tmp_path=tmp_path).lead == unequal
    assert line(panel, FRONT).role is Role.IDEAL
    assert [[mark.name for mark in one.marks] for one in panel.series] == [
        ["batch 32"], ["batch 32"], ["batch 32", ""], [""] * 3,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "lead"),
    [
        ([run(workers=w, train_time_s=10.0) for w in (1, 2)],
         "Pareto front: the named arm alone, which is the best in both."),
        ([run(**TARGET, workers=w, time_to_target_s=None) for w in (1, 2)],
         "No Pareto front: of each arm a run failed, learned nothing or missed the target."),
        (MANY, "Dashed Pareto front of all panels together: the arms that no other beats in both."),
        ([*MANY, *arms(model="lstm")],
         "Dashed Pareto front of all panels of a task together: the arms that no other beats in both."),
    ],
)  # fmt: skip
def test_the_caption_explains_the_line_that_is_drawn(tmp_path: Path, rows: list[Row], lead: str) -> None:
    assert lead in drawn(chart, *rows, tmp_path=tmp_path).lead


def test_a_way_has_one_name_in_all_fields(tmp_path: Path) -> None:
    rows = [run(workers=w, strategy=s) for w in (1, 2) for s in ("mpi", "mirrored")]
    rows += [run(workers=w, strategy="mirrored", emulated="logical-devices") for w in (4, 8)]
    real, emulated = drawn(chart, *rows, tmp_path=tmp_path).panels
    assert {one.label for one in real.series} - {FRONT} == {"mirrored", "mpi"}
    assert {one.label for one in emulated.series} - {FRONT} == {"mirrored"}


def test_many_ways_are_spread_over_panels_that_share_the_front(tmp_path: Path) -> None:
    made = drawn(chart, *MANY, tmp_path=tmp_path)
    assert sum(len(one.marks) for panel in made.panels for one in panel.series if one.role is Role.MEASURED) == 36
    fronts = [medians(line(panel, FRONT)) for panel in made.panels]
    assert len(fronts) > 1
    assert fronts == [fronts[0]] * len(fronts)
