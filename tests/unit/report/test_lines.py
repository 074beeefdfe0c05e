"""Runs turned into series: what shares a panel, what is counted, what is never joined."""

from pathlib import Path

from dlbench.analysis.groups import ALONE, is_shared
from dlbench.report.chart import Role, Series
from dlbench.report.data import ReportData
from dlbench.report.lines import MOST_SERIES, parts, series
from tests.unit.report.figures.makers import Row, report_data

BASE = {"baseline": True, "strategy": "single", "workers": 1}
WAYS = [{"workers": w, "batch_size": b} for w in (1, 2) for b in (8, 16)]
PRECISIONS = ("float32", "mixed_bfloat16")
NAMES = [f"strategy{number:02}" for number in range(12)]
# Rows of two workers each, and the labels of the series of each part.
CASES: tuple[tuple[list[Row], list[list[str]]], ...] = (
    # Base lines are series of their own beside their arms, and go with the task they belong to.
    (
        [{**base, "precision": precision} for base in ({}, BASE) for precision in PRECISIONS],
        [[f"{name}, {precision}" for name in ("mpi", ALONE) for precision in PRECISIONS]],
    ),
    ([{}, {"model": "lstm"}, BASE, BASE | {"model": "lstm"}], [["mpi", ALONE]] * 2),
    ([{"imported.layers": 9}, {"imported.layers": 18}], [["mpi"]] * 2),
    # A way has one name, whether one worker alone was asked for or added.
    *(
        (
            [*WAYS, *(BASE | {"batch_size": size, "baseline": added} for size in (8, 16))],
            [["mpi, 1 worker", "mpi, 2 workers", ALONE]],
        )
        for added in (True, False)
    ),
    # Names say the strategy that all runs have; one worker alone needs none.
    ([{"workers": 2}, {"workers": 4}], [["mpi, 2 workers", "mpi, 4 workers"]]),
    ([BASE | {"batch_size": size, "baseline": False} for size in (8, 16)], [[ALONE]]),
    # Series that one setting alone distinguishes are shared out over few panels.
    ([*({"strategy": name} for name in NAMES), BASE], [[*NAMES[:6], ALONE], [*NAMES[6:], ALONE]]),
)


def numbered(tmp_path: Path, *rows: Row) -> ReportData:
    """Return runs of two workers, each an arm of its own."""
    common = {"model": "cnn", "workers": 2, "samples_per_s": 1.0}
    return report_data(*(common | {"run_id": f"a{n}-r0"} | row for n, row in enumerate(rows)), tmp_path=tmp_path)


def panels(found: ReportData) -> list[tuple[Series, ...]]:
    return [series(part, "samples_per_s") for part in parts(found.arms, x="batch_size")]


def test_what_shares_a_panel_and_what_it_is_called(tmp_path: Path) -> None:
    for rows, labels in CASES:
        assert [[line.label for line in lines] for lines in panels(numbered(tmp_path, *rows))] == labels
    titles = [part.title for part in parts(numbered(tmp_path, *CASES[-1][0]).arms, x="batch_size")]
    assert titles == ["1 of 2", "2 of 2"]
    (lines,) = panels(numbered(tmp_path, {}, BASE, {"emulated": "simulated;oversubscribed"}))
    assert [(line.role, line.emulated) for line in lines] == [
        (Role.MEASURED, ""), (Role.MEASURED, "oversubscribed;simulated"), (Role.BASE_LINE, ""),
    ]  # fmt: skip


def test_more_series_than_can_be_told_apart_become_panels(tmp_path: Path) -> None:
    rows = [
        {"batch_size": 2**b, "strategy": strategy, "workers": w}
        for b in range(6)
        for strategy in ("mpi", "horovod", "mirrored")
        for w in (1, 2, 4)
    ]
    found = parts(numbered(tmp_path, *rows).arms, x="batch_size")
    assert len(found) == 3
    assert all(len(series(part, "samples_per_s")) <= MOST_SERIES for part in found)
    assert sum(len(part.arms) for part in found) == len(rows)
    assert series(found[0], "energy_j") == ()


def test_what_a_base_line_shares_with_its_arms() -> None:
    assert [is_shared(key) for key in ("batch_size", "workers", "strategy.groups")] == [True, False, False]
