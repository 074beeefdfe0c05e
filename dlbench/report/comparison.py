"""A comparison of two studies: Markdown for a pull request, text for a terminal, CSV for programs, JUnit XML for CI."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from dlbench.analysis.compare.comparison import Change, ChangeKind, Comparison
from dlbench.analysis.formatting import Unit, counted, joined, number, one_line, p_value, percent, unit_of
from dlbench.analysis.judge import LEAST_REPEATS
from dlbench.analysis.statistics.intervals import Interval
from dlbench.analysis.statistics.sequential import SIGNIFICANCE
from dlbench.analysis.summary_tables import defused
from dlbench.records.tables import line
from dlbench.report.exporters.junit import Case, document, suite
from dlbench.report.markdown import escaped, table
from dlbench.scenario.metrics import BUILT_IN

UNKNOWN = "-"
# A comment on a pull request holds 65,536 letters on GitHub; a row takes 200 to 300.
MOST_ROWS = 150
MOST_NOTED = 50
MOST_LETTERS = 120

COLUMNS = ("verdict", "arm", "metric", "base", "new", "new / base", "p", "runs of base", "runs of new")
CSV_COLUMNS = (
    *("verdict", "arm", "metric"),
    *(f"{study}_{what}" for study in ("base", "new") for what in ("median", "low", "high", "n", "runs", "reached")),
    *("ratio", "ratio_low", "ratio_high", "p", "family", "worsening"),
)

# What a reader looks for last.
_LITTLE = (ChangeKind.KEEPS, ChangeKind.CANNOT_BE_TOLD, ChangeKind.TOO_FEW)

# Test cases that nothing was tested in.
_SKIPPED = (ChangeKind.TOO_FEW, ChangeKind.ONLY_IN_BASE)

# GitHub takes these for people and for other pull requests; an HTML comment that is not shown separates them.
_MENTION = re.compile(r"[@#](?=\w)")


def headline(comparison: Comparison) -> str:
    """Return the verdict in one line, such as `2 worse, 1 better, 33 cannot be told`."""
    if comparison.refused:
        return "not comparable"
    counts = [f"{count} {finding}" for finding in ChangeKind if (count := comparison.count(finding))]
    return ", ".join(counts) or "nothing to compare: no number is known in both studies"


def rules(comparison: Comparison) -> Iterator[str]:
    """Yield how the verdicts came about and what speaks against them, a sentence each."""
    if comparison.refused:
        return
    families = [change.judgement.family for change in comparison.changes if change.judgement]
    over = counted(max(families, default=0), "comparison")
    margin = f"{percent(comparison.noise)} of times, rates and losses, 1 point of accuracies"
    if any(change.metric not in {"", *BUILT_IN} for change in comparison.changes):
        margin += ", or what the scenario says matters"
    yield f"Better, worse: by more than {margin}. Keeps: no worse by that. All p <= {SIGNIFICANCE:g}, Holm over {over}."
    yield "Intervals are of each number by itself: where they are apart, the correction may still not tell a change."
    if few := comparison.count(ChangeKind.TOO_FEW):
        can = f"{LEAST_REPEATS} of each arm in both studies can, more where a target was not reached"
        yield f"{counted(few, 'number')} cannot be significant with so few repeats: {can}."
    if comparison.count(ChangeKind.TARGET_LOST):
        tested = [change for change in comparison.changes if change.reached and change.kind is not ChangeKind.TOO_FEW]
        exact = f"Fisher's exact test, Hochberg over {counted(len(tested), 'arm')} with a target"
        yield f"No longer reaches the target: most runs did and none does ({exact}), or most do not (Holm over all)."
    if fails := [change for change in comparison.changes if change.kind is ChangeKind.FAILS_MORE]:
        arms = counted(fails[0].judgement.family if fails[0].judgement else 0, "arm")
        yield f"Fails more often: fewer runs completed (Fisher's exact test, Hochberg over {arms} with failed runs)."
    if comparison.count(ChangeKind.MISSING_MORE):
        exact = "Fisher's exact test, Hochberg over the numbers that some runs lack"
        yield f"Missing in more runs: no completed run has the number now, or fewer do ({exact})."
    kinds = {difference.kind for difference in comparison.warnings}
    if differ := [words for kind, words in (("machine", "machines"), ("versions", "versions")) if kind in kinds]:
        yield f"The {' and '.join(differ)} differ or are unknown and may explain the changes."


def text(comparison: Comparison, laid_out: Callable[[Sequence[str], Sequence[Sequence[str]]], str]) -> str:
    """Return a comparison as plain text: the verdict, the table, what else differs.

    Args:
        comparison: The comparison.
        laid_out: Makes a table of column names and rows of cells.
    """
    parts = [f"{_names(comparison)}: {headline(comparison)}"]
    parts += [f"not comparable: {why}" for why in comparison.refused]
    if comparison.changes:
        parts += ["", laid_out(COLUMNS, [cells(change) for change in _ordered(comparison)]), ""]
    return "\n".join([*parts, *rules(comparison), *_noted(comparison)]) + "\n"


def markdown(comparison: Comparison) -> str:
    """Return a comparison as Markdown: the verdict and what changed; everything else folded."""
    parts = [f"**dlbench: {headline(comparison)}**", "", f"{_escaped(_names(comparison))}."]
    if comparison.refused:
        parts += ["", *(f"- {_escaped(why)}" for why in comparison.refused)]
    ordered = _ordered(comparison)
    if notable := [change for change in ordered if change.kind not in _LITTLE]:
        parts += ["", *_table(notable, MOST_NOTED)]
    if ordered:
        parts += _folded(f"All {counted(len(ordered), 'verdict')}", _table(ordered, MOST_ROWS))
    if noted := [f"- {_escaped(text)}" for text in _noted(comparison)]:
        lines = [*noted[:MOST_NOTED], *_more(len(noted) - MOST_NOTED)]
        parts += _folded(f"What else differs ({len(noted)})", lines)
    parts += ["", *map(_escaped, rules(comparison))]
    return "\n".join(parts).rstrip("\n") + "\n"


def csv(comparison: Comparison) -> str:
    """Return all changes as CSV (RFC 4180), unknown cells empty, no formulas; `CSV_COLUMNS` are its columns."""
    return line(CSV_COLUMNS) + "".join(line(map(defused, _values(change))) for change in comparison.changes)


def junit(comparison: Comparison, regressions: Sequence[Change], problem: str = "") -> str:
    """Return a comparison as JUnit XML: each metric of each arm of the base is a test case; arms not run are skipped.

    Args:
        comparison: The comparison.
        regressions: The changes that a gate fails for.
        problem: Why nothing can be judged, which is an error by itself; empty where it can.
    """
    cases = [Case("comparable", kind="error", type="not comparable", message=problem)] if problem else []
    for change in comparison.changes:
        if change.kind is not ChangeKind.ONLY_IN_NEW:
            name = f"{change.arm}: {change.metric or 'runs'}"
            kind = "failure" if change in regressions else "skipped" if change.kind in _SKIPPED else ""
            cases.append(Case(name, kind=kind, type=change.kind.value, message=_sentence(change)))
    lines = [*map(_sentence, comparison.changes), *rules(comparison), *_noted(comparison)]
    return document([suite(_names(comparison), cases, lines, datetime.now(UTC).isoformat())])


def _sentence(change: Change) -> str:
    """Return a change as a line: what is said, the values, their ratio with its interval, and the certainty."""
    kind, arm, title, base, new, ratio, p, base_runs, new_runs = cells(change)
    by = f" by {percent(change.worsening)}" if change.kind is ChangeKind.WORSE else ""
    runs = f"runs: {base_runs} in base, {new_runs} in new"
    verdict = f"{title} {kind}{by}: {base} in base, {new} in new; new / base {ratio}" if change.metric else kind
    certainty = f"; p {p} corrected over {counted(change.judgement.family, 'comparison')}" if change.judgement else ""
    return f"{arm}: {verdict}{certainty}; {runs}"


def cells(change: Change) -> tuple[str, ...]:
    """Return a change as the cells of a row under `COLUMNS`, plain text in one line."""
    metric = BUILT_IN.get(change.metric)
    title = (change.metric or "all") if metric is None else joined(metric.title, metric.unit)
    unit = Unit(number if metric is None else unit_of(metric).written)
    base, new = change.reached or (None, None)
    sides = (_interval(change.base, unit, base), _interval(change.new, unit, new))
    p = change.judgement.p if change.judgement else None
    of_arm = (change.kind.value, one_line(change.arm, MOST_LETTERS))
    before, _, now, _ = change.whole
    runs = (_runs(before, change.base_runs[1]), _runs(now, change.new_runs[1]))
    ratio = _interval(change.ratio, Unit(number))
    return (*of_arm, title, *sides, ratio, UNKNOWN if p is None else p_value(p), *runs)


def _names(comparison: Comparison) -> str:
    base, new = (one_line(name, MOST_LETTERS) for name in (comparison.base_name, comparison.new_name))
    return f"{new or 'NEW'} against {base or 'BASE'}"


def _noted(comparison: Comparison) -> list[str]:
    return [f"{difference.kind}: {difference.text}" for difference in comparison.warnings]


def _ordered(comparison: Comparison) -> list[Change]:
    """Return the changes by what was found, the worst first."""
    kinds = list(ChangeKind)

    def place(change: Change) -> tuple[int, float]:
        return kinds.index(change.kind), -change.worsening if change.kind is ChangeKind.WORSE else 0.0

    return sorted(comparison.changes, key=place)


def _interval(interval: Interval | None, unit: Unit, num_reached: int | None = None) -> str:
    if interval is None:
        return UNKNOWN
    text = "not reached" if math.isinf(interval.value) else unit.with_ends(interval)
    return text if num_reached in (None, interval.n) else f"{text} ({num_reached}/{interval.n} reached)"


def _runs(completed: int, total: int) -> str:
    if total == 0:
        return UNKNOWN
    return str(total) if completed == total else f"{completed} of {total}"


def _table(changes: Sequence[Change], most: int) -> list[str]:
    rows = [tuple(map(_escaped, cells(change))) for change in changes[:most]]
    return [*table(COLUMNS, rows), *_more(len(changes) - most)]


def _more(left_out: int) -> list[str]:
    return ["", f"... and {left_out} more, which `--format csv` has."] if left_out > 0 else []


def _folded(title: str, lines: Iterable[str]) -> list[str]:
    # Markdown inside HTML is read as such only between empty lines.
    return ["", "<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>"]


def _escaped(text: str) -> str:
    """Return a text that Markdown, HTML and GitHub show as it is, without calling anyone's attention."""
    return _MENTION.sub(r"\g<0><!-- -->", escaped(text))


def _values(change: Change) -> list[object]:
    """Return a change as the cells of a row under `CSV_COLUMNS`; what is infinite is unknown."""
    base, new, ratio = (
        (side.value, side.low, side.high, side.n) if side else (None,) * 4
        for side in (change.base, change.new, change.ratio)
    )
    judged = (change.judgement.p, change.judgement.family) if change.judgement else (None,) * 2
    base_reached, new_reached = change.reached or (None, None)
    sides = (*base, change.base_runs[1], base_reached, *new, change.new_runs[1], new_reached, *ratio[:3])
    cells = (change.kind.value, change.arm, change.metric, *sides, *judged, change.worsening if change.new else None)
    return [None if isinstance(value, float) and not math.isfinite(value) else value for value in cells]
