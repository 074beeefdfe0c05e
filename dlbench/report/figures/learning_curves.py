"""Loss and accuracy while training, against epochs, updates and training time."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, product

from dlbench.analysis.arms import quotient, records, updates_of
from dlbench.analysis.formatting import joined
from dlbench.analysis.groups import values_of, ways
from dlbench.records.outcome import Status
from dlbench.report.chart import Axis, Chart, MissingRowsError, Palette, Panel, Series
from dlbench.report.data import RUN, ReportData, run_of
from dlbench.report.figures._places import FAR_APART, spread
from dlbench.report.figures._shown import SCORES, in_chart, learning_rates, left_out_note, synthetic_note
from dlbench.report.lines import FLAGS, MOST_SERIES, Course, along, known_series, of_runs, parts, series, ways_vary
from dlbench.scenario.run_spec import arm_name
from dlbench.scenario.settings import BatchPolicy

ORDER = 60
# Axes by column of `epochs.csv`, and what a panel's title calls them.
PLACES = {
    "epoch": (Axis("epoch"), "epochs"),
    "steps": (Axis("update"), "updates"),
    "train_time_s": (Axis("training time (s)"), "time"),
}
_OF_BATCHES = ("batch_size", "batch_policy")
# More panels than this cannot be read; those of the most workers are shown, and of these the fullest.
MOST_PANELS = 12
# More marks than these on one line are hard to distinguish, and points of single runs hide the line.
MOST_MARKS, FEW_MARKS = 100, 12


def chart(data: ReportData) -> Chart:
    """Return learning curves, one line for each batch size and policy, or for each arm where all have the same size.

    A line is the median over repeats at each epoch, at the median of their updates or training times. Losses and
    accuracies are the first worker's rows: they are of all workers. Time is the slowest worker's.

    Raises:
        MissingRowsError: No completed run has two epochs with a loss or an accuracy that means something.
    """
    course = _course(data)
    recorded = {
        name for run in course.values() for at in run.values() for name, value in at.items() if value is not None
    }
    values, places = ([name for name in names if name in recorded] for names in (SCORES, PLACES))
    arms = of_runs(data.arms, course)
    keys = ways_vary(arms)
    # Where batch sizes vary, what shares a panel differs in these alone, and in how they change.
    apart = [key for key in keys if key not in _OF_BATCHES] if "batch_size" in keys else None
    policies = {*values_of(arms, "batch_policy")} - {BatchPolicy.FIXED} if "batch_policy" in keys else set()
    candidates = parts(arms, x="epoch", always=apart, most=MOST_SERIES + len(policies))
    candidates.sort(key=lambda part: (max(values_of(part.arms, "workers"), default=0), len(part.arms)), reverse=True)
    most = max(1, MOST_PANELS // max(1, len(places) * len(values)))
    left_out, whole = candidates[most:], [along(part, course) for part in candidates[:most]]
    # Base lines are left out where panels have no room for them.
    drawn = [
        part if len(series(part, "epoch")) <= MOST_SERIES else replace(part, arms=tuple(ways(part.arms) or part.arms))
        for part in whole
    ]
    # Colours are those of batch sizes or numbers of workers, where lines stand for these.
    palette: Palette = "sizes" if {"batch_size", "workers"}.intersection(keys) else "ways"

    def shortened(line: Series) -> Series:
        return _shortened(line, "policies" if policies.intersection(line.label.split(", ")) else palette)

    only = drawn[0].title if len(drawn) == 1 else ""
    panels: list[Panel] = []
    for part, value in product(drawn, values):
        curves_at = {place: list(map(shortened, known_series(replace(part, x=place), value))) for place in places}
        # The accuracy chart has what is known at one epoch alone.
        if any(len(curve.marks) > 1 for curve in curves_at["epoch"]):
            panels += [_panel("" if only else part.title, place, value, curves) for place, curves in curves_at.items()]
    if not panels:
        raise MissingRowsError("needs epochs.csv with two or more epochs of completed runs on data that can be learned")
    in_panels = [arm for part in drawn for arm in part.arms]
    return Chart(
        title=joined("Loss and accuracy while training", only, sep=": "),
        panels=tuple(panels),
        columns=len(places),
        lead=learning_rates(in_panels),
        notes=(
            "Lines are medians over repeats at each epoch; training time is the slowest worker's, without evaluations.",
            f"Where a line has more than {FEW_MARKS} marks, points of single runs are left out; bars are intervals.",
            *["Runs ended as soon as they reached their target: the end of a line stands for fewer of them."]
            * any(arm.get("target_stop") for arm in in_panels),
            *["Ringed: the batch of a run changed in that epoch (batch_changes.csv)."]
            * any(mark.flags for panel in panels for mark in panel.marks()),
            *left_out_note([part.title for part in left_out], "beyond the number of panels"),
            *[f"Base lines are left out where a panel would have more than {MOST_SERIES} lines."] * (drawn != whole),
            *synthetic_note(data.arms),
        ),
        runs=in_chart(in_panels),
    )


def _course(data: ReportData) -> Course:
    """Return what is known at each epoch of runs that learned something; failed ones are where their arm ended.

    Each run stands at the median of its arm's updates and times.
    """
    learned, course = [arm for arm in data.arms if arm.scores_mean_something], Course()
    if not data.epochs.empty:
        # Of completed runs: updates to a step of a worker.
        done = {
            run_of(row): quotient(updates_of(row), row.get("steps")) or 1 for arm in learned for row in arm.completed
        }
        slowest = data.epochs.groupby([*RUN, "epoch"])["train_time_s"].transform("max")
        every = data.epochs.assign(train_time_s=slowest, arm=data.epochs["run_id"].map(arm_name))
        first = every[every["worker"] == 0]
        runs = list(zip(first["study"], first["run_id"], strict=True))
        first = first.assign(steps=first["steps"] * [done.get(run, 0.0) for run in runs])[[run in done for run in runs]]
        at = first.groupby(["study", "arm", "epoch"])[["steps", "train_time_s"]].transform("median")
        for row in records(first.assign(**at)[[*RUN, *PLACES, *SCORES]]):
            course.setdefault(run_of(row), {})[float(row["epoch"])] = row
    for change in records(data.table("batch_changes")[[*RUN, "epoch"]]):
        course.get(run_of(change), {}).get(float(change["epoch"]), {})[FLAGS] = "batch-changed"
    for arm in learned:
        epochs = chain(*(course.get(run_of(row), ()) for row in arm.completed))
        end = max(epochs, default=arm.get("epochs_per_worker"))
        failed = [run_of(row) for row in arm.rows if row["status"] != Status.COMPLETED and end is not None]
        course |= {run: {float(end): dict.fromkeys(PLACES)} for run in failed}
    return course


def _shortened(line: Series, palette: Palette) -> Series:
    """Return a line of many marks without points of runs, and with marks at equal steps up to the last.

    Those with a flag stay, with their points.
    """
    marks = line.marks
    if len(marks) > FEW_MARKS:
        step = -(-len(marks) // MOST_MARKS)
        kept = {mark.x for mark in marks[::-step]} | {mark.x for mark in marks if mark.flags}
        thinned = [mark for mark in marks if mark.x in kept]
        marks = tuple(mark if mark.flags else replace(mark, points=(), runs=()) for mark in thinned)
    return replace(line, marks=marks, palette=palette)


def _panel(title: str, place: str, value: str, shown: Sequence[Series]) -> Panel:
    """Return a panel whose axes are logarithmic where lines end far apart, or losses fall far."""
    (x, against), y = PLACES[place], SCORES[value]
    ends = [curve.marks[-1].x for curve in shown]
    if ends and max(ends) > FAR_APART * min(ends) > 0:
        x = replace(x, scale="log10")
    return Panel(joined(title, f"{y.name} by {against}", sep=": "), x, spread(y, shown), tuple(shown))
