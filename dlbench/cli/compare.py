"""`dlbench compare`: what a new study has better or worse than a base, for people and for a gate."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlbench.analysis.formatting import counted, percent
from dlbench.cli import COMPLETED, options, tables
from dlbench.errors import UserError, first_of, nearest, shown

if TYPE_CHECKING:
    from dlbench.analysis.compare.comparison import Change, Comparison

REGRESSION = 3
# With fewer a gate hardly ever finds what is worse: docs/reports.md has the numbers.
ENOUGH_REPEATS = 5
# What may differ between two studies without making them incomparable, but makes a gate meaningless.
IGNORABLE = ("machine", "versions")
MOST_REASONS = 5


def read_share(text: str) -> float:
    """Return a share of one, written as `5%` or `0.05`.

    Raises:
        UserError: It is not a share, or a plain 5, which may mean either.
    """
    digits = text.strip()
    try:
        share = float(digits.removesuffix("%")) / (100 if digits.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 <= share < math.inf or (share >= 1 and not digits.endswith("%")):
        raise UserError(f"{shown(text)} is not a percentage: write 5% or 0.05")
    return share


@click.command("compare")
@click.argument("base", type=options.path, shell_complete=options.study_paths)
@click.argument("new", type=options.path, shell_complete=options.study_paths)
@click.option(
    "--fail-above", metavar="5%",
    help="Exit with 3 where a median is worse by more than this, significantly, an arm fails more, or loses a target "
    "or a metric.",
)  # fmt: skip
@click.option(
    "--noise", default="2%", show_default=True, metavar="2%",
    help="The smallest difference of times, rates and losses that matters.",
)  # fmt: skip
@click.option(
    "--format", "form", type=click.Choice(["text", "markdown", "csv", "junit"]), default="text", show_default=True,
    help="Output format; markdown suits a pull request, junit the tests of a CI system.",
)  # fmt: skip
@click.option("--output", type=options.path, metavar="FILE", help="Output file.")
@click.option(
    "--ignore", multiple=True, metavar="machine,versions",
    help="Let --fail-above judge although these differ, or are not known.",
)  # fmt: skip
def command(
    base: Path, new: Path, fail_above: str | None, noise: str, form: str, output: Path | None, ignore: tuple[str, ...]
) -> int:
    """Compare the arms of the study NEW with those of BASE.

    Arms that both have are compared by training time, time to target, accuracy, loss and steady throughput. Studies
    with other data, models or settings are refused.

    Exit code: 0, 3 where something got worse by more than --fail-above, 2 for a mistake or studies that cannot be
    compared.
    """
    from dlbench.analysis.compare.comparison import compare
    from dlbench.report.data import read, require_distinct

    ignored, share = read_ignored(ignore), read_share(noise)
    allowed = None if fail_above is None else read_share(fail_above)
    before, after = read([base]), read([new])
    require_distinct(before.studies[0], after.studies[0])
    machines, metrics = (before.studies[0].machine, after.studies[0].machine), (before.metrics, after.metrics)
    ours, theirs = ([arm for arm in study.judged_arms if arm.attempts] for study in (before, after))
    for path, ended in ((base, ours), (new, theirs)):
        if not ended:
            raise UserError(f"{path}: no run has ended: all were interrupted", hint=f"dlbench run --study {path}")
    comparison = compare(ours, theirs, share, machines=machines, metrics=metrics)
    # Names may be equal, of studies and of their folders; paths are not.
    names = (comparison.base_name, comparison.new_name), (base.resolve().name, new.resolve().name), (base, new)
    base_name, new_name = next((str(ours), str(theirs)) for ours, theirs in names if ours != theirs)
    comparison = replace(comparison, base_name=base_name, new_name=new_name)
    code, refusal = COMPLETED, None
    try:
        code = _verdict(comparison, allowed, ignored)
    except UserError as error:
        refusal = error
    if output is not None:
        options.write_file(output, _rendered(comparison, form, allowed, refusal))
    elif not comparison.refused:
        click.echo(_rendered(comparison, form, allowed, refusal), nl=False)
    if refusal is not None:
        raise refusal
    return code


def read_ignored(texts: tuple[str, ...]) -> frozenset[str]:
    """Return the words of `--ignore`, which may be given again or joined by commas.

    Raises:
        UserError: One is not among IGNORABLE.
    """
    words = [word.strip() for text in texts for word in text.split(",") if word.strip()]
    if wrong := next((word for word in words if word not in IGNORABLE), None):
        allowed = " and ".join(IGNORABLE)
        raise UserError(f"--ignore {wrong!r}: only {allowed} can be ignored", hint=nearest(wrong, IGNORABLE))
    return frozenset(words)


def _rendered(found: "Comparison", form: str, allowed: float | None, refusal: UserError | None) -> str:
    from dlbench.report import comparison

    if form == "junit":
        # Without a gate nothing fails; where it refuses to judge, that is what is wrong.
        regressions = () if allowed is None or refusal else found.regressions(allowed)
        return comparison.junit(found, regressions, str(refusal or ""))
    if form == "markdown":
        return comparison.markdown(found)
    return comparison.csv(found) if form == "csv" else comparison.text(found, tables.plain)


def _verdict(found: "Comparison", allowed: float | None, ignored: frozenset[str]) -> int:
    """Return the exit code: of a gate, if there is one.

    Raises:
        UserError: The studies cannot be compared, or machine or versions differ and are not ignored, so that a verdict
            would say nothing of what was changed, or the gate cannot judge.
    """
    if found.refused:
        raise UserError(
            "the studies cannot be compared: " + "; ".join(first_of(found.refused, MOST_REASONS, "and {} more")),
            hint="settings are compared within one study: an axis of its scenario, or rows of one imported table",
        )
    if allowed is None:
        return COMPLETED
    if differing := [difference for difference in found.warnings if difference.kind in set(IGNORABLE) - ignored]:
        kinds = [kind for kind in IGNORABLE if any(difference.kind == kind for difference in differing)]
        texts = "; ".join(difference.text for difference in differing[:MOST_REASONS])
        raise UserError(
            f"--fail-above cannot judge: the studies differ, or may differ, in {' and '.join(kinds)}: {texts}",
            hint=f"to ignore this: --ignore {','.join(kinds)}",
        )
    return _judge(found, allowed)


def _judge(found: "Comparison", allowed: float) -> int:
    """Say what is worse by more than is allowed, and return the exit code.

    Raises:
        UserError: Nothing could have been found worse: such a gate passes whatever happens.
    """
    from dlbench.analysis.compare.comparison import ChangeKind

    regressions = found.regressions(allowed)
    for change in regressions:
        what = str(change.kind)
        if change.kind is ChangeKind.TARGET_LOST and (counts := change.reaching):
            what += f" ({_counts(*counts)})"
        elif change.kind in (ChangeKind.FAILS_MORE, ChangeKind.MISSING_MORE):
            what = _whole(change)
        elif change.metric:
            what = f"{change.metric} worse by {percent(change.worsening)}"
        click.echo(f"dlbench: {change.arm}: {what}", err=True)
    if regressions:
        return REGRESSION
    if not found.can_show_anything:
        raise UserError(
            f"--fail-above cannot judge: with so few repeats nothing can be significant{_fewer(found)}",
            hint=f"run both studies with `--repeats {ENOUGH_REPEATS}` or more",
        )
    click.echo(f"dlbench: {_passed(found, allowed)}", err=True)
    return COMPLETED


def _whole(change: "Change") -> str:
    return f"{f'{change.metric} in' if change.metric else 'completed'} {_counts(*change.whole)}"


def _counts(before: int, base: int, now: int, new: int) -> str:
    return f"{now} of {counted(new, 'run')}, before {before} of {base}"


def _passed(found: "Comparison", allowed: float) -> str:
    """Say what a gate that lets a study pass has seen, and where that is little."""
    from dlbench.analysis.compare.comparison import ChangeKind

    unknown = found.count(ChangeKind.CANNOT_BE_TOLD) + found.count(ChangeKind.TOO_FEW)
    text = f"no median is worse by more than {100 * allowed:.3g}% and by more than chance"
    if unknown:
        compared = sum(bool(change.metric) for change in found.changes)
        text += f"; {unknown} of {counted(compared, 'comparison')} cannot be told"
    both = [change for change in found.changes if change.base_runs[1] and change.new_runs[1]]
    repeats = min((min(change.whole[::2]) for change in both), default=0)
    if repeats < ENOUGH_REPEATS:
        text += f": with {counted(repeats, 'repeat')} a gate finds little, {ENOUGH_REPEATS} are enough"
    worse = sorted((each for each in found.changes if each.kind is ChangeKind.WORSE), key=lambda each: -each.worsening)
    if less := [f"{each.arm}: {each.metric} by {percent(each.worsening)}" for each in worse]:
        text += f"; {len(less)} worse by less: " + ", ".join(first_of(less, MOST_REASONS, "and {} more"))
    if missing := found.count(ChangeKind.ONLY_IN_BASE):
        text += f"; {counted(missing, 'arm')} of the base {'was' if missing == 1 else 'were'} not run"
    return text + _fewer(found)


def _fewer(found: "Comparison") -> str:
    """Say which arms complete, have a metric or reach their target in fewer runs than before."""
    both = [change for change in found.changes if change.base_runs[1] and change.new_runs[1]]
    # Of an arm, of a metric, and of a target.
    every = [(_whole(view), view.whole, each) for each in both for view in (replace(each, metric=""), each)]
    every += [(f"target reached in {_counts(*each.reaching)}", each.reaching, each) for each in both if each.reaching]
    fewer = [f"; {each.arm}: {text}" for text, (before, base, now, new), each in every if now * base < before * new]
    return "".join(first_of(list(dict.fromkeys(fewer)), MOST_REASONS, "; and {} more"))
