"""Captions say how many runs, what marks mean, on what hardware, what is emulated, what failed; of shown runs alone."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlbench.analysis.intervals import Interval
from dlbench.records.tables import write_table
from dlbench.report.caption import caption
from dlbench.report.chart import Chart, Mark, Role, Series
from dlbench.report.evidence import Evidence, read
from tests.unit.report.charts import HOSTILE, bars, cells, line_mark, lines, mark

MACHINE = {
    "cpu": {"model": "AMD EPYC", "usable_cpus": 2},
    "gpus": [{"name": "Tesla T4"}, {"name": "Tesla T4"}],
    "virtualisation": {"virtual_machine": True},
}
ROW = {
    "attempt": 1, "status": "completed", "device_name": "AMD EPYC", "hosts": 1, "cores_per_worker": 1.0,
    "dlbench_version": "0.1.0", "python_version": "3.11.7", "numpy_version": "2.4.6", "mpi_version": "Open MPI 5.0.11",
}  # fmt: skip


def evidence(folder: Path, *rows: Mapping[str, Any], machine: object = MACHINE) -> Evidence:
    folder.mkdir(exist_ok=True)
    full = [ROW | {"study": folder.name, "run_id": f"arm-r{number}"} | dict(row) for number, row in enumerate(rows)]
    write_table(folder / "runs.csv", "runs", full)
    (folder / "machine.json").write_text(json.dumps(machine))
    return read([folder])


def series(*marks: Mark, **settings: Any) -> Series:
    return Series("mpi", marks, **settings)


def test_repeats_intervals_hardware_and_versions(tmp_path: Path) -> None:
    chart = lines(series(mark(1, 1.0, 2.0, 3.0), mark(2, 1.0, 2.0, 3.0, 4.0, 5.0)))
    found = caption(chart, evidence(tmp_path / "s", {}, {}))
    assert found == (
        "Large markers are medians of 3 to 5 repeats; small dots are single runs; vertical bars hold the true value "
        "with a probability of at least 75%. "
        "Hardware: AMD EPYC, 2 logical CPUs usable, 2 x Tesla T4, a virtual machine; 1 host; 1 core per worker. "
        "Versions: dlbench 0.1.0, Python 3.11.7, NumPy 2.4.6, Open MPI 5.0.11."
    )


def test_five_repeats_have_one_number(tmp_path: Path) -> None:
    chart = lines(series(mark(1, *map(float, range(5))), mark(2, *map(float, range(5)))))
    found = caption(chart, evidence(tmp_path / "s", {}))
    assert "medians of 5 repeats;" in found
    assert "at least 93%" in found


def test_one_repeat_has_no_interval(tmp_path: Path) -> None:
    found = caption(lines(series(mark(1, 1.0))), evidence(tmp_path / "s", {}))
    assert found.startswith("One repeat at each place: there are no intervals.")
    assert "probability" not in found


def test_lines_without_runs_say_nothing_of_repeats(tmp_path: Path) -> None:
    found = caption(lines(series(line_mark(1, 1.0), role=Role.PUBLISHED)), evidence(tmp_path / "s", {}))
    assert "repeat" not in found


def test_intervals_without_points_are_counted_by_their_runs(tmp_path: Path) -> None:
    chart = lines(series(Mark(1, interval=Interval(2.0, 1.0, 3.0, 12, 0.95))))
    found = caption(chart, evidence(tmp_path / "s", {}))
    assert "medians of 12 repeats" in found
    assert "at least 95%" in found
    assert "dots" not in found


def test_bars_and_cells_are_called_what_they_are(tmp_path: Path) -> None:
    rows = evidence(tmp_path / "s", {})
    assert caption(bars(), rows).startswith("Parts of bars are medians of 2 to 3 repeats")
    assert caption(cells(), rows).startswith("Cells are medians of 1 to 3 repeats.")


def test_failed_runs_are_counted_by_status(tmp_path: Path) -> None:
    rows = evidence(tmp_path / "s", {}, {"status": "failed"}, {"status": "timeout"}, {"status": "failed"})
    found = caption(lines(series(mark(1, 1.0, failed=3))), rows)
    assert "3 of 4 runs did not complete (crosses): 2 failed, 1 timeout." in found
    assert "3 of 4 runs did not complete: 2 failed" in caption(cells(series=(series(mark(1, 1.0)),)), rows)


def test_crosses_of_runs_that_the_chart_does_not_name_are_explained(tmp_path: Path) -> None:
    found = caption(lines(series(mark(1, 1.0, failed=1))), evidence(tmp_path / "s", {}))
    assert "Crosses count runs that did not complete." in found


def test_only_the_runs_of_the_chart_count(tmp_path: Path) -> None:
    rows = evidence(tmp_path / "s", {}, {"status": "failed", "device_name": "Other", "numpy_version": "1.0"})
    chart = replace(lines(series(mark(1, 1.0))), runs=frozenset({("s", "arm-r0")}))
    found = caption(chart, rows)
    assert "did not complete" not in found
    assert "Other" not in found
    assert "NumPy 2.4.6" in found


def test_versions_that_differ_are_said(tmp_path: Path) -> None:
    found = caption(lines(), evidence(tmp_path / "s", {}, {"numpy_version": "2.5.0"}))
    assert "The runs had different versions of NumPy: 2.4.6, 2.5.0." in found
    assert "NumPy 2.4.6" not in found


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        ("oversubscribed", "less than a core of their own"),
        ("logical-devices;throttled-link", "slowed down on purpose"),
        ("of-tomorrow", "(of-tomorrow)"),
    ],
)
def test_emulation_is_explained(reasons: str, words: str, tmp_path: Path) -> None:
    found = caption(lines(series(mark(1, 1.0), emulated=reasons)), evidence(tmp_path / "s", {}, {"emulated": reasons}))
    assert "Emulated, no real hardware at work: 1 of 2 runs: " in found
    assert words in found
    assert "Emulated" not in caption(lines(series(mark(1, 1.0))), evidence(tmp_path / "t", {}))


def test_ended_runs_are_explained(tmp_path: Path) -> None:
    found = caption(lines(series(mark(1, 1.0, ended=(2.0,)))), evidence(tmp_path / "s", {}))
    assert "Open triangles are runs that ended before: their value is at least that." in found


@pytest.mark.parametrize("machine", [None, [], {"cpu": 7}, {"gpus": [None, {}]}, {"cpu": {"usable_cpus": "many"}}])
def test_a_damaged_machine_is_no_error(machine: object, tmp_path: Path) -> None:
    found = caption(lines(), evidence(tmp_path / "s", {"hosts": 2, "cores_per_worker": 0.5}, machine=machine))
    assert "AMD EPYC" in found
    assert "2 hosts; 0.5 cores per worker." in found


def test_hosts_that_share_a_machine_are_told(tmp_path: Path) -> None:
    found = caption(lines(), evidence(tmp_path / "s", {"hosts": 2, "machines": 1}))
    assert "2 hosts that share a machine" in found
    assert "share" not in caption(lines(), evidence(tmp_path / "t", {"hosts": 2, "machines": 2}))


def test_nothing_known_is_nothing_said(tmp_path: Path) -> None:
    bare = dict.fromkeys(set(ROW) - {"attempt", "status"})
    assert caption(Chart("x", ()), evidence(tmp_path / "s", bare, machine=None)) == ""


def test_notes_come_last_as_sentences_in_one_line(tmp_path: Path) -> None:
    chart = replace(lines(), notes=("A note", "Another one.", "", *HOSTILE))
    found = caption(chart, evidence(tmp_path / "s", {}))
    assert " A note. Another one. <script>alert(1)</script>. " in found
    assert "\n" not in found
    assert "\x00" not in found
