"""Two arms beside each other, judged by dlbench's rule, in words: what a README may say of them is decided here."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from dlbench.analysis.arms import LOWER_IS_BETTER, Arm
from dlbench.analysis.claims.claim_check import EQUAL_WORK
from dlbench.analysis.claims.contrast import MOST_REPEATS, POINTS, POWER, Power, contrast
from dlbench.analysis.compare.judgement import NOISE, SIGNIFICANCE, Judgement, JudgementCase, Verdict, judge
from dlbench.analysis.formatting import Unit, listed, number, percent
from dlbench.analysis.statistics.intervals import Interval, ratio_interval

SAME, CLOSE = "cannot be told apart", f"less than {percent(NOISE)} apart"
FEW, UNEQUAL, EMULATED = "too few repeats", "unequal samples", "emulated and real"
ALL = 1_000


def interval_text(interval: Interval | None, written: Callable[[float], str] = number) -> str:
    """Return a median with its interval, such as `1.2 [1.1, 1.3]`; empty where there is none."""
    if interval is None:
        return ""
    return written(interval.value) if interval.low == interval.high else Unit(written).with_ends(interval)


@dataclass(frozen=True)
class Comparison:
    """One arm against another at one place of an axis.

    Attributes:
        place: The value of the axis that both share.
        first: The arm that is spoken of.
        second: What it is compared with.
        column: By what, a column of `runs.csv`.
        judgement: The test, corrected for all places together.
        level: The level that Holm's correction leaves to it.
    """

    place: object
    first: Arm
    second: Arm
    column: str
    judgement: Judgement
    level: float

    @property
    def word(self) -> str:
        """What is said of the first arm: training times decide only where both saw the same number of samples.

        An arm that needs more time for fewer samples is behind all the more; else unequal work is not compared.
        """
        if bool(self.first.emulated) != bool(self.second.emulated):
            return EMULATED
        verdict = self.judgement.verdict
        more = samples(self.first) - samples(self.second) if self.fewer else 0
        ahead, behind = (verdict is Verdict.BETTER, verdict is Verdict.WORSE)
        if self.column == "train_time_s" and more and not (ahead and more > 0) and not (behind and more < 0):
            return UNEQUAL
        if not ahead and not behind:
            return FEW if verdict is Verdict.TOO_FEW else CLOSE if (self.judgement.p or 1) <= SIGNIFICANCE else SAME
        words = ("less", "more") if self.column.endswith("_s") else ("lower", "higher")
        return words[ahead != lower_is_better(self.column)]

    @property
    def ratio(self) -> str:
        """First over second, medians with the interval of their ratio."""
        return interval_text(ratio_interval(self.first.values(self.column), self.second.values(self.column)))

    @property
    def power(self) -> Power | None:
        """What the repeats can show; None where their noise is not known."""
        a, b = self.first.values(self.column), self.second.values(self.column)
        is_ratio = not self.column.endswith(("loss", "accuracy")) and min(*a, *b) > 0
        groups = [tuple(map(math.log, own)) if is_ratio else own for own in (a, b)]
        unit = None if is_ratio else POINTS if self.column.endswith("accuracy") else ""
        found = contrast(
            "", zip((1.0, -1.0), groups, strict=True), above=fmean(groups[0]) > fmean(groups[1]), unit=unit
        )
        return found.weakest.power(self.level / 2)

    @property
    def fewer(self) -> str:
        """By how many samples their work differs; empty where it is equal."""
        a, b = samples(self.first), samples(self.second)
        if max(a, b) <= (1 + EQUAL_WORK) * min(a, b):
            return ""
        return f"{a:,} against {b:,} samples, {percent(abs(a / b - 1))} {'fewer' if a < b else 'more'}"


def samples(arm: Arm) -> int:
    """Return how many samples the runs of an arm trained on."""
    return arm.samples_seen or 0


def lower_is_better(column: str) -> bool:
    """Whether smaller values of a column are better."""
    return LOWER_IS_BETTER.get(column, column.endswith(("_s", "loss")))


def compared(pairs: Sequence[tuple[object, Arm, Arm]], column: str) -> tuple[Comparison, ...]:
    """Judge pairs of arms as one family."""
    lower, is_score = lower_is_better(column), column.endswith(("loss", "accuracy"))
    cases = [JudgementCase(a.values(column), b.values(column), lower, is_score) for _, a, b in pairs]
    judged = judge(cases, 0.0 if is_score else NOISE)
    alone = [found.p_alone for found in judged if found.p_alone is not None]
    levels = [SIGNIFICANCE / max(1, sum(p >= (found.p_alone or 0.0) for p in alone)) for found in judged]
    return tuple(Comparison(*pair, column, *found) for pair, *found in zip(pairs, judged, levels, strict=True))


def rule() -> str:
    """Say when two arms are said to differ."""
    return (
        "Two arms differ where Welch's t-test (of logarithms for times and rates, of the values for scores) is "
        f"significant at {percent(SIGNIFICANCE)} after Holm's correction over the places named in one sentence, and "
        f"where medians of times and rates differ by more than {percent(NOISE)}. Training times are compared only "
        f"between arms whose numbers of samples differ by no more than {percent(EQUAL_WORK)}; emulated arms are never "
        "compared with real ones. Where arms cannot be told apart, a page names the differences that the repeats show "
        f"with a power of {POWER}, and how many repeats would probably tell them apart."
    )


def verdicts(comparisons: Sequence[Comparison], axis: str = "batch") -> str:
    """Return the words of all places: `less (batch 8, 16); too few repeats (batch 32)`; no places without an axis.

    What cannot be told apart has the power of its repeats beside it.
    """
    groups: dict[str, list[Comparison]] = {}
    for one in comparisons:
        groups.setdefault(one.word, []).append(one)
    said = []
    for word, found in groups.items():
        places = f"{axis} {listed((f'{one.place}' for one in found), ALL)}" if axis else ""
        detail = "; ".join(filter(None, (places, _powers(found) if word == SAME else "")))
        said.append(f"**{word}** ({detail})" if detail else f"**{word}**")
    return "; ".join(said)


def _powers(comparisons: Sequence[Comparison]) -> str:
    """Return what the repeats of comparisons show, the smallest and the largest of each number."""
    found = [power for one in comparisons if (power := one.power) is not None]
    if not found:
        return "equal in all repeats"
    differences = sorted(found, key=lambda one: one.smallest)
    enough = sorted(found, key=lambda one: one.needed or MOST_REPEATS + 1)
    ranges = [
        " to ".join(dict.fromkeys((texts[0], texts[-1])))
        for texts in ([one.difference for one in differences], [one.enough for one in enough])
    ]
    return f"differences of {ranges[0]} are shown with a power of {POWER}, {ranges[1]} repeats would probably tell"


def ratios(comparisons: Sequence[Comparison], axis: str = "batch") -> str:
    """Return first over second: at one or two places each with its interval, else the smallest and the largest."""
    if len(comparisons) <= 2:
        return ", ".join(f"{one.ratio}{_at(axis, one.place)}" for one in comparisons)
    found = [median(one.first.values(one.column)) / median(one.second.values(one.column)) for one in comparisons]
    return f"{number(min(found))} to {number(max(found))}"


def unequal(comparisons: Sequence[Comparison], axis: str = "batch") -> str:
    """Say where two arms did not see equally many samples; empty where all did."""
    found = [f"{one.fewer}{_at(axis, one.place)}" for one in comparisons if one.fewer]
    return f" The work was not equal: {'; '.join(found)}." if found else ""


def _at(axis: str, place: object) -> str:
    return f" ({axis} {place})" if axis else ""
