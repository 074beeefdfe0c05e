"""How busy the devices were and how much memory they took while the runs trained."""

from dataclasses import replace
from typing import TYPE_CHECKING

from dlbench.analysis.arms import Arm
from dlbench.plugins import Options
from dlbench.records.outcome import Status
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel
from dlbench.report.data import RUN
from dlbench.report.figures._curves import Run, along, of_runs, run_of
from dlbench.report.figures._shown import identities, left_out_note
from dlbench.report.lines import Part, has_several, parts, series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 110
GIB = 2.0**30
WORKER = [*RUN, "worker"]
X = Axis("time since the first step (s)", low=0.0)
# Places along the longest run of a panel: more are hard to distinguish.
MOST_PLACES = 40
# More panels than this cannot be read.
MOST_PANELS = 24
MEANING = (
    "Readings from the first step on, evaluations included: means over the workers of a run. The utilisation of cores "
    "is that since the reading before; the first one is of the start-up. Where repeats end at different times, the "
    "last points stand for fewer of them."
)


# Unit and axis of what sensors read as a level, by sensor and quantity; counters have a level beside them each.
LEVELS = {
    ("nvml", "utilization"): (1.0, Axis("utilisation of the GPUs", low=0.0, percent=True)),
    ("cpu", "utilization"): (1.0, Axis("utilisation of the workers' cores", low=0.0, percent=True)),
    ("nvml", "memory_used_bytes"): (GIB, Axis("memory in use on one GPU (GiB)", low=0.0)),
    ("memory", "rss_bytes"): (GIB, Axis("memory of one process (GiB)", low=0.0)),
}


def chart(data: "ReportData") -> Chart:
    """Return utilisation and memory over the time of training, one line for each arm.

    Raises:
        MissingRowsError: No completed run has readings at two moments of its training or more.
    """
    readings = _readings(data)
    runs = {run for rows in readings.values() for run in zip(rows["study"], rows["run_id"], strict=True)}
    studies = {study for study, _ in runs}
    failed = {run_of(row) for row in data.runs if row["status"] != Status.COMPLETED}
    arms = of_runs(data.arms, runs | {(study, run_id) for study, run_id in failed if study in studies})
    shown: list[Arm] = []
    left_out: list[str] = []
    panels: list[Panel] = []
    for part in parts(arms, x="at_s"):
        if len(panels) + len(readings) > MOST_PANELS:
            left_out.append(part.title)
            continue
        made = [panel for level, rows in readings.items() if (panel := _panel(part, level, rows)).series]
        if any(map(has_several, made)):
            panels += made
            shown += part.arms
    if not panels:
        raise MissingRowsError(
            "needs readings at two moments of a run or more: train longer, or shorten sensor_interval_s"
        )
    return Chart(
        title="Utilisation and memory of devices while training",
        panels=tuple(panels),
        columns=len(readings),
        notes=(MEANING, *left_out_note(left_out, "for want of room")),
        runs=identities(shown),
    )


def _readings(data: "ReportData") -> "dict[tuple[str, str], pd.DataFrame]":
    """Return the readings of each level that was read, from the first step on.

    Raises:
        MissingRowsError: There is none.
    """
    sensors = data.sensors
    if not sensors.empty:
        training = sensors[(sensors["at_s"] >= 0) & sensors["value"].notna()]
        by_level = dict(list(training.groupby(["sensor", "quantity"])))
        if known := {level: by_level[level] for level in LEVELS if level in by_level}:
            return known
    raise MissingRowsError(
        "needs sensors.csv beside runs.csv, with readings of processors, GPUs or memory during training"
    )


def _panel(part: Part, level: tuple[str, str], readings: "pd.DataFrame") -> Panel:
    unit, axis = LEVELS[level]
    runs = {run_of(row): row for arm in part.arms for row in arm.rows}
    own = readings[[run in runs for run in zip(readings["study"], readings["run_id"], strict=True)]]
    course: dict[Run, dict[float, dict[str, float]]] = {run: {} for run in runs}
    for study, run_id, at_s, value in _on_grid(own).itertuples(index=False) if len(own) else ():
        course[study, run_id][at_s] = {"level": value / unit}
    for run, row in runs.items():
        if row["status"] != Status.COMPLETED:  # counted where its readings end
            course[run] = {max(course[run], default=0.0): {}}
    lines = series(replace(part, arms=along(part.arms, "at_s", course)), "level")
    return Panel(part.title, X, axis, lines if len(own) else ())


def _on_grid(readings: "pd.DataFrame") -> "pd.DataFrame":
    """Return the value of each run at equal distances of time, the same for all runs.

    A reading belongs to the nearest place. First come the means of each worker's readings at a place, then those of the
    workers: one that was read more often counts no more.
    """
    usual = readings.sort_values("at_s").groupby(WORKER)["at_s"].diff().quantile(0.9)
    # A 40th of the longest run, but no less than between most readings.
    width = max(float(usual) if usual > 0 else 0.0, float(readings["at_s"].max()) / MOST_PLACES) or 1.0
    placed = readings.assign(at_s=(readings["at_s"] / width).round() * width)
    of_workers = placed.groupby([*WORKER, "at_s"], as_index=False)["value"].mean()
    of_runs: pd.DataFrame = of_workers.groupby([*RUN, "at_s"], as_index=False)["value"].mean()
    return of_runs
