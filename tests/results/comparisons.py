"""Two arms beside each other, judged by dlbench's rule, in words: what a README may say of them is decided here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from dlbench.analysis.arms import Arm
from dlbench.analysis.compare.comparison import NOISE
from dlbench.analysis.formatting import Unit, listed, number, percent
from dlbench.analysis.judge import SIGNIFICANCE, Judgement, Verdict
from dlbench.analysis.statistics.intervals import Interval, ratio_interval

SAME, FEW, UNEQUAL, EMULATED = "cannot be told apart", "too few repeats", "unequal samples", "emulated and real"
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
        verdict, more = self.judgement.verdict, samples(self.first) - samples(self.second)
        ahead, behind = (verdict is Verdict.BETTER, verdict is Verdict.WORSE)
        if self.column == "train_time_s" and more and not (ahead and more > 0) and not (behind and more < 0):
            return UNEQUAL
        if not ahead and not behind:
            return FEW if verdict is Verdict.TOO_FEW else SAME
        words = ("less", "more") if self.column.endswith("_s") else ("lower", "higher")
        return words[ahead != lower_is_better(self.column)]

    @property
    def ratio(self) -> str:
        """First over second, medians with the interval of their ratio."""
        return interval_text(ratio_interval(self.first.values(self.column), self.second.values(self.column)))

    @property
    def fewer(self) -> str:
        """By how many samples their work differs; empty where it does not."""
        a, b = samples(self.first), samples(self.second)
        return (
            "" if a == b else f"{a:,} against {b:,} samples, {percent(abs(a / b - 1))} {'fewer' if a < b else 'more'}"
        )


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
    return tuple(Comparison(*pair, column, found) for pair, found in zip(pairs, judged, strict=True))


def rule() -> str:
    """Say when two arms are said to differ."""
    return (
        "Two arms differ where Welch's t-test (of logarithms for times and rates, of the values for scores) is "
        f"significant at {percent(SIGNIFICANCE)} after Holm's correction over the places named in one sentence, and "
        f"where medians of times and rates differ by more than {percent(NOISE)}. Training times are compared only "
        "between arms that trained on the same number of samples; emulated arms are never compared with real ones."
    )


def verdicts(comparisons: Sequence[Comparison], axis: str = "batch") -> str:
    """Return the words of all places: `less (batch 8, 16); too few repeats (batch 32)`; no places without an axis."""
    places: dict[str, list[str]] = {}
    for one in comparisons:
        places.setdefault(one.word, []).append(f"{one.place}")
    said = [f"**{word}**{_at(axis, listed(found, ALL))}" for word, found in places.items()]
    return "; ".join(said)


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
