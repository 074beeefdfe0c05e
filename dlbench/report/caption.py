"""The text under a figure: what a reader must know in two or three lines, and all else as details."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from dlbench.analysis.arms import Row, distinct, emulation, flags_of
from dlbench.analysis.formatting import counted, joined, listed, one_line
from dlbench.errors import shorten
from dlbench.records.outcome import Status
from dlbench.report.chart import OF_RUNS, Chart, ringed
from dlbench.report.data import ReportData
from dlbench.report.page.machines import VERSIONS

# What a run was, where the hardware was not representative, by the word in its row.
EMULATION = {
    "oversubscribed": "workers had less than a core of their own, or fewer cores than assigned",
    "logical-devices": "several logical devices shared one real one",
    "throttled-link": "the network between workers was slowed down on purpose",
    "simulated": "one process trained for all workers; a simulator computed the times",
}
# Flags of a rate or a time, by the word in `Mark.flags`.
FLAGS = {
    "extended": "were timed in steps added after training",
    "unsteady": "had a rate that was not steady",
    "nothing": "learned nothing",
    "missed": "did not reach their target",
}
# What a median is called in each form of a panel.
MEDIANS = {"lines": "Markers", "bars": "Strokes", "cells": "Cells"}
# What makers add to the names of their processors and the caption leaves out.
_TRADEMARK = re.compile(r"\((?:R|TM)\)| (?:Processor|CPU)\b")


def caption(chart: Chart, data: ReportData) -> tuple[str, str]:
    """Return what stands under a figure, each as plain text in one line: what is always shown, and what is folded away.

    Args:
        chart: Its `runs` are those that count; all of the data where it names none.
        data: Rows and machines.
    """
    runs = [row for row in data.runs if not chart.runs or (row["study"], row["run_id"]) in chart.runs]
    text = (chart.lead, *_medians(chart), *_failures(chart, runs), *_flags(chart, data, runs), *_device(chart, runs))
    triangles = "Open triangles are runs that ended before: their value is at least that"
    ended = [triangles] * any(math.isfinite(end) for mark in chart.marks() for end in mark.ended)
    details = (*ended, *_hardware(runs), *chart.notes)
    return _joined(text), _joined(details)


def _joined(sentences: Iterable[str]) -> str:
    lines = (one_line(sentence, 2_000) for sentence in sentences if sentence.strip())
    return " ".join(line if line.endswith((".", "!", "?")) else f"{line}." for line in lines)


def _medians(chart: Chart) -> Iterator[str]:
    """Yield how many repeats there are at each place, and what the intervals around their medians hold."""
    marks = [mark for mark in chart.marks(OF_RUNS) if mark.interval]
    intervals = [mark.interval for mark in marks if mark.interval]
    counts = {interval.n for interval in intervals}
    if counts == {1}:
        yield "One repeat at each place: there are no intervals"
    elif counts:
        forms = dict.fromkeys(MEDIANS[panel.form] for panel in chart.panels)
        parts = [f"{' and '.join(forms)}: medians of {_range(counts)} repeats"]
        if "Cells" not in forms:
            parts += ["dots: runs"] * any(mark.points for mark in marks)
            if coverage := _coverage(chart):
                parts.append(f"bars: intervals (coverage at least {coverage})")
        yield "; ".join(parts)


def _coverage(chart: Chart) -> str:
    """Return what all intervals cover at least, and of which quantities they cover more; empty where there are none."""
    floors: dict[str, int] = {}
    for panel in chart.panels:
        for interval in filter(None, (mark.interval for mark in panel.marks(OF_RUNS))):
            if interval.low is not None and interval.coverage:
                percent = math.floor(100 * interval.coverage + 1e-9)
                floors[panel.y.name] = min(percent, floors.get(panel.y.name, percent))
    names = {floor: listed(name for name in floors if floors[name] == floor) for floor in sorted({*floors.values()})}
    return "; ".join(f"{floor}%{f' for {names[floor]}' if place else ''}" for place, floor in enumerate(names))


def _flags(chart: Chart, data: ReportData, runs: Sequence[Row]) -> Iterator[str]:
    """Yield how many runs have each flag that a mark has; flags of the minority of marks are drawn as rings."""
    shown = {word for mark in chart.marks() if mark.interval and mark.points for word in mark.flags.split(";")}
    if any(math.inf in mark.ended for mark in chart.marks()):  # no triangle shows them
        shown.add("missed")
    completed = [row for row in runs if row["status"] == Status.COMPLETED]
    flags = [f"{flags_of(row)};{data.faults_of(row)}".split(";") for row in completed]
    rings, how = ringed(chart), "*" if _is_map(chart) else "ringed"
    for word, meaning in FLAGS.items():
        if word in shown:
            number = sum(word in marked for marked in flags)
            how_many = "All" if number == len(flags) else f"{number} of {len(flags)}"
            yield f"{how_many} runs {meaning}{f' ({how})' if word in rings else ''}"


def _device(chart: Chart, runs: Sequence[Row]) -> Iterator[str]:
    """Yield processors or GPUs, and how many runs were emulated, by which words."""
    devices = sorted(map(str, distinct(runs, "device_name")))
    if devices:
        more = f" and {counted(len(devices) - 1, 'other device')}" if len(devices) > 1 else ""
        yield shorten(_TRADEMARK.sub("", devices[0]), 60) + more  # the details have it in full
    how_many, reasons = _emulated(runs)
    if reasons:
        yield f"Emulated{'' if _is_map(chart) else ' (hollow)'}: {how_many}, {', '.join(reasons)}"


def _is_map(chart: Chart) -> bool:
    """Whether there are cells alone: they have names and numbers, no markers."""
    return all(panel.form == "cells" for panel in chart.panels)


def _emulated(runs: Sequence[Row]) -> tuple[str, list[str]]:
    """Return how many runs were not on representative hardware, and the words that say why."""
    texts = [text for row in runs if (text := row.get("emulated"))]
    how_many = "all runs" if len(texts) == len(runs) else f"{len(texts)} of {counted(len(runs), 'run')}"
    return how_many, emulation(texts).split(";") if texts else []


def _failures(chart: Chart, runs: Sequence[Row]) -> Iterator[str]:
    """Yield how many runs did not complete, and how they ended."""
    failed = Counter(row["status"] for row in runs if row["status"] != Status.COMPLETED)
    if failed:
        how = ", ".join(f"{count} {status}" for status, count in sorted(failed.items()))
        crosses = " (crosses)" * (not _is_map(chart) and any(mark.num_failed for mark in chart.marks()))
        yield f"{failed.total()} of {counted(len(runs), 'run')} did not complete{crosses}: {how}"


def _hardware(runs: Sequence[Row]) -> Iterator[str]:
    """Yield why hardware was not representative, the devices, how many hosts and cores a run had, differing versions.

    What the machines are, a report says once for all.
    """
    how_many, reasons = _emulated(runs)
    if reasons:
        why = "; ".join(f"{EMULATION.get(reason, 'see the documentation')} ({reason})" for reason in reasons)
        yield f"Emulated, not representative hardware: {how_many}: {why}"
    is_shared = any((row.get("machines") or math.inf) < (row.get("hosts") or 0) for row in runs)
    # A worker that has used up its share of a core lets the others wait.
    of_quota = sum(row.get("cores_enforced") == "quota" for row in runs)
    quota = f" ({of_quota} of {counted(len(runs), 'run')} by a CPU quota)" if of_quota else ""
    hosts = _amount(runs, "hosts", "host") + " that share a machine" * is_shared
    cores = _amount(runs, "cores_per_worker", "core")
    devices = " and ".join(sorted(map(str, distinct(runs, "device_name"))))
    parts = [devices, hosts, f"{cores} per worker{quota}" if cores else ""]
    if hardware := joined(*parts, sep="; "):
        yield f"Hardware: {hardware}"
    for column, name in VERSIONS:
        if len(versions := sorted(map(str, distinct(runs, column)))) > 1:
            yield f"The runs had different versions of {name or 'the MPI library'}: {', '.join(versions)}"


def _amount(runs: Iterable[Row], column: str, noun: str) -> str:
    """Return how many of something runs had, such as `1 host` or `1 to 4 hosts`; empty where it is unknown."""
    amounts = {float(value) for row in runs if (value := row.get(column)) is not None}
    return f"{_range(amounts)} {noun}{'' if amounts == {1.0} else 's'}" if amounts else ""


def _range(values: Iterable[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
