"""What throughput and efficiency are compared with: ideal lines through measured single workers, and base lines."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median

from dlbench.analysis.arms import EFFICIENCY, Arm, Row, emulation, flags_of
from dlbench.analysis.formatting import listed
from dlbench.analysis.groups import ALONE, by_emulation, described, groups
from dlbench.report.chart import MissingRowsError, Panel, Role, Series, line_mark
from dlbench.report.figures._curves import run_of
from dlbench.report.figures._places import meanings
from dlbench.report.figures._shown import RATE, WINDOW, label, rate_note
from dlbench.report.lines import FLAGS, Part

WHOLE = "as fast as one worker alone"
IDEAL_IS = (
    "Ideal: the median of one worker x workers; of one worker alone, without any communication library, if measured."
)


def with_rates(arms: Sequence[Arm]) -> list[Arm]:
    """Return the arms with the flags of their rates.

    Raises:
        MissingRowsError: None has a rate.
    """
    if not any(arm.values(RATE) for arm in arms):
        raise MissingRowsError(
            f"needs completed runs with steady samples/s: {WINDOW} (`extend_window: true` steps on until it is)"
        )
    return [arm.having(**{FLAGS: flags_of}) for arm in arms]


def with_ideals(part: Part, panel: Panel) -> tuple[Panel, list[str]]:
    """Return a panel with what real runs of several workers could reach at best, then the same of emulated ones.

    That is a straight line on axes that are both logarithmic.
    """
    if part.x != "workers":
        return panel, []
    lines: list[Series] = []
    for _, arms in by_emulation(arm for arm in part.arms if arm.values(RATE) and not arm.is_alone):
        base = {run_of(row): row for arm in arms for row in arm.base_line if row.get(RATE)}
        if max(arm.workers for arm in arms) == 1:
            continue
        if alone := list(base.values()):
            lines.append(_line(f"ideal: {ALONE} x workers", alone, arms))
        else:
            lines += _through_single_workers(part.keys, arms)
    notes = [*meanings(part.arms), *[IDEAL_IS] * bool(lines)]
    return replace(panel, y=replace(panel.y, scale="log10", low=None), series=(*panel.series, *lines)), notes


def _through_single_workers(keys: Sequence[str], arms: Iterable[Arm]) -> Iterator[Series]:
    """Yield a line through each series' own single worker, which has a communication library and no peer."""
    for values, alike in groups(arms, keys):
        if single := [row for arm in alike if arm.workers == 1 for row in arm.completed if row.get(RATE)]:
            of = f" of {text}" if (text := described(values)) else ""
            yield _line(f"ideal: 1 worker{of} x workers", single, alike)


def _line(name: str, single: Sequence[Row], arms: Iterable[Arm]) -> Series:
    """Return a straight line through the median of single workers, from one worker as far as the arms go."""
    rate = median(row[RATE] for row in single)
    marks = (line_mark(float(x), rate * x, len(single)) for x in sorted({1, *(arm.workers for arm in arms)}))
    return Series(name, tuple(marks), Role.IDEAL, emulation(row.get("emulated") for row in single))


def with_efficiencies(every: Sequence[Arm]) -> list[Arm]:
    """Return the arms of several workers, or of one that could communicate, with the efficiency of each run.

    Raises:
        MissingRowsError: No run has a rate, or no arm a base line that is its equal.
    """
    arms = [arm.having(**{EFFICIENCY: arm.efficiency_of}) for arm in with_rates(every) if not arm.is_alone]
    if not any(arm.efficiency for arm in arms):
        raise MissingRowsError(
            "needs completed runs with steady samples/s of one worker alone (`strategy: single` or `baseline: auto`) "
            "that are equal to other arms in model, data, batch size, cores and precision, and as real or emulated"
        )
    return arms


def with_whole(part: Part, panel: Panel) -> tuple[Panel, Iterable[str]]:
    """Return a panel with the line at 100 %."""
    places = sorted({mark.x for line in panel.series for mark in line.marks})
    line = Series(WHOLE, tuple(line_mark(x, 1.0) for x in places), Role.IDEAL)
    return replace(panel, series=(*panel.series, line)), meanings(part.arms) if part.x == "workers" else ()


def efficiency_notes(arms: Sequence[Arm], _: Sequence[Arm]) -> Iterator[str]:
    """Name the arms that have a rate and nothing to compare it with."""
    rated = (arm for arm in arms if arm.values(RATE) and not arm.is_alone)
    if without := dict.fromkeys(label(arm) for arm in rated if arm.efficiency is None):
        yield f"No efficiency, for lack of a base line with equal settings: {listed(without)}."
    yield from rate_note(arms, arms)
