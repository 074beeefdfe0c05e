"""Series with values that are only known to be at least so much."""

from pathlib import Path
from typing import Any

from dlbench.report.chart import Role
from dlbench.report.lines import Part, censored_series
from tests.unit.report.figures.makers import base_line, repeats, report_data, run


def part(*rows: dict[str, Any], tmp_path: Path, keys: tuple[str, ...] = ()) -> Part:
    runs = report_data(*rows, tmp_path=tmp_path).runs
    late = runs["train_time_s"].where(runs["time_to_target_s"].isna())
    return Part("", runs.assign(late=late), keys)


def test_every_run_is_a_point_or_has_ended_or_failed(tmp_path: Path) -> None:
    rows = [
        *repeats(3, batch_size=8, time_to_target_s=[3.0, 1.0, None], train_time_s=[9.0, 9.0, 9.5]),
        run(batch_size=8, repeat=3, status="stalled"),
        *repeats(2, batch_size=16, time_to_target_s=[None, None], train_time_s=[7.0, 8.0]),
    ]
    (line,) = censored_series(part(*rows, tmp_path=tmp_path), "batch_size", "time_to_target_s", "late")
    first, second = line.marks
    assert (first.x, sorted(first.points), first.ended, first.num_failed) == (8, [1, 3], (9.5,), 1)
    assert first.interval is not None
    assert (first.interval.value, first.interval.high) == (3, None)
    assert (second.x, second.points, second.ended, second.interval) == (16, (), (7, 8), None)


def test_emulated_runs_and_base_lines_stay_apart(tmp_path: Path) -> None:
    rows = [
        run(time_to_target_s=2.0, workers=2),
        run(time_to_target_s=None, train_time_s=5.0, workers=2, emulated="simulated", run_id="other-r0"),
        *base_line(time_to_target_s=4.0),
    ]
    found = censored_series(part(*rows, tmp_path=tmp_path), "workers", "time_to_target_s", "late")
    assert [(one.role, one.emulated, one.marks[0].points, one.marks[0].ended) for one in found] == [
        (Role.MEASURED, "", (2,), ()),
        (Role.MEASURED, "simulated", (), (5,)),
        (Role.BASE_LINE, "", (4,), ()),
    ]


def test_an_arm_of_which_none_reached_it_is_not_lost(tmp_path: Path) -> None:
    rows = [run(strategy="mpi", time_to_target_s=2.0), run(strategy="horovod", time_to_target_s=None, train_time_s=3.0)]
    found = censored_series(part(*rows, tmp_path=tmp_path, keys=("strategy",)), "workers", "time_to_target_s", "late")
    assert {one.label: (one.marks[0].points, one.marks[0].ended) for one in found} == {
        "horovod": ((), (3,)),
        "mpi": ((2,), ()),
    }
