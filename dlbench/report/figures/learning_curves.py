"""Loss and accuracy while training, against epochs, updates and training time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from dlbench.analysis.arms import Arm, Row, records
from dlbench.analysis.formatting import counted, listed
from dlbench.analysis.groups import TASK, values_of, without_base_lines
from dlbench.plugins import Options
from dlbench.records.outcome import Status
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, Series
from dlbench.report.data import RUN
from dlbench.report.figures._curves import Run, along, of_runs, run_of
from dlbench.report.figures._shown import identities, listed_titles, synthetic_note
from dlbench.report.lines import MOST_SERIES, Part, parts, roles, series, ways_vary

if TYPE_CHECKING:
    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 60
# Axes by column of `epochs.csv`, and what a panel's title calls them.
PLACES = {
    "epoch": (Axis("epoch"), "epochs"),
    "steps": (Axis("update"), "updates"),
    "train_time_s": (Axis("training time (s)"), "time"),
}
VALUES = {
    "train_loss": (Axis("training loss (nats)"), "training loss"),
    "validation_loss": (Axis("validation loss (nats)"), "validation loss"),
    "train_accuracy": (Axis("training accuracy", most=1.0), "training accuracy"),
    "validation_accuracy": (Axis("validation accuracy", most=1.0), "validation accuracy"),
}
# More panels than this cannot be read; arms with the fewest runs are then left out.
MOST_PANELS = 12
# More marks than these on one line are hard to distinguish, and points of single runs hide the line.
MOST_MARKS, FEW_MARKS = 100, 12
# Beyond these ratios an axis is logarithmic: of the places where lines end, and of losses.
FAR_APART, FAR_DOWN = 4.0, 10.0


def chart(data: "ReportData") -> Chart:
    """Return learning curves, one line for each batch size, or for each arm where all have the same.

    A line is the median over repeats at each epoch, at the median of their updates or training times. Losses and
    accuracies are the first worker's rows: they are of all workers. Time is the slowest worker's.

    Raises:
        MissingRowsError: No completed run has two epochs with a loss or an accuracy that means something.
    """
    course = _course(data)
    epochs = [columns for run in course.values() for columns in run.values()]
    if not any(epochs):
        raise MissingRowsError(
            "needs epochs.csv beside runs.csv, with rows of completed runs on data that can be learned"
        )
    values, places = (
        [name for name in names if any(columns.get(name) is not None for columns in epochs)]
        for names in (VALUES, PLACES)
    )
    every = of_runs(data.arms, course)
    sizes = _few_batch_sizes(every)
    arms = [arm for arm in every if not sizes or arm.get("batch_size") in sizes]
    keys = ways_vary(arms)
    # Where batch sizes vary, what shares a panel differs in these alone.
    apart = [key for key in keys if key != "batch_size"] if "batch_size" in keys else TASK
    candidates = parts(arms, x="epoch", always=apart)
    shown = _first(candidates, max(1, MOST_PANELS // max(1, len(places) * len(values))))
    only = shown[0].title if len(shown) == 1 else ""
    whole = [replace(part, title="" if only else part.title, arms=along(part.arms, "epoch", course)) for part in shown]
    drawn = list(map(_with_room, whole))
    lines = [{value: _lines(part, value) for value in values} for part in drawn]
    panels = [panel for part, own in zip(drawn, lines, strict=True) for panel in _panels(part, own, places)]
    if not panels:
        raise MissingRowsError("needs completed runs of two or more epochs with a loss or an accuracy in epochs.csv")
    in_panels = [arm for part in drawn for arm in part.arms]
    longest = {value: max((len(one.marks) for own in lines for one in own[value]), default=0) for value in values}
    return Chart(
        title=": ".join(filter(None, ("Loss and accuracy while training", only))),
        panels=tuple(_coloured(panel, keys) for panel in panels),
        columns=len(places),
        notes=(
            "Lines are medians over repeats at each epoch; training time is the slowest worker's, without evaluations.",
            *_notes(in_panels, longest),
            *_absent(sizes, [part.title for part in candidates if part not in shown]),
            *[f"Base lines are left out where a panel would have more than {MOST_SERIES} lines."] * (drawn != whole),
            *synthetic_note(data.arms),
        ),
        runs=identities(in_panels),
    )


def _course(data: "ReportData") -> dict[Run, dict[float, Row]]:
    """Return what is known at each epoch of runs that learned something; failed ones have a place where their arm ended."""
    rows, known = data.epochs, dict[Run, dict[float, Row]]()
    if not rows.empty:
        slowest = rows.groupby([*RUN, "epoch"])["train_time_s"].transform("max")
        first = rows.assign(train_time_s=slowest)[rows["worker"] == 0]
        for row in records(first[[*RUN, *PLACES, *VALUES]]):
            known.setdefault(run_of(row), {})[float(row["epoch"])] = row
    course: dict[Run, dict[float, Row]] = {}
    for arm in data.arms:
        if arm.scores_mean_something:
            done = {run_of(row): known[run_of(row)] for row in arm.completed if run_of(row) in known}
            end = max(chain(*done.values()), default=arm.get("epochs_per_worker"))
            failed = [run_of(row) for row in arm.rows if row["status"] != Status.COMPLETED and end is not None]
            course |= done | {run: {float(end): {}} for run in failed}
    return course


def _few_batch_sizes(arms: Sequence[Arm]) -> list[int]:
    """Return as many batch sizes as a panel can hold, evenly chosen; nothing where it can hold all."""
    sizes = values_of(arms, "batch_size")
    if len(sizes) <= MOST_SERIES or "batch_size" not in ways_vary(arms):
        return []
    return [sizes[round(number * (len(sizes) - 1) / (MOST_SERIES - 1))] for number in range(MOST_SERIES)]


def _first(candidates: Sequence[Part], most: int) -> list[Part]:
    """Return those of the parts with curves that have the most completed runs, and of these the most workers."""

    def rank(part: Part) -> tuple[int, int]:
        own = without_base_lines(part.arms)
        return sum(arm.n for arm in own), max((arm.workers for arm in own), default=0)

    with_curves = [part for part in candidates if any(arm.completed for arm in part.arms)]
    kept = sorted(with_curves, key=rank, reverse=True)[:most]
    return [part for part in with_curves if part in kept]


def _with_room(part: Part) -> Part:
    """Return the part, without base lines where its panels have no room for them."""
    (_, _, own), _ = roles(part)
    has_room = len(series(part, "epoch")) <= MOST_SERIES or not own
    return part if has_room else replace(part, arms=tuple(own))


def _lines(part: Part, value: str) -> list[Series]:
    """Return the medians of a value at each epoch where it is known; of many epochs at equal steps up to the last."""
    lines = []
    for one in series(part, value):
        marks = [mark for mark in one.marks if mark.points or mark.num_failed]
        step = max(1, -(-len(marks) // MOST_MARKS))
        lines.append(replace(one, marks=tuple(marks[::-step][::-1])))
    return lines


def _panels(part: Part, lines: Mapping[str, Sequence[Series]], places: Sequence[str]) -> Iterator[Panel]:
    """Yield the panels of a part: a row for each value, with the same lines against each kind of place."""
    at = {place: _places(part, place) for place in places}
    for value, shown in lines.items():
        y, name = VALUES[value]
        if max((len(one.marks) for one in shown), default=0) < 2:
            continue  # the accuracy chart has what is known at one epoch alone
        for column in places:
            x, against = PLACES[column]
            moved = [one for line in shown if (one := _moved(line, at[column])).marks]
            title = ": ".join(filter(None, (part.title, f"{name} by {against}")))
            yield Panel(title, _along(x, moved), _up(y, value, moved), tuple(moved), is_exact=True)


def _places(part: Part, column: str) -> dict[Series, dict[float, float]]:
    """Return where each line, without its marks, is at each epoch: at the median of its runs; an epoch is where it is."""
    return {
        replace(one, marks=()): {
            mark.x: mark.x if column == "epoch" else mark.interval.value
            for mark in one.marks
            if mark.interval or column == "epoch"
        }
        for one in series(part, column)
    }


def _moved(line: Series, places: Mapping[Series, Mapping[float, float]]) -> Series:
    """Return a line by epoch as one by another place, without the epochs whose place is unknown; a long one without points."""
    at = places.get(replace(line, marks=()), {})
    marks = sorted((replace(mark, x=at[mark.x]) for mark in line.marks if mark.x in at), key=lambda mark: mark.x)
    if len(marks) > FEW_MARKS:
        marks = [replace(mark, points=(), runs=()) for mark in marks]
    return replace(line, marks=tuple(marks))


def _coloured(panel: Panel, keys: Sequence[str]) -> Panel:
    """Return the panel with colours for batch sizes or numbers of workers, where its lines stand for these."""
    sizes = bool({"batch_size", "workers"}.intersection(keys))
    return replace(panel, series=tuple(replace(one, palette="sizes") for one in panel.series)) if sizes else panel


def _along(axis: Axis, shown: Sequence[Series]) -> Axis:
    """Return the axis, logarithmic where some lines end so early that they would be a stroke on a linear one."""
    ends = [one.marks[-1].x for one in shown]
    return replace(axis, scale="log10") if ends and max(ends) > FAR_APART * min(ends) > 0 else axis


def _up(axis: Axis, value: str, shown: Sequence[Series]) -> Axis:
    """Return the axis, logarithmic for losses that fall so far that their ends would coincide."""
    medians = [mark.interval.value for one in shown for mark in one.marks if mark.interval]
    is_far = value.endswith("loss") and bool(medians) and max(medians) > FAR_DOWN * min(medians) > 0
    return replace(axis, scale="log10") if is_far else axis


def _notes(arms: Sequence[Arm], longest: Mapping[str, int]) -> Iterator[str]:
    if max(longest.values()) > FEW_MARKS:
        yield f"Where a line has more than {FEW_MARKS} marks, points of single runs are left out; bars are intervals."
    if failed := sum(len(arm.rows) - arm.n for arm in arms):
        yield f"{counted(failed, 'run')} that did not complete {'has' if failed == 1 else 'have'} no line."
    if any(arm.get("target_stop") for arm in arms):
        yield "Runs ended as soon as they reached their target: the end of a line stands for fewer of them."
    if once := [VALUES[value][1] for value, length in longest.items() if length == 1]:
        yield f"Left out, known at one epoch alone: {listed(once)}."


def _absent(sizes: Sequence[int], left_out: Sequence[str]) -> Iterator[str]:
    if sizes:
        yield f"Of all batch sizes {len(sizes)} are shown: {listed(map(str, sizes), len(sizes))}."
    if left_out:
        yield f"Left out, without curves or beyond the number of panels: {listed_titles(left_out)}."
