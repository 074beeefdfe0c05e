"""Runs turned into series: what shares a panel, what is counted, what is never joined."""

from pathlib import Path

from dlbench.analysis.groups import ALONE, is_shared
from dlbench.report.chart import Axis, Panel, Role
from dlbench.report.data import ReportData
from dlbench.report.lines import MOST_SERIES, parts, series
from tests.unit.report.figures.makers import report_data

BATCH, RATE = Axis("batch size", "log2"), Axis("samples/s")


def numbered(tmp_path: Path, *rows: dict[str, object]) -> ReportData:
    """Return runs of two workers, each an arm of its own."""
    common = {"model": "cnn", "workers": 2}
    return report_data(*(common | {"run_id": f"a{n}-r0"} | row for n, row in enumerate(rows)), tmp_path=tmp_path)


def panels(found: ReportData) -> list[Panel]:
    made = [(part, series(part, "samples_per_s")) for part in parts(found.arms, x="batch_size")]
    return [Panel(part.title, BATCH, RATE, lines) for part, lines in made]


def test_emulated_and_real_runs_never_share_a_series(tmp_path: Path) -> None:
    rows = [{"samples_per_s": 1.0}, {"samples_per_s": 2.0, "emulated": "simulated;oversubscribed"}]
    (panel,) = panels(numbered(tmp_path, *rows))
    assert [(line.emulated, line.marks[0].points) for line in panel.series] == [
        ("", (1.0,)),
        ("oversubscribed;simulated", (2.0,)),
    ]


def test_base_lines_are_a_series_of_their_own_beside_their_arms(tmp_path: Path) -> None:
    base = {"baseline": True, "strategy": "single", "workers": 1}
    rows = [
        {"samples_per_s": 2.0, "precision": "float32"},
        {"samples_per_s": 3.0, "precision": "mixed_bfloat16"},
        base | {"samples_per_s": 1.0, "precision": "float32"},
        base | {"samples_per_s": 1.5, "precision": "mixed_bfloat16"},
    ]
    (panel,) = panels(numbered(tmp_path, *rows))
    assert [(line.label, line.role) for line in panel.series] == [
        ("mpi, float32", Role.MEASURED),
        ("mpi, mixed_bfloat16", Role.MEASURED),
        (f"{ALONE}, float32", Role.BASE_LINE),
        (f"{ALONE}, mixed_bfloat16", Role.BASE_LINE),
    ]


def test_a_way_has_one_name_whether_one_worker_alone_was_asked_for_or_added(tmp_path: Path) -> None:
    ways = [{"workers": w, "batch_size": b, "samples_per_s": 1.0} for w in (1, 2) for b in (8, 16)]
    for added in (True, False):
        alone = [{"strategy": "single", "workers": 1, "batch_size": b, "baseline": added} for b in (8, 16)]
        (panel,) = panels(numbered(tmp_path, *ways, *(one | {"samples_per_s": 1.0} for one in alone)))
        assert [line.label for line in panel.series] == ["mpi, 1 worker", "mpi, 2 workers", ALONE], added


def test_base_lines_go_with_the_task_they_belong_to(tmp_path: Path) -> None:
    base = {"baseline": True, "strategy": "single", "workers": 1, "samples_per_s": 1.0}
    rows = [{"samples_per_s": 2.0}, {"samples_per_s": 3.0, "model": "lstm"}, base, base | {"model": "lstm"}]
    found = panels(numbered(tmp_path, *rows))
    assert [[line.label for line in panel.series] for panel in found] == [["mpi", ALONE]] * 2


def test_more_series_than_can_be_told_apart_become_panels(tmp_path: Path) -> None:
    rows = [
        {"samples_per_s": 1.0, "batch_size": 2**b, "strategy": strategy, "workers": w}
        for b in range(6)
        for strategy in ("mpi", "horovod", "mirrored")
        for w in (1, 2, 4)
    ]
    found = parts(numbered(tmp_path, *rows).arms, x="batch_size")
    assert len(found) == 3
    assert all(len(series(part, "samples_per_s")) <= MOST_SERIES for part in found)
    assert sum(len(part.arms) for part in found) == len(rows)


def test_what_nobody_measured_has_no_series(tmp_path: Path) -> None:
    found = numbered(tmp_path, {"samples_per_s": 1.0})
    (part,) = parts(found.arms, x="batch_size")
    assert series(part, "energy_j") == ()


def test_series_that_one_setting_alone_distinguishes_are_shared_out_over_few_panels(tmp_path: Path) -> None:
    names = [f"strategy{number:02}" for number in range(12)]
    rows = [{"strategy": name, "samples_per_s": 1.0} for name in names]
    base = {"baseline": True, "strategy": "single", "workers": 1, "samples_per_s": 1.0}
    found = panels(numbered(tmp_path, *rows, base))
    assert [panel.title for panel in found] == ["1 of 2", "2 of 2"]
    assert [[line.label for line in panel.series] for panel in found] == [[*names[:6], ALONE], [*names[6:], ALONE]]


def test_names_say_the_strategy_that_all_runs_have_and_one_worker_alone_needs_none(tmp_path: Path) -> None:
    (panel,) = panels(numbered(tmp_path, *({"workers": w, "samples_per_s": 1.0} for w in (2, 4))))
    assert [line.label for line in panel.series] == ["mpi, 2 workers", "mpi, 4 workers"]
    alone = {"strategy": "single", "workers": 1, "samples_per_s": 1.0}
    (panel,) = panels(numbered(tmp_path, *(alone | {"batch_size": size} for size in (8, 16))))
    assert [line.label for line in panel.series] == [ALONE]


def test_what_a_base_line_shares_with_its_arms() -> None:
    assert [is_shared(key) for key in ("batch_size", "workers", "strategy.groups")] == [True, False, False]
