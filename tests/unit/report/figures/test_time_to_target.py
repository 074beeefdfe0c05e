"""Time and epochs to a target, with runs that never reached it."""

from pathlib import Path
from typing import Any

from dlbench.report.figures._table import TABLE
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import Row, run

chart = TABLE["time_to_target"].chart

BATCH = "batch size of one worker (samples)"


def reached(time_s: float | None, epochs: int | None, **values: Any) -> Row:
    target = {"target_metric": "validation_accuracy", "target_value": 0.9}
    return run(**{**target, "time_to_target_s": time_s, "epochs_to_target": epochs, **values})


TIMES = {8: (10.0, 14.0, 12.0), 16: (6.0, 5.0, 9.0)}
ALL = [reached(t, int(t), batch_size=b, repeat=r) for b, found in TIMES.items() for r, t in enumerate(found)]
LATE = [
    reached(10.0, 2, batch_size=8),
    reached(11.0, 3, batch_size=8, repeat=1),
    reached(None, None, batch_size=8, repeat=2, train_time_s=20.0, epochs_completed=4),
    reached(5.0, 1, batch_size=16),
    reached(None, None, batch_size=16, repeat=1, train_time_s=15.0, epochs_completed=4),
    reached(None, None, batch_size=32, train_time_s=12.0, epochs_completed=4),
]
GRID = [reached(4.0, 1, batch_size=b, workers=w) for b in (8, 16) for w in (1, 2)]
CASES = (
    Case("medians", ALL, {0: {"mpi": {8: 12, 16: 6}}, 1: {"mpi": {8: see(10, 12, 14), 16: see(5, 6, 9)}}}),
    Case(
        "runs that never reached it are shown where they ended", LATE, num_runs=6,
        says=["3 runs of 6 that completed ended before the target"],
        shows={
            0: {"mpi": {8: see(10, 11, ended=(20,), value=11), 16: see(5, ended=(15,)), 32: see(ended=(12,))}},
            1: {"mpi": {8: see(2, 3, ended=(4,)), 16: see(1, ended=(4,)), 32: see(ended=(4,))}},
        },
    ),
    Case(
        "a failed run is none of them",
        [*LATE, reached(None, None, batch_size=8, train_time_s=9.0, status="failed", repeat=4)],
        says=["3 runs of 6 that completed ended before the target"], num_runs=7,
    ),
    Case("half of them: no median", LATE, {0: {"mpi": {8: 11, 16: None, 32: None}}}),
    Case(
        "how finely the moment is known", [reached(4.0, 2, workers=w, evaluate_every=2) for w in (1, 2)],
        says=["The target is looked for at evaluations alone: every 2 epochs."],
    ),
    Case(
        "random numbers, and no target", num_runs=2, says=["1 run on synthetic input left out"],
        rows=[*GRID[:2], reached(None, None, workers=4, input="synthetic"), run(workers=8)],
        shows={0: {"mpi": {1: 4, 2: 4}}},
    ),
    Case(
        "where both vary the batch size stands on x", GRID,
        {0: {"mpi, 1 worker": ..., "mpi, 2 workers": ...}, 1: {"mpi, 1 worker": ..., "mpi, 2 workers": ...}},
        titles=["", ""],
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)
    made = drawn(chart, *ALL, tmp_path=tmp_path)
    assert made.title == "Time and epochs to a validation accuracy of at least 0.9 by batch size"
    assert [(one.x.label, one.y.label) for one in made.panels] == [
        (BATCH, "time to target (s)"), (BATCH, "epochs to target"),
    ]  # fmt: skip
