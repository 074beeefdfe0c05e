"""A comparison of two studies: Markdown for a pull request, text for a terminal, CSV for programs, JUnit XML for CI."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from dlbench.analysis.compare.comparison import Change, ChangeKind, Comparison
from dlbench.analysis.formatting import Unit, counted, number, one_line, p_value, percent, unit_of
from dlbench.analysis.judge import LEAST_REPEATS, SIGNIFICANCE
from dlbench.analysis.statistics.intervals import Interval
from dlbench.analysis.summary_tables import defused
from dlbench.errors import shorten
from dlbench.records.tables import line
from dlbench.report.junit import Case, Problem, Suite, document
from dlbench.report.markdown import escaped, items, table
from dlbench.scenario.metrics import BUILT_IN

UNKNOWN = "-"
# A comment on a pull request holds 65,536 letters on GitHub; a row takes 200 to 300.
MOST_ROWS = 150
MOST_NOTED = 50
MOST_LETTERS = 120

COLUMNS = ("verdict", "arm", "metric", "base", "new", "new / base", "p", "runs of base", "runs of new")
CSV_COLUMNS = (
    *("verdict", "arm", "metric"),
    *("base_median", "base_low", "base_high", "base_n", "base_runs"),
    *("new_median", "new_low", "new_high", "new_n", "new_runs"),
    *("ratio", "ratio_low", "ratio_high", "p", "family", "worsening"),
)

# What a reader looks for first.
_NOTABLE = set(ChangeKind) - {ChangeKind.KEEPS, ChangeKind.CANNOT_BE_TOLD, ChangeKind.TOO_FEW}
_KINDS = {"machine": "machines", "versions": "versions"}
_ORDER = {finding: place for place, finding in enumerate(ChangeKind)}

# GitHub takes these for people and for other pull requests; an HTML comment that is not shown separates them.
_MENTION = re.compile(r"[@#](?=\w)")

Layout = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


def headline(comparison: Comparison) -> str:
    """Return the verdict in one line, such as `2 worse, 1 better, 33 cannot be told`."""
    if comparison.refused:
        return "not comparable"
    counts = [f"{count} {finding}" for finding in ChangeKind if (count := comparison.count(finding))]
    return ", ".join(counts) or "nothing to compare: no number is known in both studies"


def rules(comparison: Comparison) -> list[str]:
    """Return how the verdicts came about and what speaks against them, a sentence each."""
    if comparison.refused:
        return []
    over = counted(comparison.family, "comparison")
    margin = f"{percent(comparison.noise)} of times, rates and losses, 1 point of accuracies"
    said = [
        f"Better, worse: by more than {margin}. Keeps: no worse by that. All p <= {SIGNIFICANCE:g}, Holm over {over}."
    ]
    said.append(
        "Intervals are of each number by itself: where they are apart, the correction may still not tell a change."
    )
    if few := comparison.count(ChangeKind.TOO_FEW):
        said.append(
            f"{counted(few, 'number')} cannot be significant with so few repeats: "
            f"{LEAST_REPEATS} of each arm in both studies can, more where a target was not reached."
        )
    kinds = {difference.kind for difference in comparison.warnings}
    if differ := [word for kind, word in _KINDS.items() if kind in kinds]:
        said.append(f"The {' and '.join(differ)} differ or are unknown and may explain the changes.")
    return said


def text(comparison: Comparison, laid_out: Layout) -> str:
    """Return a comparison as plain text: the verdict, the table, what else differs.

    Args:
        comparison: The comparison.
        laid_out: Makes a table of column names and rows of cells.
    """
    parts = [f"{_names(comparison)}: {headline(comparison)}"]
    parts += [f"not comparable: {why}" for why in comparison.refused]
    if comparison.changes:
        parts += ["", laid_out(COLUMNS, [cells(change) for change in _ordered(comparison.changes)]), ""]
    parts += rules(comparison)
    parts += [f"{difference.kind}: {difference.text}" for difference in comparison.warnings]
    return "\n".join(parts) + "\n"


def markdown(comparison: Comparison) -> str:
    """Return a comparison as Markdown: the verdict and what changed; everything else folded."""
    parts = [f"**dlbench: {headline(comparison)}**", "", f"{_escaped(_names(comparison))}."]
    if comparison.refused:
        parts += ["", *items(map(_escaped, comparison.refused))]
    ordered = _ordered(comparison.changes)
    notable = [change for change in ordered if change.kind in _NOTABLE]
    if notable:
        parts += ["", *_table(notable, MOST_NOTED)]
    if comparison.changes:
        title = f"All {counted(len(comparison.changes), 'verdict')}"
        parts += ["", *_folded(title, _table(ordered, MOST_ROWS))]
    if comparison.warnings:
        title = f"What else differs ({len(comparison.warnings)})"
        told = [f"{difference.kind}: {_escaped(difference.text)}" for difference in comparison.warnings]
        parts += ["", *_folded(title, [*items(told[:MOST_NOTED]), *_more(len(told) - MOST_NOTED)])]
    parts += ["", *map(_escaped, rules(comparison))]
    return "\n".join(parts).rstrip("\n") + "\n"


def csv(comparison: Comparison) -> str:
    """Return all changes as CSV (RFC 4180), unknown cells empty, no formulas; `CSV_COLUMNS` are its columns."""
    return line(CSV_COLUMNS) + "".join(line(map(defused, _values(change))) for change in comparison.changes)


def junit(comparison: Comparison, regressions: Sequence[Change], problem: str = "") -> str:
    """Return a comparison as JUnit XML: each metric of each arm that both studies have is a test case.

    Args:
        comparison: The comparison.
        regressions: The changes that a gate fails for.
        problem: Why nothing can be judged, which is an error of its own; empty where it can.
    """
    compared = [change for change in comparison.changes if change.base_runs[1] and change.new_runs[1]]
    cases = [
        Case(f"{change.arm}: {change.metric or 'runs'}", problem=_problem(change, is_worse=change in regressions))
        for change in compared
    ]
    if problem:
        cases.insert(0, Case("comparable", problem=Problem("error", "not comparable", problem)))
    lines = [_sentence(change) for change in comparison.changes] + rules(comparison)
    lines += [f"{difference.kind}: {difference.text}" for difference in comparison.warnings]
    return document([Suite(_names(comparison), cases, lines, moments=[datetime.now(UTC).isoformat()])])


def _problem(change: Change, *, is_worse: bool) -> Problem | None:
    if is_worse:
        return Problem("failure", change.kind.value, _sentence(change))
    return Problem("skipped", "", _sentence(change)) if change.kind is ChangeKind.TOO_FEW else None


def _sentence(change: Change) -> str:
    """Return a change as a line: what is said, the values, their ratio with its interval, and the certainty."""
    kind, arm, title, base, new, ratio, p, base_runs, new_runs = cells(change)
    by = f" by {percent(change.worsening)}" if change.kind is ChangeKind.WORSE else ""
    runs = f"runs: {base_runs} in base, {new_runs} in new"
    if change.judgement is None:
        return f"{arm}: {kind}; {runs}"
    certainty = f"p {p} corrected over {counted(change.judgement.family, 'comparison')}"
    return f"{arm}: {title} {kind}{by}: {base} in base, {new} in new; new / base {ratio}; {certainty}; {runs}"


def cells(change: Change) -> tuple[str, ...]:
    """Return a change as the cells of a row under `COLUMNS`, plain text in one line."""
    metric = BUILT_IN.get(change.metric)
    title = (change.metric or "all") if metric is None else ", ".join(filter(None, (metric.title, metric.unit)))
    unit = Unit(number) if metric is None else Unit(unit_of(metric).written)
    p = change.judgement.p if change.judgement else None
    return (
        change.kind.value,
        shorten(one_line(change.arm), MOST_LETTERS),
        title,
        _interval(change.base, unit),
        _interval(change.new, unit),
        UNKNOWN if change.ratio is None else Unit(number).with_ends(change.ratio),
        UNKNOWN if p is None else p_value(p),
        _runs(change.base_runs),
        _runs(change.new_runs),
    )


def _names(comparison: Comparison) -> str:
    base, new = (shorten(one_line(name), MOST_LETTERS) for name in (comparison.base_name, comparison.new_name))
    return f"{new or 'NEW'} against {base or 'BASE'}"


def _ordered(changes: Iterable[Change]) -> list[Change]:
    """Return the changes by what was found, the worst first."""
    return sorted(changes, key=lambda change: (_ORDER[change.kind], _place(change)))


def _place(change: Change) -> float:
    return -change.worsening if change.kind is ChangeKind.WORSE else 0.0


def _interval(interval: Interval | None, unit: Unit) -> str:
    if interval is None:
        return UNKNOWN
    return "not reached" if math.isinf(interval.value) else unit.with_ends(interval)


def _runs(runs: tuple[int, int]) -> str:
    completed, total = runs
    if total == 0:
        return UNKNOWN
    return str(total) if completed == total else f"{completed} of {total}"


def _table(changes: Sequence[Change], most: int) -> list[str]:
    rows = [tuple(map(_escaped, cells(change))) for change in changes]
    return [*table(COLUMNS, rows[:most]), *_more(len(rows) - most)]


def _more(left_out: int) -> list[str]:
    return ["", f"... and {left_out} more, which `--format csv` has."] if left_out > 0 else []


def _folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    # Markdown inside HTML is read as such only between empty lines.
    yield from ("<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>")


def _escaped(text: str) -> str:
    """Return a text that Markdown, HTML and GitHub show as it is, without calling anyone's attention."""
    return _MENTION.sub(r"\g<0><!-- -->", escaped(text))


def _values(change: Change) -> Iterator[object]:
    yield from (change.kind.value, change.arm, change.metric)
    for interval, (_, total) in ((change.base, change.base_runs), (change.new, change.new_runs)):
        yield from _ends(interval)
        yield from (interval.n if interval else None, total)
    yield from _ends(change.ratio)
    judgement = change.judgement
    yield from ((judgement.p, judgement.family) if judgement else (None, None))
    yield _finite(change.worsening if judgement else None)


def _ends(interval: Interval | None) -> tuple[float | None, ...]:
    if interval is None:
        return (None, None, None)
    return tuple(map(_finite, (interval.value, interval.low, interval.high)))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
