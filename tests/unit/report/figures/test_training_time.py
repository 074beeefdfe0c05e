"""Training time: what decides, against batch size wherever it varies, beside the samples seen."""

from pathlib import Path

from dlbench.report.figures._shown import UNEQUAL
from dlbench.report.figures._table import TABLE
from dlbench.report.lines import ALONE
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import Row, base_line, repeats, run

chart = TABLE["training_time"].chart


def two_sizes(**values: object) -> list[Row]:
    same = {"samples_seen": 5000, **values}
    return [
        *repeats(3, batch_size=16, train_time_s=[4.0, 2.0, 3.0], **same),
        *repeats(3, batch_size=64, train_time_s=[1.5, 1.0, 2.0], **same),
    ]


BASE = [base_line(2, batch_size=b, train_time_s=t, samples_seen=5000) for b, t in ((16, 5.0), (64, 4.0))]
CASES = (
    Case(
        "one line for each way, with every run and the median, and its base line",
        [*two_sizes(workers=2), *two_sizes(workers=4), *BASE[0], *BASE[1]], num_runs=16, titles=[""],
        shows={0: {"mpi, 2 workers": {16: see(2, 3, 4, value=3, low=2, high=4), 64: 1.5}, "mpi, 4 workers": ...,
                   ALONE: {16: 5, 64: 4}}},
    ),
    Case(
        "workers stand on x where the batch does not vary",
        [run(workers=w, train_time_s=t, samples_seen=9) for w, t in ((1, 4.0), (2, 3.0))],
        {0: {"mpi": {1: 4, 2: 3}}},
    ),
    Case(
        "both do where the workers make a curve", [row for w in (1, 2, 4) for row in two_sizes(workers=w)],
        {0: {"mpi, 1 worker": ..., "mpi, 2 workers": ..., "mpi, 4 workers": ...},
         1: {"mpi, batch 16": ..., "mpi, batch 64": ...}},
    ),
    Case(
        "the samples seen stand beside it where they differ",
        [*two_sizes(), run(batch_size=64, repeat=3, samples_seen=4900, train_time_s=1.5)],
        {1: {"mpi": {16: 5000, 64: 5000}}}, titles=["", ""],
    ),
    Case(
        "a model without a second arm is named", [*two_sizes(model="cnn"), run(model="resnet20", batch_size=16)],
        says=["Left out, without a second arm: resnet20."], num_runs=6,
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)
    equal, unequal = (drawn(chart, *two_sizes(**seen), tmp_path=tmp_path) for seen in ({}, {"samples_seen": None}))
    assert (equal.title, equal.lead, unequal.lead) == ("Training time by batch size", "", "")
    assert drawn(chart, *CASES[3].rows, tmp_path=tmp_path).lead == UNEQUAL


def test_batches_of_one_worker_and_of_all_never_share_a_panel(tmp_path: Path) -> None:
    # Mirrored counts all samples here: the scope follows from the strategy, and must still split the panels.
    rows = [*two_sizes(workers=2), *two_sizes(workers=2, batch_scope="global", strategy="mirrored")]
    panels = drawn(chart, *rows, tmp_path=tmp_path).panels
    assert [(one.title, one.x.label) for one in panels] == [
        ("batch of all workers", "batch size of all workers (samples)"),
        ("batch of one worker", "batch size of one worker (samples)"),
    ]
    assert all(len(one.series) == 1 and one.x.scale == "log2" for one in panels)
