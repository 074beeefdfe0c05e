"""Published numbers beside measured ones: as series of a chart, and as verdicts on what their study claims."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlbench.analysis.claims.claim_check import check_claims
from dlbench.analysis.claims.claim_tests import ClaimState
from dlbench.analysis.formatting import counted, listed
from dlbench.analysis.statistics.intervals import Interval, median_interval, ratio_interval
from dlbench.records import files
from dlbench.report.chart import Axis, Mark, Panel, Role, Series
from dlbench.report.data import ReportData, StudyData
from dlbench.scenario import reference
from dlbench.scenario.claims import PLACES
from dlbench.scenario.reference import Reference


@dataclass(frozen=True)
class ClaimResult:
    """What is said of one claim of a published study.

    Attributes:
        reference: Whose claim it is.
        claim: The claim, whether it is inferred, and of which runs, as a sentence without a full stop.
        state: holds, does not hold, or cannot be told.
        why: The reason, as a sentence without a full stop; says so where the runs are emulated.
    """

    reference: str
    claim: str
    state: ClaimState
    why: str


def of(source: StudyData) -> Reference | None:
    """Return the published numbers that a study keeps a copy of; None where it has none.

    Raises:
        UserError: Its `reference.csv` is not of the form.
    """
    path = source.path / files.REFERENCE
    return reference.read(path) if path.is_file() else None


def compared(data: ReportData) -> dict[Reference, list[str]]:
    """Return each reference with the names of all studies of the report that are compared with it.

    Raises:
        UserError: A `reference.csv` is not of the form.
    """
    studies_of: dict[Reference, list[str]] = {}
    for source in data.studies:
        if claimed := of(source):
            studies_of.setdefault(claimed, []).append(source.name)
    return studies_of


def verdicts(data: ReportData) -> tuple[ClaimResult, ...]:
    """Return what the report's runs say of each claim of each reference, in the references' order.

    Studies that name the same reference are judged together: a claim may be about two of them.

    Raises:
        UserError: A `reference.csv` is not of the form.
    """
    results = []
    for claimed, studies in compared(data).items():
        # Where groups of runs get the same words on a claim, that is said once.
        families: dict[ClaimResult, list[str]] = {}
        for check in check_claims([arm for arm in data.arms if arm.study in studies], claimed):
            emulated = f"on emulated hardware ({check.emulated.replace(';', ', ')}): " if check.emulated else ""
            claim, why = check.claim.said(claimed.x), f"{emulated}{check.verdict.why}"
            families.setdefault(ClaimResult(claimed.source, claim, check.verdict.state, why), []).append(check.family)
        for words, names in families.items():
            of = listed(filter(None, names), separator="; ")
            results.append(replace(words, claim=f"{words.claim} ({of})") if of else words)
    return tuple(results)


def published(found: Reference, column: str, measured: Sequence[Series] = ()) -> tuple[Series, ...]:
    """Return the published curves of a column, one for each series that has any value.

    Each has the colour of the first of the `measured` ones that bears its name, such as scale-up.
    """
    curves = []
    for name in found.names:
        curve = found.curve(column, name)
        if marks := tuple(Mark(x, values if len(values) > 1 else (), median_interval(values)) for x, values in curve):
            like = next(
                (like_curve.label for like_curve in measured if name and name in like_curve.label.split(", ")), ""
            )
            curves.append(Series(", ".join(filter(None, (found.source, name))), marks, Role.PUBLISHED, like=like))
    return tuple(curves)


def relative_panel(panel: Panel, x: str) -> Panel | None:
    """Return a panel in which each measured and published curve is divided by its own median at one place.

    That is the first place at which all published curves and a measured one have a value. Curves without a value
    there or with no other one, base lines and ideals are left out; None without such a place or a published curve.

    Args:
        panel: The measured and the published curves.
        x: What the places are called.
    """
    ours, theirs = ([curve for curve in panel.series if curve.role is role] for role in (Role.MEASURED, Role.PUBLISHED))
    shared = set.intersection(*map(_places, theirs)) if theirs else set()
    base = min(shared & set().union(*map(_places, ours)), default=None)
    if base is None:
        return None
    curves = (relative(curve, base) for curve in (*ours, *theirs) if len(_places(curve)) > 1)
    shown = tuple(filter(None, curves))
    if not any(curve.role is Role.MEASURED for curve in shown):
        return None
    # Such as `at batch size 8`, `at 1 worker`.
    at = f"at {counted(int(base), 'worker')}" if x == "workers" else f"at {PLACES.get(x, x)} {base:g}"
    title = ": ".join(filter(None, (panel.title, f"relative to its own {at}")))
    axis = Axis(f"{panel.y.label.partition(' (')[0]} / the line's own {at}", low=0.0)
    return replace(panel, title=title, y=axis, series=shown)


def _places(curve: Series) -> set[float]:
    return {mark.x for mark in curve.marks if mark.interval is not None}


def relative(curve: Series, base: float) -> Series | None:
    """Return a curve divided by its median at `base`; None where that is unknown or not above zero.

    Intervals are those of the ratio of two medians; at the base itself it is 1 by definition and has none.
    """
    first = next((mark for mark in curve.marks if mark.interval is not None and mark.x == base), None)
    if first is None or first.interval is None or not first.interval.value > 0:
        return None
    marks, unit = [], first.interval.value
    for mark in curve.marks:
        points, ended = (tuple(value / unit for value in values) for values in (mark.points, mark.ended))
        interval = mark.interval and Interval(mark.interval.value / unit, None, None, mark.interval.n, None)
        if interval and mark is not first and mark.points and first.points and min(first.points) > 0:
            interval = ratio_interval(mark.points, first.points)
        marks.append(replace(mark, points=points, interval=interval, ended=ended, flags="", name=""))
    return replace(curve, marks=tuple(marks))
