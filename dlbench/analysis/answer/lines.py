"""An answer in a heading and at most five lines, as terminal, page and Markdown show it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dlbench.analysis.answer.answer import Answer, ArmAnswer, Judged
from dlbench.analysis.answer.decide import COST, DEADLINE, MAX_COST, OVERHEAD, TWIN
from dlbench.analysis.formatting import (
    Unit,
    counted,
    difference,
    duration,
    joined,
    number,
    percent,
    quantity,
    unit_of,
)
from dlbench.analysis.judge import ENOUGH_REPEATS, LEAST_REPEATS, MOST_REPEATS, Verdict
from dlbench.analysis.statistics.intervals import Interval
from dlbench.errors import shorten
from dlbench.scenario.metrics import BUILT_IN, TRAIN_TIME, Metric, Metrics

# A label and a text.
Line = tuple[str, str]
MOST_LINES = 5
_OF_ARMS = ("use", "only", "open", "faster", "cheaper")
# Where the least of an answer's worker-times is below, all are written in seconds.
HOUR_S, LEAST_HOURS = 3600.0, 0.1
# Parts that a line names at most; of others their number.
MOST_NAMED = {"either": 3, "none": 3, "doubt": 2}
# Of the arm that was to be used.
UNCONFIRMED = "is not confirmed on fresh seeds"
# By which attribute an arm is least over a limit.
_NEAREST = {DEADLINE: "slowest_s", MAX_COST: "dearest"}
# The shortest that a title becomes.
_LEAST_TITLE = 24


def heading(answer: Answer, *, is_one_of_several: bool = False, width: int | None = None) -> str:
    """Return the heading of an answer: what it is about, where there are several, and the goal."""
    about = [answer.task, answer.condition] if is_one_of_several else []
    about += ["emulated"] if answer.emulated else []
    of = joined(*about)
    if width is not None:
        of = shorten(of, max(_LEAST_TITLE, width - len(f"Answer (): {answer.goal}")))
    return f"Answer{f' ({of})' if of else ''}: {answer.goal}"


def lines(answer: Answer, metrics: Metrics = BUILT_IN, width: int | None = None, gap: str = "  ") -> list[Line]:
    """Return at most five lines, each a label and a text: what to use, what is open, faster or cheaper, doubt, next.

    Args:
        answer: The answer.
        metrics: All metrics by column.
        width: Letters of a text; None: as many as it takes.
        gap: Between the parts of a text.
    """
    labelled = list(_lines(answer, metrics))
    if len(labelled) > MOST_LINES:
        # Of all lines that there can be, the cheaper arm says least.
        labelled = [(label, parts) for label, parts in labelled if label != "cheaper"]
    return [(label, _fitted(label, parts, width, "; " if label in MOST_NAMED else gap)) for label, parts in labelled]


def _fitted(label: str, parts: Sequence[str], width: int | None, gap: str) -> str:
    """Return parts of a line side by side; those that do not fit are left out from the end, then the first is cut.

    A command is never cut. Of lists (`MOST_NAMED`) it says how many parts are left out.
    """
    every, is_list = [part for part in parts if part], label in MOST_NAMED
    least = 2 if label in _OF_ARMS else 1
    for count in range(min(MOST_NAMED.get(label, len(every)), len(every)), least - 1, -1):
        left_out = [f"{len(every) - count} more"] if is_list and count < len(every) else []
        text = gap.join([*every[:count], *left_out])
        if not width or len(text) <= width:
            return text
    if label == "next":
        return every[0]
    over = len(text) - (width or 0)
    return gap.join([shorten(every[0], max(_LEAST_TITLE, len(every[0]) - over)), *every[1:least], *left_out])


def _lines(answer: Answer, metrics: Metrics) -> Iterator[tuple[str, list[str]]]:
    by_title = {arm.title: arm for arm in answer.arms}
    use = answer.use
    if use is not None:
        fresh = f"confirmed on {counted(answer.confirmed, 'fresh seed')}" if answer.confirmed else ""
        advice = _on_workers(use, answer, metrics)
        label, alone = ("use", "") if len(answer.arms) > 1 else ("only", "no other arm to compare it with")
        yield label, [use.title, _value(use, answer, metrics), fresh, *_quality(use, answer, metrics), advice, alone]
    else:
        yield ("either" if answer.either else "none"), _why_none(answer, metrics)
    if rivals := open_arms(answer):
        arm, judged = rivals[0]
        against = f"against {judged.difference.against}" if judged.difference else ""
        others = f"{len(rivals) - 1} more open" if len(rivals) > 1 else ""
        yield "open", [arm.title, *_open(arm, judged, by_title, metrics), _value(arm, answer, metrics), against, others]
    ahead = "cheaper" if use and use.value and use.value.metric == COST else "faster"
    for label, title, words in ((ahead, answer.faster, _loss), ("cheaper", answer.cheaper, _price)):
        if title is not None and use is not None:
            arm = by_title[title]
            yield label, [title, _value(arm, answer, metrics), words(arm, use, metrics)]
    # That no arm is used is said where its name would be.
    if doubts := [doubt.text for doubt in answer.doubts if UNCONFIRMED not in doubt.text]:
        yield "doubt", doubts
    if answer.next is not None:
        about = f"about {duration(answer.next.seconds)}" if answer.next.seconds else ""
        yield "next", [answer.next.command, answer.next.why, about]


def open_arms(answer: Answer) -> list[tuple[ArmAnswer, Judged]]:
    """Return the arms that may be the better choice, each with what is open of it."""
    by_title = {arm.title: arm for arm in answer.arms}
    arms_open = [by_title[title] for title in answer.open]
    judged = [
        (arm, arm.quality if arm.quality and arm.quality.verdict is Verdict.OPEN else arm.value) for arm in arms_open
    ]
    return [(arm, judgement) for arm, judgement in judged if judgement is not None]


def _value(arm: ArmAnswer, answer: Answer, metrics: Metrics) -> str:
    """Return the amount of an arm with its interval, and its price where there is one."""
    if arm.value is None:
        return ""
    is_cost, spread = arm.value.metric == COST, arm.value.spread
    hours, seconds = Unit(number, " worker-hours"), Unit(lambda value: number(HOUR_S * value), " worker-seconds")
    # One unit for all arms of an answer.
    least = min(each.value.spread.median for each in answer.arms if each.value)
    of_time = seconds if least < LEAST_HOURS else hours
    price, word = (Unit(number, f" {answer.currency}"), "") if answer.currency else (Unit(number), "cost ")
    of_cost = of_time if arm.cost is None else price
    unit = of_cost if is_cost else unit_of(metrics[arm.value.metric])
    amount = unit.with_ends(Interval(spread.median, spread.low, spread.high, spread.n, None))
    if arm.cost is None:
        return amount
    return word + amount if is_cost else f"{amount}, {word}{price.shown(arm.cost)}"


def _on_workers(use: ArmAnswer, answer: Answer, metrics: Metrics) -> str:
    """Say where more workers were tried, all else alike, and buy nothing."""
    # One worker alone has no strategy that those with more could share.
    of_workers = {"workers", "mode", *(["strategy"] if use.workers == 1 else [])}
    more = [
        arm
        for arm in answer.arms
        if arm.word != "out" and arm.workers > use.workers and arm.value
        if all(arm.settings[key] == use.settings[key] for key in use.settings if key not in of_workers)
    ]
    is_open = any(arm.title in answer.open and arm.workers > use.workers for arm in answer.arms)
    if use.value is None or not more or is_open:
        return ""
    metric, least = metrics.get(use.value.metric, TRAIN_TIME), use.value.spread.median
    gain = max(metric.gain(arm.value.spread.median, least) for arm in more if arm.value)
    return "do not add workers" if gain <= metric.margin_at(least) else ""


def _quality(arm: ArmAnswer, answer: Answer, metrics: Metrics) -> list[str]:
    """Say what the arm to use scores, and by how much it is behind the best score, at worst."""
    if arm.quality is None:
        return []
    metric, score, gap = metrics[arm.quality.metric], arm.quality.spread.median, arm.quality.difference
    scores = [other.quality.spread.median for other in answer.arms if other.quality]
    best, keeps = max(scores, key=lambda other: metric.gain(other, score)), ""
    if (behind := metric.gain(best, score)) <= 0:
        # What is out may score more.
        is_whole = all(arm.reason in ("", OVERHEAD, TWIN) for arm in answer.arms)
        keeps = f"keeps: the best score{'' if is_whole else ' of those compared'}" if len(scores) > 1 else ""
    elif gap is not None and gap.worst is not None:
        behind /= (abs(best) or 1.0) if gap.is_share else 1.0
        metric = replace(metric, is_share=gap.is_share)
        # The bound is one of means, which may be nearer to each other than medians.
        at_worst = difference(metric, max(behind, -gap.worst), signed=False, with_unit=False)
        keeps = f"keeps: {difference(metric, behind, signed=False)} behind the best, at worst {at_worst}"
    return [f"{metric.title} {quantity(metric, score)}", keeps]


def _signed(metric: Metric, gain: float) -> float:
    """Return a gain as the difference of the values: of a time that is 25% better, -20%."""
    if metric.is_higher_better:
        return gain
    return gain / -(1 + gain) if metric.is_share and gain > 0 else -gain


def _why_none(answer: Answer, metrics: Metrics) -> list[str]:
    """Say why no arm can be recommended, the reasons of most arms first."""
    if refuted := [doubt.text for doubt in answer.doubts if UNCONFIRMED in doubt.text]:
        return refuted
    if answer.missing:
        return [f"no answer yet: {counted(answer.missing, 'run')} to be made"]
    if answer.either:
        return [f"which is best is open: {answer.either[0]}", *answer.either[1:]]
    if left := [arm for arm in answer.arms if arm.word != "out"]:
        quality = next((metrics[arm.quality.metric].title for arm in left if arm.quality), "quality")
        return [f"none of {counted(len(left), 'arm')} is shown to keep {quality}"]
    reasons = [arm.reason for arm in answer.arms if arm.reason not in (OVERHEAD, TWIN)]
    each = []
    for kind, count in Counter(reason.partition(":")[0] for reason in reasons).most_common():
        alike = {reason for reason in reasons if reason.partition(":")[0] == kind}
        which = f"{'each of ' * (len(alike) == 1 < count)}{counted(count, 'arm')}"
        if kind in _NEAREST:
            over = [arm for arm in answer.arms if arm.reason.startswith(kind)]
            nearest = min(over, key=lambda arm: (getattr(arm, _NEAREST[kind]) or 0.0, arm.title))
            which += f", the nearest {nearest.title}{nearest.reason.removeprefix(kind)}"
        each.append(f"{alike.pop() if len(alike) == 1 and kind not in _NEAREST else kind} ({which})")
    return [f"no arm can be recommended: {each[0]}", *each[1:]]


def _open(arm: ArmAnswer, judged: Judged, by_title: Mapping[str, ArmAnswer], metrics: Metrics) -> list[str]:
    """Say what is open of an arm: the bounds of the difference, and what would tell."""
    gap = judged.difference
    if gap is None:
        return []
    metric = replace(metrics.get(judged.metric, TRAIN_TIME), is_share=gap.is_share)
    fewest = min(arm.completed, by_title[gap.against].completed)
    if fewest < LEAST_REPEATS:
        return [f"{counted(fewest, 'repeat')}: {ENOUGH_REPEATS} begin to tell"]
    would = f"more than {MOST_REPEATS} more repeats would be needed"
    if fewest < ENOUGH_REPEATS:
        would = f"{ENOUGH_REPEATS} repeats begin to tell"
    elif gap.further is not None:
        would = f"{counted(gap.further, 'more repeat')} would tell"
    ends = sorted(_signed(metric, end) for end in (gap.worst, gap.best) if end is not None)
    # Without the difference itself: it is one of means, and may contradict the medians.
    text = f"between {' and '.join(difference(metric, end, with_unit=end == ends[-1]) for end in ends)}"
    is_ranked_by = arm.value is not None and arm.value.metric == judged.metric
    return [f"{text}: {would}"] if is_ranked_by else [f"{metric.title} {text}", would]


def _loss(arm: ArmAnswer, _: ArmAnswer, metrics: Metrics) -> str:
    """Say by how much an arm that is faster is behind in quality."""
    if arm.quality is None or arm.quality.difference is None:
        return ""
    gap = arm.quality.difference
    metric = replace(metrics[arm.quality.metric], is_share=gap.is_share)
    change = _signed(metric, gap.gain)
    by, where = difference(metric, abs(change), signed=False), "higher" if change > 0 else "lower"
    return f"loses: {metric.title} {by} {where}"


def _price(arm: ArmAnswer, use: ArmAnswer, _: Metrics) -> str:
    """Say what share of the cost of the arm to use an arm has."""
    price, other = (each.cost if each.cost is not None else each.worker_hours for each in (arm, use))
    what = "cost" if arm.cost is not None else "worker-hours"
    keeps = "keeps, " if arm.quality else ""
    return f"{keeps}{percent(price / other)} of the {what}" if price is not None and other else ""
