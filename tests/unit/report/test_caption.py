"""Captions say how many runs, what marks mean, on what hardware, what is emulated, what failed; of shown runs alone."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from dlbench.analysis.statistics.intervals import Interval
from dlbench.report.caption import caption
from dlbench.report.chart import Axis, Chart, Mark, Role, Series
from dlbench.report.data import ReportData, StudyData
from tests.unit.report.charts import HOSTILE, bars, cells, line_mark, lines, mark
from tests.unit.report.figures.makers import typed

ROW = {
    "attempt": 1, "status": "completed", "device_name": "AMD EPYC", "hosts": 1, "cores_per_worker": 1.0,
    "dlbench_version": "0.1.0", "python_version": "3.11.7", "numpy_version": "2.4.6", "mpi_version": "Open MPI 5.0.11",
}  # fmt: skip


def report_data(folder: Path, *rows: Mapping[str, Any]) -> ReportData:
    full = [ROW | {"study": folder.name, "run_id": f"arm-r{number}"} | dict(row) for number, row in enumerate(rows)]
    return ReportData((StudyData(folder, folder.name, tuple(typed(full)), "", {}),))


def series(*marks: Mark, **settings: Any) -> Series:
    return Series("mpi", marks, **settings)


def test_what_is_shown_and_what_is_folded_away(tmp_path: Path) -> None:
    chart = lines(series(mark(1, 1.0, 2.0, 3.0), mark(2, 1.0, 2.0, 3.0, 4.0, 5.0)))
    assert caption(replace(chart, lead="Read this"), report_data(tmp_path / "s", {})) == (
        "Read this. Markers: medians of 3 to 5 repeats; dots: runs; bars: intervals (coverage at least 75%). AMD EPYC.",
        "Hardware: AMD EPYC; 1 host; 1 core per worker.",
    )


def test_flags_of_the_minority_have_rings_and_others_are_counted(tmp_path: Path) -> None:
    marks = [
        replace(mark(x, 1.0, 2.0), flags=flags) for x, flags in enumerate(("extended;unsteady", "extended", "", "", ""))
    ]
    # A run counts once, in however many panels its arm is drawn.
    chart = lines(series(*marks))
    chart, both = replace(chart, panels=chart.panels * 2), {"extended_steps": 9, "samples_per_s": 1.0}
    data = report_data(tmp_path / "s", both | {"rate_drift": 0.2}, both, *[{"samples_per_s": 1.0}] * 5)
    text, _ = caption(chart, data)
    assert "2 of 7 runs were timed in steps added after training (ringed)." in text
    assert "1 of 7 runs had a rate that was not steady (ringed)." in text
    text, _ = caption(cells(series=(replace(series(*marks), emulated="simulated"),)), data)
    assert "not steady (*)." in text
    assert "(hollow)" not in text
    # What is no result is ringed unless all are.
    missed = {"target_value": 0.9, "time_to_target_s": None}
    missing = report_data(tmp_path / "u", missed, missed, missed | {"time_to_target_s": 2.0})
    late = [replace(mark(x, 1.0), flags="missed" * (x < 2)) for x in range(3)]
    assert "2 of 3 runs did not reach their target (ringed)." in caption(lines(series(*late)), missing)[0]
    assert "2 of 3 runs did not reach their target." in caption(lines(series(*late[:2])), missing)[0]
    text, _ = caption(lines(series(*marks[:2])), report_data(tmp_path / "t", both, both))
    assert "All runs were timed in steps added after training." in text


def test_notes_come_last_as_sentences_in_one_line(tmp_path: Path) -> None:
    chart = replace(lines(), notes=("A note", "Another one.", "", *HOSTILE))
    _, found = caption(chart, report_data(tmp_path / "s", {}))
    assert " A note. Another one. <script>alert(1)</script>. " in found
    assert "\n" not in found
    assert "\x00" not in found


FAILED, OTHER = {"status": "failed"}, {"status": "failed", "device_name": "Other", "numpy_version": "1.0"}
ONE = mark(1, 1.0)
(PAIRS,), (TRIPLES,) = (lines(series(mark(1, *points))).panels for points in ((1.0, 2.0), (1.0, 2.0, 3.0)))
FIRST = frozenset({("s", "arm-r0")})
HALF = {"cores_per_worker": 0.5, "cores_enforced": "quota"}
# The details alone have what makers add to a name.
INTEL = "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz"
# The chart, its rows, what its caption holds, and what it does not.
CAPTIONS: tuple[tuple[Chart, list[dict[str, Any]], tuple[str, ...], tuple[str, ...]], ...] = (
    (lines(series(ONE)), [{}], ("One repeat at each place: there are no intervals.",), ("intervals (", "Emulated")),
    (lines(series(line_mark(1, 1.0), role=Role.PUBLISHED)), [{}], (), ("repeat",)),
    (lines(series(Mark(1, interval=Interval(2.0, 1.0, 3.0, 12, 0.95)))), [{}],
     ("medians of 12 repeats", "at least 95%"), ("dots",)),
    (bars(), [{}], ("Strokes: medians of 2 to 3 repeats",), ()),
    (cells(), [{}], ("Cells: medians of 1 to 3 repeats.",), ()),
    (replace(lines(), panels=(PAIRS, TRIPLES, replace(TRIPLES, y=Axis("rate / first (1)")))), [{}],
     ("bars: intervals (coverage at least 50%; 75% for rate / first).",), ("for throughput",)),
    (lines(series(mark(1, 1.0, failed=3))), [{}, FAILED, {"status": "timeout"}, FAILED],
     ("3 of 4 runs did not complete (crosses): 2 failed, 1 timeout.",), ()),
    (cells(series=(series(ONE),)), [{}, FAILED], ("1 of 2 runs did not complete: 1 failed",), ("crosses",)),
    (replace(lines(series(ONE)), runs=FIRST), [{}, OTHER], ("AMD EPYC",), ("did not complete", "Other")),
    (lines(), [{}, {"numpy_version": "2.5.0"}], ("The runs had different versions of NumPy: 2.4.6, 2.5.0.",),
     ("Python",)),
    (lines(series(ONE, emulated="oversubscribed")), [{}, {"emulated": "oversubscribed"}],
     ("Emulated, not representative hardware: 1 of 2 runs: ", "less than a core of their own"), ()),
    (lines(series(ONE, emulated="simulated")), [{"emulated": "of-tomorrow"}], ("(of-tomorrow)",), ()),
    (lines(series(mark(1, 1.0, ended=(2.0,)))), [{}], ("Open triangles are runs that ended before",), ()),
    (lines(series(mark(1, 1.0, ended=(inf,)))), [{}, {"target_value": 0.9}],
     ("1 of 2 runs did not reach their target.",), ("triangles", "ringed")),
    (lines(), [{"hosts": 2, "machines": 1}], ("2 hosts that share a machine",), ()),
    (lines(), [{"hosts": 2, "machines": 2}], ("2 hosts",), ("share",)),
    (lines(), [{"device_name": INTEL}], ("Intel Core i7-8700 @ 3.20GHz.", f"Hardware: {INTEL}"), ()),
    (lines(), [{}, {"device_name": "B"}], ("AMD EPYC and 1 other device.",), ()),
    (lines(), [{}, {"device_name": "B"}, {"device_name": "C"}], ("AMD EPYC and 2 other devices.",), ()),
    (lines(), [HALF, HALF], ("0.5 cores per worker (2 of 2 runs by a CPU quota).",), ()),
    (lines(), [HALF, {"cores_enforced": "affinity"}], ("0.5 to 1 cores per worker (1 of 2 runs by a CPU",), ()),
)  # fmt: skip


def test_a_caption_explains_what_is_in_the_chart_and_nothing_else(tmp_path: Path) -> None:
    for number, (chart, rows, there, absent) in enumerate(CAPTIONS):
        found = " ".join(caption(chart, report_data(tmp_path / str(number) / "s", *rows)))
        assert [text for text in there if text not in found] == [], (number, found)
        assert [text for text in absent if text in found] == [], (number, found)
    bare = dict.fromkeys(set(ROW) - {"attempt", "status"})
    assert caption(Chart("x", ()), report_data(tmp_path / "s", bare)) == ("", "")
