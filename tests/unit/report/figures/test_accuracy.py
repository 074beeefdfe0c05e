"""Whether more workers cost accuracy."""

from pathlib import Path

from dlbench.report.figures._table import TABLE
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import repeats, run

chart = TABLE["accuracy"].chart

ONE = repeats(3, workers=1, validation_accuracy=[0.9, 0.94, 0.92], train_loss=[0.1, 0.2, 0.3])
TWO = repeats(3, workers=2, validation_accuracy=[0.8, 0.84, 0.82], train_loss=[0.4, 0.5, 0.6])
INTERVAL = see(0.8, 0.82, 0.84, value=0.82, low=0.8, high=0.84, n=3)

CASES = (
    Case(
        "every run, its median and interval", ONE + TWO,
        {0: {"mpi": {1: 0.92, 2: INTERVAL}}, 3: {"mpi": {1: 0.2, 2: 0.5}}},
        says=["the global batch grows with the workers"], num_runs=6,
    ),
    Case("a global batch does not grow", [run(workers=w, batch_scope="global") for w in (1, 2)], silent=["grows"]),
    Case("divided epochs", [run(workers=w, divide="epochs") for w in (1, 2)], says=["passes over all samples"]),
    Case(
        "a task with one arm",
        [run(model="cnn", workers=1), run(model="cnn", workers=2), run(model="lstm")],
        titles=["cnn"] * 4, says=["Left out, without a second arm: lstm."], num_runs=2,
    ),
    Case(
        "random numbers", [run(workers=w, input=i) for w in (1, 2) for i in ("mapped", "synthetic")],
        says=["2 runs on synthetic input left out"], num_runs=2,
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)
    assert [panel.y.label for panel in drawn(chart, *ONE, *TWO, tmp_path=tmp_path).panels] == [
        "validation accuracy", "validation loss (nats)", "training accuracy", "training loss (nats)",
    ]  # fmt: skip
