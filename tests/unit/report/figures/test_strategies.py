"""The map of strategies and workers: a row for each strategy, medians in its cells."""

from pathlib import Path

from dlbench.report.chart import Role
from dlbench.report.figures._table import TABLE
from dlbench.report.lines import ALONE
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import Row, base_line, repeats, run

chart = TABLE["strategies"].chart


def ways(**values: object) -> list[Row]:
    mpi = repeats(3, workers=2, strategy="mpi", samples_per_s=[150.0, 170.0, 160.0], **values)
    horovod = repeats(3, workers=4, strategy="horovod", samples_per_s=[290.0, 310.0, 300.0], **values)
    return mpi + horovod


ROWS = [*ways(), *base_line(3, samples_per_s=[90.0, 100.0, 110.0])]
SIZES = [
    row
    for size, rate in ((16, 10.0), (64, 20.0))
    for row in (*ways(batch_size=size), *base_line(1, batch_size=size, samples_per_s=rate))
]
CASES = (
    # The place of a cell is the number of its column.
    Case(
        "rows are ways and columns are workers where the batch does not vary", ROWS, num_runs=9,
        shows={"weak scaling": {ALONE: {0: 100}, "horovod": {2: 300}, "mpi": {1: see(150, 160, 170, value=160)}}},
    ),
    Case(
        "batch sizes are columns where they vary, each way is a row",
        [*SIZES, run(model="cnn", workers=2, batch_size=16)],
        {"mlp": {ALONE: {0: 10, 1: 20}, "horovod": ..., "mpi": {0: 160, 1: 160}}},
        titles=["mlp"], says=["Left out, with one strategy only: weak scaling, cnn"],
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)
    (panel,) = drawn(chart, *ways(extended_steps=9), tmp_path=tmp_path).panels
    assert {mark.flags for one in panel.series for mark in one.marks} == {"extended"}
    (panel,) = drawn(chart, *ROWS, tmp_path=tmp_path).panels
    assert (panel.form, panel.x.categories) == ("cells", ("1", "2", "4"))
    assert [one.role for one in panel.series] == [Role.BASE_LINE, Role.MEASURED, Role.MEASURED]
