"""How busy the devices were and how much memory they took while the runs trained."""

from dlbench.analysis.arms import Arm
from dlbench.records.outcome import Status
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel
from dlbench.report.data import RUN, ReportData, run_of
from dlbench.report.figures._shown import in_chart
from dlbench.report.figures._table import GIB
from dlbench.report.lines import Course, along, known_series, of_runs, parts

ORDER = 110
X = Axis("time since the first step (s)")
# Places along the longest run: more are hard to distinguish.
MOST_PLACES = 40
MEANING = (
    "Readings from the first step on, evaluations included: means over the workers of a run. The utilisation of cores "
    "is that since the reading before; the first one is of the start-up. Where repeats end at different times, the "
    "last points stand for fewer of them."
)
# What sensors read as a level, by sensor and quantity; counters have a level beside them each.
LEVELS = {
    "nvml utilization": Axis("utilisation of the GPUs", low=0.0, high=1.1, percent=True),
    "cpu utilization": Axis("utilisation of the workers' cores", low=0.0, high=1.1, percent=True),
    "nvml memory_used_bytes": Axis("memory in use on one GPU (GiB)", low=0.0),
    "memory rss_bytes": Axis("memory of one process (GiB)", low=0.0),
}


def chart(data: ReportData) -> Chart:
    """Return utilisation and memory over the time of training, one line for each arm.

    Raises:
        MissingRowsError: No completed run has readings at two moments of its training or more.
    """
    course = _course(data)
    read = {level for run in course.values() for at in run.values() for level in at}
    panels, shown = list[Panel](), list[Arm]()
    for part in parts(of_runs(data.arms, course), x="at_s"):
        moving = along(part, course)
        drawn = [
            Panel(part.title, X, axis, tuple(known_series(moving, level)))
            for level, axis in LEVELS.items()
            if level in read
        ]
        # Where no series has values at two places, nothing varies along x.
        if any(sum(bool(mark.points) for mark in curve.marks) > 1 for panel in drawn for curve in panel.series):
            panels += [panel for panel in drawn if panel.series]
            shown += part.arms
    if not panels:
        raise MissingRowsError(
            "needs sensors.csv with readings of processors, GPUs or memory at two moments of a run's training or more: "
            "train longer, or shorten sensor_interval_s"
        )
    return Chart(
        title="Utilisation and memory of devices while training",
        panels=tuple(panels),
        columns=len(read),
        notes=(MEANING,),
        runs=in_chart(shown),
    )


def _course(data: ReportData) -> Course:
    """Return the levels of each run at equal distances of time from the first step on, the same for all runs.

    A reading belongs to the nearest place. First come the means of each worker's readings at a place, then those of the
    workers: one that was read more often counts no more. A failed run is counted where its readings end.
    """
    course: Course = {}
    sensors = data.table("sensors")
    if not sensors.empty:
        every = sensors.assign(level=sensors["sensor"] + " " + sensors["quantity"])
        training = every[(every["at_s"] >= 0) & every["value"].notna() & every["level"].isin(LEVELS)]
        of_worker = [*RUN, "level", "worker"]
        usual = training.sort_values("at_s").groupby(of_worker)["at_s"].diff().quantile(0.9)
        # A 40th of the longest run, but no less than between most readings.
        width = max(0.0, float(usual), float(training["at_s"].max()) / MOST_PLACES) or 1.0
        placed = training.assign(at_s=(training["at_s"] / width).round() * width)
        of_workers = placed.groupby([*of_worker, "at_s"], as_index=False)["value"].mean()
        means = of_workers.groupby([*RUN, "at_s", "level"], as_index=False)["value"].mean()
        for study, run_id, at_s, level, value in means.itertuples(index=False):
            unit = GIB if level.endswith("bytes") else 1.0
            course.setdefault((study, run_id), {}).setdefault(at_s, {})[level] = value / unit
    studies = {study for study, _ in course}
    for row in data.runs:
        if row["status"] != Status.COMPLETED and row["study"] in studies:
            course[run_of(row)] = {max(course.get(run_of(row), {}), default=0.0): {}}
    return course
