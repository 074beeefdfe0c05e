"""Scale-up against scale-out, and what lies between, at equal workers, run by run, and their ratio."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from dlbench.analysis.arms import Arm, Row, columns_of, flags_of, option_columns, quotient
from dlbench.analysis.formatting import counted, joined, listed, number
from dlbench.analysis.groups import SETTINGS, TASK, groups, values_of, varying, without_base_lines
from dlbench.records.outcome import Status
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, Role, Series, line_mark
from dlbench.report.data import ReportData
from dlbench.report.figures._places import WORKERS, with_categories
from dlbench.report.figures._shown import RATE, RATE_AXIS, in_chart
from dlbench.report.lines import FLAGS, Part, parts, series
from dlbench.scenario.settings import Affects, Mode, settings_of

ORDER = 45
# The column that says whether a run is real; messages name it.
EMULATED = "being emulated"
# What is compared, by column: its axis, and what a ratio above 1 means.
COMPARED = {
    "train_time_s": (Axis("training time (s)", low=0.0), "scale-up is faster"),
    RATE: (RATE_AXIS, "scale-up is slower"),
}
# What starts the processes, with its options: it may differ between one host and several, but need not.
LAUNCHING = ("launcher", "submitter")
# What pairs repeats.
REPEAT = ("seed", "repeat")
# Settings beside those of `dlbench.analysis.groups` that a run could gain or lose by.
ALSO_EQUAL = (*settings_of(Affects.OBSERVATION), "target_metric", "target_value", "target_stop")
# What the two arms of a pair may differ in.
PAIRED = ("placement", "study", "device_name")


def ratio(column: str) -> str:
    """Return the column that holds the ratio of two runs' values."""
    return f"{column}.ratio"


def chart(data: ReportData) -> Chart:
    """Return times and rates of both modes and what lies between (left), and the ratio of each pair of repeats (right).

    The interval of a ratio is that of the median over pairs (`dlbench.analysis.statistics.intervals.median_interval`).

    Raises:
        MissingRowsError: There is no pair of completed runs, one on one host and one on several, equal in all else.
    """
    columns = {
        FLAGS: lambda row: joined(flags_of(row), data.faults_of(row), sep=";"),
        EMULATED: lambda row: bool(row.get("emulated")),
        # Without a mode, one host is scale-up.
        "placement": lambda row: row.get("mode") or (Mode.SCALE_UP if row.get("hosts") == 1 else row["placement"]),
    }
    arms = [arm.having(**columns) for arm in without_base_lines(data.arms)]
    arms = [arm for arm in arms if arm.get("placement") in list(Mode) or _is_on_several(arm)]
    both = _paired(arms)
    if not any(values_of(both, ratio(column)) for column in COMPARED):
        needed = "needs completed runs of both, scale-up and several hosts, equal in workers and all else"
        raise MissingRowsError(needed + _difference(arms))
    keys = [key for key in varying(both, x="workers") if not key.startswith((*PAIRED, *LAUNCHING))]
    num_single = sum(len(arm.rows) for arm in arms) - sum(len(arm.rows) for arm in both)
    return Chart(
        title="Scale-up against scale-out at equal workers",
        panels=tuple(panel for part in parts(both, x="workers", always=keys) for panel in _panels(part)),
        columns=2,
        notes=tuple(_notes(both, num_single)),
        runs=in_chart(both),
    )


def _is_on_several(arm: Arm) -> bool:
    return (arm.get("hosts") or 1) > 1


def _sides(arms: Sequence[Arm]) -> tuple[list[Arm], list[Arm]]:
    """Return the arms of scale-up, and those on several hosts."""
    up = [arm for arm in arms if arm.get("placement") == Mode.SCALE_UP]
    return up, [arm for arm in arms if arm not in up]


