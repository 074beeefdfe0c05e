"""Updates to a target, the 1/B line and the critical batch size."""

from pathlib import Path
from typing import Any

from dlbench.report.figures._table import TABLE
from tests.unit.report.figures.cases import Case, check_cases, see
from tests.unit.report.figures.makers import Row, run

chart = TABLE["steps_to_target"].chart

TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9}
SIZES = (16, 32, 64, 128, 256, 512)
IDEAL, FIT = "perfect scaling", "fit of mpi"


def planted(batch: int, least: int = 100, critical: int = 128) -> int:
    return least * (batch + critical) // batch


def took(updates: int | None, batch: int, **values: Any) -> Row:
    """Return a run of 10 epochs of 1000 steps, which reached its target after `updates` of them."""
    per_epoch = 1000 if updates is None else updates // 5
    epochs = None if updates is None else 5
    more = {"time_to_target_s": None if updates is None else 1.0, "epochs_to_target": epochs, "epochs_completed": 10}
    return run(**{**TARGET, "batch_size": batch, "steps": 10 * per_epoch, **more, **values})


def curve(**values: Any) -> list[Row]:
    return [took(planted(batch), batch, **values) for batch in SIZES]


UPDATES = {batch: planted(batch) for batch in SIZES}
PERFECT = {batch: 900 * 16 / batch for batch in SIZES}
SPREAD = [took(5 * (planted(b) // 5 + extra), b, repeat=n) for b in SIZES for n, extra in enumerate((-3, 0, 3))]
GRID = [took(900, 16, workers=1), took(505, 32, workers=1), took(500, 16, workers=2), took(300, 32, workers=2)]
CASES = (
    Case(
        "epochs become updates of the global batch", GRID,
        {0: {"mpi, 1 worker": {16: 900, 32: 505}, "mpi, 2 workers": {32: 500, 64: 300}, IDEAL: ...}},
    ),
    Case(
        "the fit finds what was planted, and perfect scaling goes through the smallest batch", curve(),
        {0: {"mpi": UPDATES, IDEAL: PERFECT, FIT: UPDATES}},
        says=["Critical batch of mpi: 128 samples, S_min 100 updates (fit of S = S_min (1 + B_c / B) to 6 runs",
              "residuals 0.0%)."],
    ),
    Case(
        "repeats give it an interval", SPREAD,
        says=["Critical batch of mpi: 129 [114, 146] samples", "to 18 runs"],
    ),
    Case(
        "batch sizes at which a run never arrived are not fitted",
        [*curve(), took(None, 512, repeat=1), took(5, 512, repeat=2)],
        {0: {"mpi": UPDATES | {512: see(5, planted(512), ended=(10_000,))}, IDEAL: ..., FIT: ...}},
        says=["Critical batch of mpi: 128 samples", "to 5 runs"],
    ),
    *(
        Case(
            "what cannot be told is said", [took(steps, batch) for batch, steps in updates.items()],
            {0: {"mpi": updates, IDEAL: ...}}, says=["Critical batch of mpi: not identifiable", why],
        )
        for updates, why in (
            ({16: 800, 32: 400}, "it needs 3 or more batch sizes"),
            ({16: 800, 32: 400, 64: 200, 128: 100}, "it lies above 128"),
            ({16: 200, 32: 200, 64: 200}, "it lies far below 16"),
        )
    ),
    Case(
        "a target that a batch reaches in a few evaluations tells nothing of how epochs depend on the batch",
        [took(planted(batch), batch, epochs_to_target=3 if batch == 16 else 5) for batch in SIZES],
        {0: {"mpi": ..., IDEAL: ...}},
        says=["Critical batch of mpi: not identifiable; at batch 16 the target is reached by evaluation 3: it takes 5"],
    ),
    Case(
        "models and targets have panels and fits of their own",
        [*curve(model="cnn"), *curve(model="lstm"), *curve(target_value=0.5, study="other")],
        {number: {"mpi": UPDATES, IDEAL: PERFECT, FIT: UPDATES} for number in range(3)},
        titles=["validation accuracy of at least 0.5", "validation accuracy of at least 0.9: cnn",
                "validation accuracy of at least 0.9: lstm"],
    ),
    Case(
        "emulated runs are fitted apart", [*curve(), *curve(emulated="simulated")],
        {0: dict.fromkeys(("mpi", "mpi (emulated)", IDEAL, FIT, f"{FIT} (emulated)"), ...)},
        says=["Critical batch of mpi, emulated:"],
    ),
    Case(
        "tuned learning rates", [took(400, 16, learning_rate_base=0.1), took(200, 32, learning_rate_base=0.3)],
        silent=["none was tuned"],
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)
