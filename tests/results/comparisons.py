"""Two arms beside each other, judged by dlbench's rule, in words: what a README may say of them is decided here."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from dlbench.analysis.arms import Arm
from dlbench.analysis.claims.claim_check import EQUAL_WORK
from dlbench.analysis.formatting import Unit, difference, listed, number, percent
from dlbench.analysis.groups import TASK
from dlbench.analysis.judge import ENOUGH_REPEATS, LEAST_REPEATS, MOST_REPEATS, POWER, Family, Judgement, Verdict, judge
from dlbench.analysis.statistics.intervals import Interval, ratio_interval
from dlbench.analysis.statistics.sequential import SIGNIFICANCE
from dlbench.scenario.metrics import BUILT_IN, TIME_TO_TARGET, Metric

SAME, CLOSE = "open", "no worse"
FEW, UNEQUAL, EMULATED, MISSED = "too few repeats", "unequal samples", "emulated and real", "not judged"
ALL = 1_000
# The names of arms, and their family.
Judged = tuple[Sequence[str], Family]


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
        judgement: What is shown, all arms of the study together.
    """

    place: object
    first: Arm
    second: Arm
    column: str
    judgement: Judgement

    @property
    def word(self) -> str:
        """What is said of the first arm: training times decide only where both saw the same number of samples.

        An arm that needs more time for fewer samples is behind all the more; else unequal work is not compared.
        """
        if bool(self.first.emulated) != bool(self.second.emulated):
            return EMULATED
        if self.missed:
            return MISSED
        ahead, behind = self.judgement.is_better, self.judgement.verdict is Verdict.LOSES
        more = samples(self.first) - samples(self.second) if self.fewer else 0
        if self.column == "train_time_s" and more and not (ahead and more > 0) and not (behind and more < 0):
            return UNEQUAL
        if min(self.first.n, self.second.n) < LEAST_REPEATS:
            return FEW
        if not ahead and not behind:
            return CLOSE if self.judgement.verdict is Verdict.KEEPS else SAME
        words = ("less", "more") if self.column.endswith("_s") else ("lower", "higher")
        return words[ahead == metric_of(self.column).is_higher_better]

    @property
    def ratio(self) -> str:
        """First over second, medians with the interval of their ratio; how many got there, where not all of an arm."""
        return self.missed or interval_text(
            ratio_interval(self.first.values(self.column), self.second.values(self.column))
        )

    @property
    def missed(self) -> str:
        """How many runs of an arm reached the target, where that is the question and not all of them did."""
        if self.column != TIME_TO_TARGET.column:
            return ""
        reached = ((len(arm.values(self.column)), arm.n) for arm in (self.first, self.second))
        return next((f"{count} of {tried} reached it" for count, tried in reached if count < tried), "")

    @property
    def fewer(self) -> str:
        """By how many samples their work differs; empty where it is equal."""
        a, b = samples(self.first), samples(self.second)
        if max(a, b) <= (1 + EQUAL_WORK) * min(a, b):
            return ""
        return f"{a:,} against {b:,} samples, {percent(abs(a / b - 1))} {'fewer' if a < b else 'more'}"


def samples(arm: Arm) -> int:
    """Return how many samples the runs of an arm trained on."""
    seen = arm.values("samples_seen")
    return round(median(seen)) if seen else 0


def metric_of(column: str) -> Metric:
    """Return the metric of a column; of a column that nobody is judged by, less is better and 2% matter."""
    return BUILT_IN.get(column) or Metric(column, column.replace("_", " "), False, 0.02, is_share=True)


def compared(
    pairs: Sequence[tuple[object, Arm, Arm]], column: str, arms: Sequence[Arm], answered: Sequence[Judged] = ()
) -> tuple[Comparison, ...]:
    """Judge pairs of arms as the answer does.

    A pair that the answer judges has its verdict; others are judged among all arms of their task that have the column,
    real ones or emulated ones.

    Args:
        pairs: The place, the arm that is spoken of and what it is compared with.
        column: By what.
        arms: All arms of the study.
        answered: Families of the answer in this column, each with the names of its arms.
    """
    found = []
    for place, first, second in pairs:
        own = [arm for arm in arms if arm.values(column) and _kind(arm) == _kind(first)]
        known = next((one for one in answered if {first.name, second.name} <= set(one[0])), None)
        if known is not None:
            one = known[1].pair(known[0].index(first.name), known[0].index(second.name))
        elif second in own:
            values = [{repeat: v for repeat, v in arm.comparable(column).items() if math.isfinite(v)} for arm in own]
            family = judge(values, metric_of(column))
            one = family.pair(own.index(first), own.index(second))
        else:
            one = Judgement(Verdict.OPEN)
        found.append(Comparison(place, first, second, column, one))
    return tuple(found)


def _kind(arm: Arm) -> tuple[object, ...]:
    return bool(arm.emulated), *(arm.first.get(key) for key in TASK)


def rule() -> str:
    """Say when two arms are said to differ."""
    return (
        "Two arms differ where Welch's t-test (of logarithms for times and rates, of the values for scores) is "
        f"significant at {percent(SIGNIFICANCE)} for all pairs of the study's arms together, and where they differ by "
        "more than what matters: 2% of times, rates and losses, 1 point of accuracy. `no worse`: shown to be within "
        f"that. Training times are compared only between arms whose numbers of samples differ by no more than "
        f"{percent(EQUAL_WORK)}; emulated arms are never compared with real ones. Where it is open, a page names the "
        f"differences that the repeats show with a power of {POWER}, and how many more would probably tell."
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
    metric = metric_of(comparisons[0].column)
    shown = sorted(one.judgement.detectable for one in comparisons if one.judgement.detectable is not None)
    if not shown:
        return "equal in all repeats"
    further = sorted(one.judgement.further or MOST_REPEATS + 1 for one in comparisons)
    words = [f"more than {MOST_REPEATS}" if count > MOST_REPEATS else f"{count}" for count in further]
    ends = " to ".join(dict.fromkeys(difference(metric, value, signed=False) for value in (shown[0], shown[-1])))
    more = " to ".join(dict.fromkeys((words[0], words[-1])))
    told = f"{more} more repeat{'' if more == '1' else 's'} would probably tell"
    if min(one.judgement.n for one in comparisons) < ENOUGH_REPEATS:
        told = f"{ENOUGH_REPEATS} repeats begin to tell"
    return f"differences of {ends} are shown with a power of {POWER}, {told}"


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
