"""How many workers pay: training time by the number of workers, everything else alike, with the efficiency."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from dlbench.analysis.answer.comparison_group import ComparisonGroup
from dlbench.analysis.answer.ranking import ACCURACY, TIME, Ranking, rank
from dlbench.analysis.arms import Arm
from dlbench.analysis.compare.judgement import NOISE, JudgementCase, Verdict, judge, judge_best
from dlbench.analysis.formatting import RATIO, SHARE, Statement, counted, one_line
from dlbench.analysis.groups import ALONE, described, varying
from dlbench.analysis.statistics.intervals import ratio_interval

# More series than this are counted together.
MOST_SERIES = 3


class Advice(StrEnum):
    """What a series of worker counts advises."""

    ADD = "more workers pay"
    STAY = "no gain from more workers is shown"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class ScalingSeries:
    """Arms that differ in the number of workers alone, fewest first; one worker alone where there is one.

    Attributes:
        name: What they share and others do not; may be empty.
        arms: Two or more, each with training times.
    """

    name: str
    arms: tuple[Arm, ...]


def workers(group: ComparisonGroup) -> Iterator[Statement]:
    """Say for each series of a group how many workers pay, with their efficiency; all series are one family."""
    found = scaling_series(group)
    ranked = rank([series.arms for series in found], TIME)
    triples = zip(found, ranked, _faster(found), strict=True)
    pairs = sorted(triples, key=lambda one: one[1].median(one[1].best))
    prices = _prices(pairs)
    for series, ranking, faster in pairs[:MOST_SERIES]:
        yield _statement(series, ranking, faster, prices.get(series, ""))
    if rest := pairs[MOST_SERIES:]:
        advice = Counter(advised(ranking, faster)[0] for _, ranking, faster in rest)
        said = ", ".join(f"{word} in {count}" for word, count in sorted(advice.items()))
        yield Statement(f"In {counted(len(rest), 'other group')} of arms that differ only in workers: {said}.", "why")


def scaling_series(group: ComparisonGroup) -> list[ScalingSeries]:
    """Return the series of a group, in the order of their first arms."""
    keys = [key for key in varying(group.runs, x="workers") if key != "study"]
    has_studies = len({arm.study for arm in group.arms}) > 1
    timed = [arm for arm in group.completed if TIME.values(arm)]
    places = {(arm.study, arm.name): place for place, arm in enumerate(timed)}
    found = []
    for members in _grouped([arm for arm in timed if not arm.is_alone], keys):
        first = members[0].first
        name = described({key: first.get(key) for key in group.keys if key in keys or key == "strategy"})
        where = f"study {members[0].study}" if has_studies else ""
        bases = sorted(places[name] for name in members[0].base_line.names if name in places)[:1]
        by_workers = {arm.workers: arm for arm in (*members, *(timed[place] for place in bases))}
        own = tuple(by_workers[count] for count in sorted(by_workers))
        found.append(ScalingSeries(one_line(", ".join(filter(None, (name, where)))), own))
    return [series for series in found if len(series.arms) > 1]


def _grouped(arms: Sequence[Arm], keys: Sequence[str]) -> Iterable[list[Arm]]:
    """Return arms that share their study and all keys, each number of workers once in a group."""
    grouped: dict[tuple[str | None, ...], list[Arm]] = {}
    for arm in arms:
        key = (arm.study, *(str(arm.first.get(name)) for name in keys))
        # Arms that differ in nothing that is known are kept apart by their order.
        while any(other.workers == arm.workers for other in grouped.get(key, ())):
            key = (*key, "")
        grouped.setdefault(key, []).append(arm)
    return grouped.values()


def advised(ranking: Ranking, faster: Collection[Arm]) -> tuple[Advice, Arm]:
    """Return what to do, and the arm it is about: the fewest workers that pay and are not behind the best.

    Where the fewest workers took longer by more than noise, and that may yet be chance, nothing is advised.

    Args:
        ranking: The arms of a series.
        faster: Those with less training time than the fewest workers, by more than chance and noise.
    """
    fewest = min(ranking.values, key=lambda arm: arm.workers)
    alike = ranking.of(Verdict.CANNOT_BE_TOLD)
    is_slower = ranking.median(fewest) > (1 + NOISE) * ranking.median(ranking.best)
    if ranking.of(Verdict.TOO_FEW) or (fewest in alike and is_slower):
        return Advice.UNDECIDED, ranking.best
    if fewest in (ranking.best, *alike):
        return Advice.STAY, ranking.best
    return Advice.ADD, min([ranking.best, *(arm for arm in alike if arm in faster)], key=lambda arm: arm.workers)


def _faster(found: Sequence[ScalingSeries]) -> list[frozenset[Arm]]:
    """Return of each series the arms with less training time than its fewest workers, by more than chance and noise.

    The p-values of `judge_best` are those of all pairs of arms, so these comparisons are in the ranking's family.
    """
    judged = judge_best([[TIME.values(arm) for arm in series.arms] for series in found], TIME.noise, lower=True)
    return [
        frozenset(arm for arm, one in zip(series.arms[1:], own, strict=True) if one.verdict is Verdict.WORSE)
        for series, own in zip(found, judged, strict=True)
    ]


def _prices(found: Sequence[tuple[ScalingSeries, Ranking, Collection[Arm]]]) -> dict[ScalingSeries, str]:
    """Say of the series whose workers pay that more of them are less accurate by more than chance; all are a family."""
    pairs = {}
    for series, ranking, faster in found:
        advice, arm = advised(ranking, faster)
        if advice is Advice.ADD and ACCURACY.values(arm) and ACCURACY.values(series.arms[0]):
            pairs[series] = (arm, series.arms[0])
    cases = [JudgementCase(ACCURACY.values(arm), ACCURACY.values(base), is_score=True) for arm, base in pairs.values()]
    judged = zip(pairs.items(), judge(cases, ACCURACY.noise), strict=True)
    return {
        series: f"; but its validation accuracy is {ACCURACY.spread(arm)} against {ACCURACY.spread(base)}: "
        "lower by more than chance"
        for (series, (arm, base)), one in judged
        if one.verdict is Verdict.WORSE
    }


def _statement(series: ScalingSeries, ranking: Ranking, faster: Collection[Arm], price: str) -> Statement:
    advice, arm = advised(ranking, faster)
    base = series.arms[0]
    if arm is base:
        arm = min(series.arms[1:], key=ranking.median)
    numbers, count = _numbers(arm, base), counted(arm.workers, "worker")
    if advice is Advice.UNDECIDED:
        repeats = f"{ranking.repeats} repeats" if ranking.repeats > 1 else "one repeat"
        return Statement(
            _led(series, f"{repeats} cannot show whether more workers pay: with {count}, {numbers}."), "warning"
        )
    if advice is Advice.STAY:
        apart = _apart(ranking, base, arm)
        what = "no gain from more workers is shown" if apart else "do not add workers"
        return Statement(_led(series, f"{what}, use {_fewest(base)}: with {count}, {numbers}{apart}."), "use")
    return Statement(_led(series, f"use {count}: {numbers}{_more(series, ranking, arm)}{price}."), "use")


def _led(series: ScalingSeries, text: str) -> str:
    return f"{series.name}: {text}" if series.name else text[0].upper() + text[1:]


def _apart(ranking: Ranking, base: Arm, arm: Arm) -> str:
    """Say so where more workers took another time only by chance or noise."""
    pair = {base, arm}
    differ = ranking.best in pair and all(
        ranking.judgements[one].verdict is Verdict.BETTER for one in pair - {ranking.best}
    )
    return "" if differ else "; judged over all arms together, the two times cannot be told apart"


def _more(series: ScalingSeries, ranking: Ranking, arm: Arm) -> str:
    """Say what still more workers bring, and which fewer ones may do."""
    alike = ranking.of(Verdict.CANNOT_BE_TOLD)
    more = [other for other in series.arms if other.workers > arm.workers]
    fewer = [other for other in series.arms if other.workers < arm.workers and other in alike]
    text = ""
    if more:
        is_best = ranking.best is arm
        faster = "not faster" if is_best else "not faster by more than chance and noise"
        text = f"; {_counts(more)} workers are {faster}"
    return text + f"; whether {_counts(fewer)} would do cannot be told" * bool(fewer)


def _counts(arms: Sequence[Arm]) -> str:
    return " or ".join(str(arm.workers) for arm in arms)


def _fewest(base: Arm) -> str:
    if base.is_alone:
        return ALONE
    return "one worker" if base.workers == 1 else counted(base.workers, "worker")


def _numbers(arm: Arm, base: Arm) -> str:
    """Say what an arm took against its base, with the ratio and the efficiency."""
    took, before = TIME.values(arm), TIME.values(base)
    text = f"training took {TIME.spread(arm)} against {TIME.spread(base)} with {_fewest(base)}"
    if min(before) > 0:
        text += f" ({RATIO.with_ends(ratio_interval(took, before))})"
    if arm.samples_seen != base.samples_seen and arm.samples_seen and base.samples_seen:
        text += f", on {arm.samples_seen:,} samples against {base.samples_seen:,}"
    if not base.is_alone or arm.efficiency is None:
        return text
    return f"{text}; efficiency {SHARE.with_ends(arm.efficiency)}"
