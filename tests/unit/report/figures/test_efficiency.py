"""Efficiency is that of `dlbench.analysis.arms`, weak and strong apart, and unknown where no base line is equal."""

from pathlib import Path

from dlbench.analysis.statistics.intervals import ratio_interval
from dlbench.report.chart import Role
from dlbench.report.figures._reference_lines import WHOLE
from dlbench.report.figures._table import TABLE
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import Row, base_line, line, repeats

chart = TABLE["efficiency"].chart


def base(**values: object) -> list[Row]:
    return base_line(3, samples_per_s=[100.0, 110.0, 120.0], **values)


def two(**values: object) -> list[Row]:
    return repeats(3, workers=2, samples_per_s=[176.0, 198.0, 220.0], **values)


INTERVAL = ratio_interval([88.0, 99.0, 110.0], [100.0, 110.0, 120.0])
MODELS = [row for m in ("cnn", "lstm") for row in (*base(model=m), *two(model=m), *two(model=m, batch_scope="global"))]
EMULATED = [*base(), *two(), *two(emulated="oversubscribed")]
CASES = (
    Case(
        "a point is one run over the median of its base line", [*base(), *two()], num_runs=3,
        shows={"weak scaling": {WHOLE: {2: 1}, "mpi": {
            2: see(0.8, 0.9, 1.0, value=0.9, low=INTERVAL.low, high=INTERVAL.high, coverage=INTERVAL.coverage)}}},
    ),
    Case(
        "one worker that could communicate has one too",
        [*base(), *repeats(3, workers=1, samples_per_s=[88.0, 99.0, 110.0]), *two()],
        {0: {"mpi": {1: 0.9, 2: 0.9}, WHOLE: ...}},
    ),
    Case(
        "weak and strong scaling and models apart", MODELS,
        {f"{kind} scaling, {model}": {f"mpi, batch_scope={scope}": {2: 0.9}, WHOLE: ...}
         for kind, scope in (("strong", "global"), ("weak", "per-worker")) for model in ("cnn", "lstm")},
    ),
    Case(
        "emulated runs are not compared with real ones", EMULATED, {0: {"mpi": {2: 0.9}, WHOLE: ...}},
        says=["No efficiency, for lack of a base line with equal settings"],
    ),
    Case(
        "but with emulated ones", [*EMULATED, *base_line(3, samples_per_s=198.0, emulated="oversubscribed")],
        {0: {"mpi": {2: 0.9}, "mpi (emulated)": {2: 0.5}, WHOLE: ...}},
    ),
    Case(
        "arms that share a place keep their median alone",
        [*base(), *two(), *(row | {"run_id": f"other-r{n}", "evaluate_every": 2} for n, row in enumerate(two()))],
        {0: {"mpi": {2: see(0.8, 0.8, 0.9, 0.9, 1.0, 1.0, value=0.9, low=None)}, WHOLE: ...}},
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)
    (panel,) = drawn(chart, *base(), *two(), tmp_path=tmp_path).panels
    assert (panel.y.low, panel.y.high, panel.y.percent) == (0.0, 1.1, True)
    assert line(panel, WHOLE).role is Role.IDEAL
