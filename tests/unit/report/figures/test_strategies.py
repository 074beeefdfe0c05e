"""The map of strategies and workers: a row for each strategy, medians in its cells."""

from pathlib import Path

from dlbench.report.chart import Role
from dlbench.report.figures.strategies import chart
from dlbench.report.lines import ALONE
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import Row, base_line, repeats, run


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
        "rows are strategies and columns are workers", ROWS, num_runs=9,
        shows={"weak scaling": {ALONE: {0: 100}, "horovod": {2: 300}, "mpi": {1: see(150, 160, 170, value=160)}}},
    ),
    Case(
        "algorithms are rows", [run(workers=2, algorithm=name) for name in ("auto", "own-ring")],
        {0: {"auto": ..., "own-ring": ...}},
    ),
    Case(
        "options are rows", [run(workers=2, **{"strategy.chunk_bytes": size}) for size in (4, 8)],
        {0: {"strategy.chunk_bytes=4": ..., "strategy.chunk_bytes=8": ...}},
    ),
    Case(
        "models, batch sizes and scopes have maps apart, each with its base line",
        [*SIZES, *ways(batch_size=16, batch_scope="global"), run(model="cnn", batch_size=16)],
        {1: {ALONE: {0: 10}, "horovod": ..., "mpi": ...}, 2: {ALONE: {0: 20}, "horovod": ..., "mpi": ...}},
        titles=["strong scaling, mlp, batch 16", "weak scaling, mlp, batch 16", "weak scaling, mlp, batch 64"],
        says=["Left out, with one strategy only: weak scaling, cnn, batch 16."],
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)
    (panel,) = drawn(chart, *ROWS, tmp_path=tmp_path).panels
    assert (panel.form, panel.x.categories) == ("cells", ("1", "2", "4"))
    assert [one.role for one in panel.series] == [Role.BASE_LINE, Role.MEASURED, Role.MEASURED]
