"""What throughput and efficiency are compared with: ideal lines through measured single workers, and base lines."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from dlbench.analysis.arms import Arm, emulation, flags_of
from dlbench.analysis.formatting import listed
from dlbench.analysis.groups import ALONE, by_emulation, described, groups
from dlbench.report.chart import MissingRowsError, Panel, Role, Series, line_mark
from dlbench.report.figures._places import Placed, meanings
from dlbench.report.figures._shown import RATE, WINDOW, label, rate_note
from dlbench.report.lines import EFFICIENCY

if TYPE_CHECKING:
    from dlbench.report.data import ReportData

WHOLE = "as fast as one worker alone"
DEFINITION = (
    "Efficiency is steady samples/s of one of the workers over those of one worker alone at the same batch size; "
    "the interval is Welch's, of logarithms."
)


def with_rates(data: "ReportData") -> list[Arm]:
    """Return the arms with the flags of their rates.

    Raises:
        MissingRowsError: None has a rate.
    """
    if not data.completed:
        raise MissingRowsError("needs completed runs with steady samples/s; no run is completed")
    if not any(arm.values(RATE) for arm in data.arms):
        raise MissingRowsError(
            f"needs completed runs with steady samples/s: {WINDOW} (`extend_window: true` steps on until it is)"
        )
    return [arm.having(flags=flags_of) for arm in data.arms]


def ideals(place: Placed, panel: Panel) -> tuple[list[Series], list[str]]:
    """Return what real runs of several workers could reach at best, then the same of emulated ones, with notes."""
    if place.x != "workers":
        return [], []
    lines: list[Series] = []
    notes = list(meanings(place.part.arms))
    for reasons, arms in by_emulation(arm for arm in place.part.arms if arm.values(RATE) and not arm.is_alone):
        if max(arm.workers for arm in arms) == 1:
            continue
        where = ", ".join(filter(None, (panel.title, "emulated runs" if reasons else ""))) or "this chart"
        base_lines = {id(arm.base_line): arm.base_line for arm in arms if arm.base_line.rates}.values()
        if base_lines:
            rates = [rate for base_line in base_lines for rate in base_line.rates]
            alone = [row.get("emulated") for base_line in base_lines for row in base_line.rows]
            lines.append(_line(f"ideal: {ALONE} x workers", rates, alone, arms))
            notes.append(
                "The ideal line is the measured median of one worker alone, without any communication library, "
                "x workers."
            )
        elif singles := list(_through_single_workers(place.part.keys, arms)):
            lines += singles
            notes.append(
                f"No run of one worker alone is the equal of the arms of {where}: there the ideal line goes through "
                "the strategy's own single worker."
            )
        else:
            notes.append(f"No ideal line where no single worker was measured: {where}.")
    return lines, notes


def _through_single_workers(keys: Sequence[str], arms: Iterable[Arm]) -> Iterator[Series]:
    """Yield a line through each series' own single worker, which has a communication library and no peer."""
    for values, alike in groups(arms, keys):
        if singles := [arm for arm in alike if arm.workers == 1]:
            of = f" of {text}" if (text := described(values)) else ""
            rates = [rate for arm in singles for rate in arm.values(RATE)]
            yield _line(f"ideal: 1 worker{of} x workers", rates, [arm.emulated for arm in singles], alike)


def _line(name: str, rates: Sequence[float], emulated: Iterable[str], arms: Iterable[Arm]) -> Series:
    """Return a straight line through the median of single workers, from one worker as far as the arms go."""
    places = sorted({1, *(arm.workers for arm in arms)})
    marks = tuple(line_mark(float(x), median(rates) * x, len(rates)) for x in places)
    return Series(name, marks, Role.IDEAL, emulation(emulated))


def with_efficiencies(data: "ReportData") -> list[Arm]:
    """Return the arms of several workers, or of one that could communicate, with the efficiency of each run.

    Raises:
        MissingRowsError: No run has a rate, or no arm a base line that is its equal.
    """
    arms = [arm.having(**{EFFICIENCY: arm.efficiency_of}) for arm in with_rates(data) if not arm.is_alone]
    if not any(arm.efficiency for arm in arms):
        raise MissingRowsError(
            "needs completed runs with steady samples/s of one worker alone (`strategy: single` or `baseline: auto`) "
            "that are equal to other arms in model, data, batch size, cores and precision, and as real or emulated"
        )
    return arms


def whole(place: Placed, panel: Panel) -> tuple[list[Series], Iterable[str]]:
    """Return the line at 100 %."""
    places = sorted({mark.x for line in panel.series for mark in line.marks})
    line = Series(WHOLE, tuple(line_mark(x, 1.0) for x in places), Role.IDEAL)
    return [line], meanings(place.part.arms) if place.x == "workers" else ()


def efficiency_notes(data: "ReportData", _: Sequence[Arm]) -> Iterator[str]:
    """Define efficiency, and name the arms that have a rate and nothing to compare it with."""
    yield DEFINITION
    rated = (arm for arm in data.arms if arm.values(RATE) and not arm.is_alone)
    if without := dict.fromkeys(label(arm) for arm in rated if arm.efficiency is None):
        yield f"No efficiency, for lack of a base line with equal settings: {listed(without)}."
    yield from rate_note(data.arms)