def _paired(arms: Sequence[Arm]) -> list[Arm]:
    """Return the arms of pairs that are equal in all else, with the repeats that both have.

    Those on several hosts have the ratio of each repeat to that of scale-up: of the arm of their study and launcher, or
    else of one of their study, or else of any.
    """
    launching = ("study", *(name for name in columns_of(arms) if name.startswith(LAUNCHING)))
    kept: dict[Arm, dict[str, Row]] = {}
    for _, alike in groups(arms, _equal_settings(arms)):
        ups, outs = _sides(alike)
        for out in outs if ups else ():
            up = min(ups, key=lambda arm: [arm.get(key) != out.get(key) for key in launching])
            bases = {tuple(map(row.get, REPEAT)): row for row in up.rows}
            for row in out.rows:
                if base := bases.get(tuple(map(row.get, REPEAT))):
                    both = row["status"] == base["status"] == Status.COMPLETED
                    ratios = {ratio(name): quotient(row.get(name), base.get(name)) for name in COMPARED if both}
                    kept.setdefault(up, {})[base["run_id"]] = base
                    kept.setdefault(out, {})[row["run_id"]] = {**row, **ratios}
    return [replace(arm, rows=tuple(kept[arm].values())) for arm in arms if arm in kept]


def _equal_settings(arms: Sequence[Arm]) -> list[str]:
    """Return the settings and options in which a pair must agree: of those in which arms differ at all."""
    names = dict.fromkeys((*TASK, EMULATED, *SETTINGS, *ALSO_EQUAL, *option_columns(columns_of(arms))))
    return [name for name in names if not name.startswith((*PAIRED, *LAUNCHING)) and len(values_of(arms, name)) > 1]


def _panels(part: Part) -> Iterator[Panel]:
    """Yield, for each quantity that pairs have, the panel of all placements and that of their ratios."""
    out = tuple(_sides(part.arms)[1])
    for column, (axis, above) in COMPARED.items():
        if not values_of(out, ratio(column)):
            continue
        title = joined(part.title, axis.name)
        yield with_categories(Panel(title, WORKERS, axis, series(part, column)))
        lines = series(replace(part, arms=out, keys=("placement",)), ratio(column))
        ratios = tuple(replace(line, label=f"{line.label} / {Mode.SCALE_UP}") for line in lines)
        y = Axis(f"{axis.name}, {listed(dict.fromkeys(line.label for line in ratios))}")
        panel = with_categories(Panel(f"{title}: above 1 {above}", WORKERS, y, ratios))
        # A little beyond the outermost places, so that it is a line at a single number of workers too.
        ends = (line_mark(-0.4, 1.0), line_mark(len(panel.x.categories) - 0.6, 1.0))
        yield replace(panel, series=(*panel.series, Series("no difference", ends, Role.IDEAL)))


def _notes(both: Sequence[Arm], num_single: int) -> Iterator[str]:
    yield "A point on the right is one pair: a run of each side with the same settings, seed and repeat."
    up, several = _sides(both)
    out = listed(values_of(several, "placement"))
    if sent := [size for arm in several if _is_on_several(arm) for size in arm.values("wire_bytes")]:
        amount = f"{number(median(sent) / 1e6)} MB at the median of {counted(len(sent), 'run')}"
        yield f"Runs on several hosts sent {amount} over the interfaces between them."
    studies, devices = ([values_of(side, key) for side in (up, several)] for key in ("study", "device_name"))
    if studies[0] != studies[1]:
        yield f"Scale-up is of {listed(studies[0])}, {out} of {listed(studies[1])}: they did not take turns."
    if devices[0] != devices[1]:
        yield f"Devices differ: scale-up on {listed(devices[0])}, {out} on {listed(devices[1])}."
    if num_single:
        yield f"{counted(num_single, 'run')} without an equal of the other side left out."


def _difference(arms: Sequence[Arm]) -> str:
    """Return the settings of which both sides have completed runs with no value in common; empty where none is."""
    up, out = ([row for arm in side for row in arm.completed] for side in _sides(arms))
    keys = (*_equal_settings(arms), *REPEAT) if up and out else ()
    apart = [key for key in keys if {row.get(key) for row in up}.isdisjoint(row.get(key) for row in out)]
    return f"; they differ in {listed(apart)}" if apart else ""
