"""Utilisation and memory against batch size."""

from pathlib import Path
from typing import Any

import pytest

from dlbench.report.chart import Chart, Lacking, Role
from dlbench.report.figures.devices_by_batch import chart
from tests.unit.report.figures import real
from tests.unit.report.figures.makers import base_line, evidence, repeats, run

GIB = 2**30


def drawn(*rows: dict[str, Any], tmp_path: Path) -> Chart:
    found = evidence(*rows, tmp_path=tmp_path)
    made = chart(found)
    real.check(made, found)
    return made


def test_shares_and_gibibytes_at_each_batch_size(tmp_path: Path) -> None:
    made = drawn(
        *repeats(3, batch_size=8, device_utilization=[0.5, 0.7, 0.6], host_memory_peak_bytes=[GIB, GIB, GIB]),
        *repeats(3, batch_size=16, device_utilization=[0.8, 0.9, 0.85], host_memory_peak_bytes=[GIB, 3 * GIB, 2 * GIB]),
        tmp_path=tmp_path,
    )
    utilisation, memory = made.panels
    assert (utilisation.y.percent, utilisation.x.label, utilisation.x.scale) == (
        True, "batch size of one worker (samples)", "log2",
    )  # fmt: skip
    assert [mark.x for mark in utilisation.series[0].marks] == [8, 16]
    medians = [mark.interval.value for mark in utilisation.series[0].marks if mark.interval]
    assert medians == [0.6, 0.85]
    assert memory.y.label == "most host memory of one worker (GiB)"
    assert sorted(memory.series[0].marks[1].points) == [1, 2, 3]


def test_memory_of_devices_is_shown_where_it_is_known(tmp_path: Path) -> None:
    rows = [run(batch_size=b, device_memory_peak_bytes=b * GIB) for b in (8, 16)]
    made = drawn(*rows, tmp_path=tmp_path)
    assert made.columns == 3
    assert [mark.points for mark in made.panels[1].series[0].marks] == [(8,), (16,)]


def test_models_and_what_a_batch_counts_have_panels_of_their_own(tmp_path: Path) -> None:
    rows = [run(model=m, batch_size=b) for m in ("cnn", "lstm") for b in (8, 16)]
    made = drawn(*rows, *(run(batch_size=b, batch_scope="global") for b in (32, 64)), tmp_path=tmp_path)
    assert [(panel.title, panel.x.label) for panel in made.panels[::2]] == [
        ("", "batch size of all workers (samples)"),
        ("cnn", "batch size of one worker (samples)"),
        ("lstm", "batch size of one worker (samples)"),
    ]


def test_emulated_runs_and_base_lines_have_lines_of_their_own(tmp_path: Path) -> None:
    rows = [run(batch_size=b, workers=2, emulated=e) for b in (8, 16) for e in (None, "simulated")]
    made = drawn(*rows, *base_line(batch_size=8), tmp_path=tmp_path)
    assert [(one.role, one.emulated) for one in made.panels[0].series] == [
        (Role.MEASURED, ""), (Role.MEASURED, "simulated"), (Role.BASE_LINE, ""),
    ]  # fmt: skip


def test_failed_runs_are_counted_and_one_repeat_has_no_interval(tmp_path: Path) -> None:
    rows = [run(batch_size=8), run(batch_size=16), run(batch_size=32, status="out-of-memory")]
    made = drawn(*rows, tmp_path=tmp_path)
    marks = made.panels[0].series[0].marks
    assert [(mark.x, mark.num_failed) for mark in marks] == [(8, 0), (16, 0), (32, 1)]
    assert marks[0].interval is not None
    assert marks[0].interval.low is None


def test_disturbances_are_said_where_they_are_not_near_zero(tmp_path: Path) -> None:
    rows = [run(batch_size=8, steal_fraction=0.05, workers=2), run(batch_size=16, steal_fraction=0.002, workers=2)]
    notes = " ".join(drawn(*rows, tmp_path=tmp_path).notes)
    assert "In 1 of 2 runs the hypervisor took more than 1% of the processors' time, at most 5.0%." in notes
    assert "observing" not in notes
    # 0.3 s of 2 workers x 1 core x 5 s.
    rows = [run(batch_size=b, observer_cpu_s=0.3, workers=2) for b in (8, 16)]
    notes = " ".join(drawn(*rows, tmp_path=tmp_path).notes)
    assert "In 2 of 2 runs dlbench's own observing threads took more than 1%" in notes
    assert "at most 3.0%." in notes
    assert "hypervisor" not in notes


def test_shares_that_are_unknown_are_no_disturbance(tmp_path: Path) -> None:
    unknown = {"steal_fraction": None, "observer_cpu_s": None, "timed_window_s": None, "timed_steps": None}
    notes = drawn(run(batch_size=8, **unknown), run(batch_size=16, **unknown), tmp_path=tmp_path).notes
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("rows", "missing"),
    [
        ([run(batch_size=8, status="failed"), run(batch_size=16, status="failed")], "peaks of device and host memory"),
        ([run(batch_size=32), run(batch_size=32, repeat=1)], "there is 32 only"),
        ([run(batch_size=8), run(batch_size=16, status="failed")], "there is 8 only"),
        ([run(batch_size=8, model="cnn"), run(batch_size=16, model="lstm")], "equal in all else"),
    ],
)
def test_what_is_missing_is_named(rows: list[dict[str, Any]], missing: str, tmp_path: Path) -> None:
    with pytest.raises(Lacking, match=missing):
        chart(evidence(*rows, tmp_path=tmp_path))


@pytest.mark.parametrize("name", ["cifar10", "digits"])
def test_the_studies_of_the_repository(name: str) -> None:
    found = real.study(name)
    made = chart(found)
    real.check(made, found)
    points = {
        p for panel in made.panels[:: made.columns] for one in panel.series for mark in one.marks for p in mark.points
    }
    assert points == set(found.completed["device_utilization"])


@pytest.mark.parametrize("name", ["dividing", "fixture"])
def test_studies_with_one_batch_size_lack_another(name: str) -> None:
    with pytest.raises(Lacking, match=r"there is (32|256) only"):
        chart(real.study(name))
