"""How many workers pay: training time by the number of workers, everything else alike, with the efficiency."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from dlbench.analysis.arms import EQUAL, EQUAL_OPTIONS, METRICS, arms
from dlbench.analysis.contest import Contender, Contest, Row
from dlbench.analysis.groups import ALONE, described, varying
from dlbench.analysis.intervals import Interval, ratio_interval
from dlbench.analysis.ranking import Ranking, rank
from dlbench.analysis.significance import NOISE, Word
from dlbench.analysis.wording import RATIO, SECONDS, SHARE, Statement, counted, one_line
from dlbench.records.columns import names

TIME = "train_time_s"
# A training time is compared with that of a base line that also made as many epochs.
ALIKE = (*EQUAL, "epochs")
# More lines than this are counted together.
MOST_LINES = 3


class Advice(StrEnum):
    """What a line of worker counts says."""

    ADD = "more workers pay"
    STAY = "they do not"
    CANNOT_BE_TOLD = "it cannot be told"


@dataclass(frozen=True)
class Line:
    """Arms that differ in the number of workers alone, fewest first; one worker alone where there is one.

    Attributes:
        name: What they share and others do not; may be empty.
        arms: Two or more, each with training times.
    """

    name: str
    arms: tuple[Contender, ...]


def workers(contest: Contest) -> Iterator[Statement]:
    """Say of each line of a contest how many workers pay, and what their efficiency is; all lines are one family."""
    found = lines(contest)
    ranked = rank([{arm: arm.values(TIME) for arm in line.arms} for line in found], lower=True, noise=NOISE)
    pairs = sorted(zip(found, ranked, strict=True), key=lambda pair: pair[1].median(pair[1].best))
    for line, ranking in pairs[:MOST_LINES]:
        yield _statement(line, ranking)
    if rest := pairs[MOST_LINES:]:
        advice = Counter(advised(ranking)[0] for _, ranking in rest)
        said = ", ".join(f"in {count} {word}" for word, count in sorted(advice.items()))
        yield Statement(f"Of {counted(len(rest), 'other group')} of arms that differ in workers alone: {said}.", "why")


def lines(contest: Contest) -> list[Line]:
    """Return the lines of a contest, in the order of their first arms."""
    keys = [key for key in varying(contest.runs, x="workers") if key != "study"]
    has_studies = len({arm.first["study"] for arm in contest.arms}) > 1
    timed = [arm for arm in contest.completed if arm.values(TIME)]
    found = []
    for members in _grouped([arm for arm in timed if not arm.is_alone], keys):
        first = members[0].first
        name = described({key: first.get(key) for key in keys})
        where = f"study {first['study']}" if has_studies else ""
        by_workers = {arm.workers: arm for arm in (*members, *_alone(timed, first))}
        line = Line(one_line(", ".join(filter(None, (name, where)))), tuple(by_workers[n] for n in sorted(by_workers)))
        found.append(line)
    return [line for line in found if len(line.arms) > 1]


def _grouped(arms: Sequence[Contender], keys: Sequence[str]) -> Iterable[list[Contender]]:
    """Return arms of one study that share all keys together, each number of workers once in a group."""
    grouped: dict[tuple[str, ...], list[Contender]] = {}
    for arm in arms:
        key = (arm.first["study"], *(str(arm.first.get(name)) for name in keys))
        # Arms that differ in nothing that is known are told apart by their order.
        while any(other.workers == arm.workers for other in grouped.get(key, ())):
            key = (*key, "")
        grouped.setdefault(key, []).append(arm)
    return grouped.values()


def advised(ranking: Ranking) -> tuple[Advice, Contender]:
    """Return what to do, and the arm it is about: the fewest workers that cannot be told from the quickest.

    Where the fewest workers took longer by more than noise, and that may yet be chance, nothing is advised.
    """
    fewest = min(ranking.values, key=lambda arm: arm.workers)
    alike = ranking.of(Word.CANNOT_BE_TOLD)
    is_slower = ranking.median(fewest) > (1 + NOISE) * ranking.median(ranking.best)
    if ranking.of(Word.TOO_FEW) or (fewest in alike and is_slower):
        return Advice.CANNOT_BE_TOLD, ranking.best
    chosen = min([ranking.best, *alike], key=lambda arm: arm.workers)
    return (Advice.STAY, ranking.best) if chosen is fewest else (Advice.ADD, chosen)


def _alone(arms: Sequence[Contender], row: Row) -> list[Contender]:
    """Return the first base line of an arm: one worker alone that is its equal, in the same study."""
    options = [key for key in row if key.startswith(EQUAL_OPTIONS)]
    keys = ("study", *ALIKE, *options)
    equal = [arm for arm in arms if arm.is_alone and all(arm.first.get(key) == row.get(key) for key in keys)]
    return equal[:1]


def _statement(line: Line, ranking: Ranking) -> Statement:
    advice, arm = advised(ranking)
    base = line.arms[0]
    if arm is base:
        arm = min(line.arms[1:], key=ranking.median)
    numbers = _numbers(arm, base)
    if advice is Advice.CANNOT_BE_TOLD:
        repeats = f"{ranking.repeats} repeats" if ranking.repeats > 1 else "one repeat"
        return Statement(_led(line, f"whether more workers pay, {repeats} cannot tell: {numbers}."), "doubt")
    if advice is Advice.STAY:
        fewest = counted(base.workers, "worker")
        return Statement(_led(line, f"do not add workers, use {fewest}: {numbers}{_apart(ranking, base, arm)}."), "use")
    return Statement(_led(line, f"use {counted(arm.workers, 'worker')}: {numbers}{_more(line, ranking, arm)}."), "use")


def _led(line: Line, text: str) -> str:
    return f"{line.name}: {text}" if line.name else text[0].upper() + text[1:]


def _apart(ranking: Ranking, base: Contender, arm: Contender) -> str:
    """Say so where more workers took another time only by chance or noise."""
    pair = {base, arm}
    told = ranking.best in pair and all(ranking.verdicts[one].word is Word.BETTER for one in pair - {ranking.best})
    return "" if told else "; the two times cannot be told apart"


def _more(line: Line, ranking: Ranking, arm: Contender) -> str:
    """Say what still more workers bring."""
    more = [other for other in line.arms if other.workers > arm.workers]
    if not more:
        return ""
    is_best = ranking.best is arm
    counts = " or ".join(str(other.workers) for other in more)
    return f"; {counts} workers are {'not quicker' if is_best else 'not quicker by more than chance and noise'}"


def _numbers(arm: Contender, base: Contender) -> str:
    """Say what an arm took against its base, with the ratio and the efficiency."""
    took, before = arm.values(TIME), base.values(TIME)
    alone = ALONE if base.is_alone else counted(base.workers, "worker")
    text = f"{counted(arm.workers, 'worker')} took {SECONDS.spread(took)} to train, {alone} {SECONDS.spread(before)}"
    if min(before) > 0:
        text += f" ({RATIO.with_ends(ratio_interval(took, before))})"
    found = efficiency(arm, base)
    return text if found is None else f"{text}; efficiency {SHARE.with_ends(found)}"


def efficiency(arm: Contender, base: Contender) -> Interval | None:
    """Return rate of one worker / its base line's as `dlbench.analysis.arms` defines it; None where it is unknown."""
    # Only the efficiency is asked for: without the other metrics their intervals are not computed.
    empty = dict.fromkeys(names("runs"))
    rows = [{**empty, **row, **dict.fromkeys(METRICS)} for row in (*arm.rows, *base.rows)]
    return next((found.efficiency for found in arms(rows) if found.name == arm.first["arm"]), None)
