"""How busy the devices were and how much memory they took while the runs trained."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel
from dlbench.report.data import RUN
from dlbench.report.figures._rows import identities, is_completed
from dlbench.report.figures._shown import left_out_note
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


@dataclass(frozen=True)
class _Level:
    """A quantity that sensors read as a level; counters are left alone, for each has a level beside it."""

    sensor: str
    quantity: str
    unit: float
    axis: Axis


LEVELS = (
    _Level("nvml", "utilization", 1.0, Axis("utilisation of the GPUs", low=0.0, percent=True)),
    _Level("cpu", "utilization", 1.0, Axis("utilisation of the workers' cores", low=0.0, percent=True)),
    _Level("nvml", "memory_used_bytes", GIB, Axis("memory in use on one GPU (GiB)", low=0.0)),
    _Level("memory", "rss_bytes", GIB, Axis("memory of one process (GiB)", low=0.0)),
)


def chart(data: "ReportData") -> Chart:
    """Return utilisation and memory over the time of training, one line for each arm.

    Raises:
        MissingRowsError: No completed run has readings at two moments of its training or more.
    """
    import pandas as pd

    readings = _readings(data)
    # Those with readings, and those that failed in the same studies.
    has_readings = data.runs.set_index(RUN).index.isin(readings.set_index(RUN).index)
    failed = ~is_completed(data.runs) & data.runs["study"].isin(readings["study"])
    runs = data.runs[failed | has_readings].reset_index(drop=True)
    known = [level for level in LEVELS if len(_of(level, readings))]
    shown: list[Part] = []
    left_out: list[str] = []
    panels: list[Panel] = []
    for part in parts(runs, x="at_s"):
        if len(panels) + len(known) > MOST_PANELS:
            left_out.append(part.title)
            continue
        made = [panel for level in known if (panel := _panel(part, level, readings)).series]
        if any(map(has_several, made)):
            panels += made
            shown.append(part)
    if not panels:
        raise MissingRowsError(
            "needs readings at two moments of a run or more: train longer, or shorten sensor_interval_s"
        )
    return Chart(
        title="Utilisation and memory of devices while training",
        panels=tuple(panels),
        columns=len(known),
        notes=(MEANING, *left_out_note(left_out, "for want of room")),
        runs=identities(pd.concat([part.runs for part in shown]).drop_duplicates(RUN)),
    )


def _readings(data: "ReportData") -> "pd.DataFrame":
    """Return all readings of levels from the first step on.

    Raises:
        MissingRowsError: There is none.
    """
    found = data.sensors
    if not found.empty:
        is_level = found.set_index(["sensor", "quantity"]).index.isin([(one.sensor, one.quantity) for one in LEVELS])
        found = found[is_level & (found["at_s"] >= 0) & found["value"].notna()]
    if found.empty:
        raise MissingRowsError(
            "needs sensors.csv beside runs.csv, with readings of processors, GPUs or memory during training"
        )
    return found


def _of(level: _Level, readings: "pd.DataFrame") -> "pd.DataFrame":
    return readings[((readings["sensor"] == level.sensor) & (readings["quantity"] == level.quantity)).astype(bool)]


def _panel(part: Part, level: _Level, readings: "pd.DataFrame") -> Panel:
    own = _of(level, readings).merge(part.runs[RUN], on=RUN)
    if own.empty:
        return Panel(part.title, X, level.axis, ())
    runs = _over_time(part.runs, _on_grid(own.assign(level=own["value"] / level.unit)))
    return Panel(part.title, X, level.axis, series(replace(part, runs=runs), "at_s", "level"))


def _on_grid(readings: "pd.DataFrame") -> "pd.DataFrame":
    """Return the `level` of each run at equal distances of time, the same for all runs.

    A reading belongs to the nearest place. First come the means of each worker's readings at a place, then those of the
    workers: one that was read more often counts no more.
    """
    usual = readings.sort_values("at_s").groupby(WORKER)["at_s"].diff().quantile(0.9)
    # A 40th of the longest run, but no less than between most readings.
    width = max(float(usual) if usual > 0 else 0.0, float(readings["at_s"].max()) / MOST_PLACES) or 1.0
    placed = readings.assign(at_s=(readings["at_s"] / width).round() * width)
    of_workers = placed.groupby([*WORKER, "at_s"], as_index=False)["level"].mean()
    of_runs: pd.DataFrame = of_workers.groupby([*RUN, "at_s"], as_index=False)["level"].mean()
    return of_runs


def _over_time(runs: "pd.DataFrame", levels: "pd.DataFrame") -> "pd.DataFrame":
    """Return a row for each run and place; a failed run has one alone, without a level, where its readings end."""
    found = runs.merge(levels, on=RUN, how="left")
    failed = ~is_completed(found)
    last = found.groupby(RUN)["at_s"].transform("max")
    kept = ~failed | last.isna() | (found["at_s"] == last)
    return found.assign(level=found["level"].mask(failed), at_s=found["at_s"].mask(failed & last.isna(), 0.0))[kept]
