"""Answers from rows: one for each comparison group, each with the command that would tell most next."""

import math
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

from dlbench.analysis.answer.answer import Answer, Doubt, Next
from dlbench.analysis.answer.comparison_group import ComparisonGroup, comparison_groups
from dlbench.analysis.answer.decide import AT_ITS_TARGET, OVER, TOO_SHORT, Wanted, criteria, decide, undecided
from dlbench.analysis.answer.doubts import Weighed, edited, of_nothing
from dlbench.analysis.answer.lines import UNCONFIRMED, open_arms
from dlbench.analysis.arms import Arm, Row, can_extend, is_imported, is_simulated, note_of
from dlbench.analysis.formatting import counted, percent
from dlbench.analysis.groups import LEARNING_RATE, not_tuned_for, tuned_of, values_of
from dlbench.analysis.judge import ENOUGH_REPEATS, LEAST_REPEATS
from dlbench.records import files
from dlbench.records.outcome import Status
from dlbench.scenario.metrics import BUILT_IN, TIME_TO_TARGET, TRAIN_TIME, Metric, Metrics
from dlbench.scenario.scenario import MOST_OF_RULE, Repeats
from dlbench.scenario.settings import BatchScope

if TYPE_CHECKING:
    import pandas as pd

# A rate at which nothing is learned is tried again at this share of it.
LOWER_RATE = 0.1
# Training has driven a loss above this many times that of a model that knows nothing: untrained models have less.
TOO_FAST = 2.0
# Classes are about equally frequent where that loss is at most this many times -log(share of the largest class).
EVEN = 1.1
# A search costs about as much as what is measured after it.
WITH_SEARCH = 2.0


# A command or the change of a setting, why, and about how long it takes.
Command = tuple[str, str, float | None]
# Where all repeats of an arm ended so, further ones will, too.
_HOPELESS = (Status.FAILED, Status.OUT_OF_MEMORY)
_NOTHING = {"use": None, "either": (), "cheaper": None, "faster": None}
# How many arms run once more on fresh seeds.
CONTENDERS = 3
# All looks at repeats that decide have one level together, which takes about this many times the repeats of one look.
OF_ALL_LOOKS = 1.6


@dataclass(frozen=True)
class StudyPlace:
    """Where a study is, for commands that go on with it.

    Attributes:
        path: Its folder.
        can_continue: Whether runs can be added: a published study holds its tables alone.
        missing: Runs of it that have no row.
        unmeasured: Whether an arm has none that is to have some.
        doubts: What is said of arms of which no run was planned, since their search is not over or found nothing.
        asked: Options of the command line with which a study of the same arms and repeats is begun beside it.
        decides: Whether it would decide by what is asked here: by its own goal and conditions, without limits.
        metrics: Those that its scenario declares; None where it has none, so that none can be begun beside it.
    """

    path: Path
    can_continue: bool = True
    missing: int = 0
    unmeasured: bool = False
    doubts: tuple[str, ...] = ()
    asked: tuple[tuple[str, str], ...] = ()
    decides: bool = True
    metrics: tuple[str, ...] | None = ()


def recommend(
    arms: Sequence[Arm],
    wanted: Wanted,
    places: Mapping[str, StudyPlace] | None = None,
    given: Collection[str] = (),
    confirming: Sequence[Arm] = (),
) -> tuple[Answer, ...]:
    """Return the answers of some studies.

    Args:
        arms: All their arms, also those without a completed run.
        wanted: Goal, metrics and prices.
        places: Where each study is, by its name; commands are named for those alone.
        given: Settings that are conditions beside those that always are.
        confirming: Arms that ran once more on fresh seeds, by their study and label.
    """
    answers, groups = [], comparison_groups(arms, given)
    unsettled = {(arm.study, arm.name) for group in groups if places for arm in undecided(group, wanted)}
    for group in groups:
        places_here = {place for arm in group.arms if (place := (places or {}).get(arm.study or ""))}
        answer = _confirmed(decide(group, wanted), group, confirming, wanted)
        missing = sum(place.missing for place in places_here)
        if any(place.unmeasured for place in places_here):
            # What is still to be run may be better than all that was.
            answer = answer.model_copy(update={**_NOTHING, "missing": missing})
        elif missing:
            answer = doubted(answer, (72, f"still to be made: {counted(missing, 'run')} of the study"))
        answer = doubted(answer, *((91, text) for place in places_here for text in place.doubts))
        names = dict.fromkeys(name for place in places_here for name in place.metrics or ())
        of_studies = [arm for arm in arms if arm.n and arm.study in {one.study for one in group.completed}]
        answer = doubted(answer, *_undelivered(of_studies, [wanted.metrics[name] for name in names]))
        can_run = not any(is_imported(arm.first) for arm in group.arms)
        if len(places_here) == 1 and can_run:
            place = places_here.pop()
            commands = _commands(answer, group, place, arms, unsettled, wanted, confirming)
            can_begin = place.metrics is not None
            command, why, seconds = next(it for it in commands if can_begin or files.SCENARIO not in it[0])
            answer = answer.model_copy(update={"next": Next(command=command, why=why, seconds=seconds)})
        answers.append(answer)
    return tuple(answers)


def doubted(answer: Answer, *more: Weighed) -> Answer:
    """Return an answer with further doubts, the heaviest first."""
    further = [Doubt(text=text, weight=weight) for weight, text in more]
    doubts = sorted((*answer.doubts, *further), key=lambda doubt: -doubt.weight)
    return answer.model_copy(update={"doubts": tuple(doubts)})


def _undelivered(arms: Sequence[Arm], metrics: Iterable[Metric]) -> Iterator[Weighed]:
    """Yield each metric that no run has: it may be the one that was to decide."""
    for metric in metrics if any(arm.get("command") for arm in arms) else ():
        if not any(arm.values(metric.column) for arm in arms):
            why = note_of((row for arm in arms for row in arm.completed), metric.column)
            yield 99, f"no run has {metric.title}, which the scenario declares{why and f': {why}'}"


def _confirmed(answer: Answer, group: ComparisonGroup, confirming: Sequence[Arm], wanted: Wanted) -> Answer:
    """Return an answer whose arm has to keep on fresh seeds, too, where it and others ran there."""
    titles = {(arm.study, arm.label): arm.title for arm in group.arms}
    again = [replace(arm, title=titles[key]) for arm in confirming if (key := (arm.study, arm.label)) in titles]
    fresh = decide(replace(group, arms=tuple(again)), wanted) if len(again) > 1 else None
    mine = next((arm for arm in fresh.arms if answer.use and arm.title == answer.use.title), None) if fresh else None
    if mine is None:
        return answer
    # It may keep quality, and not be the best of those that do.
    word = mine.value.verdict if mine.word == "keeps" and mine.value else mine.word
    has_rival = any(arm.n for arm in again if arm.title != mine.title)
    if word == "keeps" and has_rival:
        return answer.model_copy(update={"confirmed": mine.completed})
    if word in ("keeps", "open"):
        unsure = f"it is open whether {mine.title} keeps" if has_rival else "no rival completed"
        return doubted(answer, (88, f"on {counted(mine.completed, 'fresh seed')} {unsure}"))
    why = mine.reason or "others are better there"
    return doubted(answer.model_copy(update=_NOTHING), (98, f"{mine.title} {UNCONFIRMED}: {why}"))


def retargeted(arms: Iterable[Arm], epochs: "pd.DataFrame", target: tuple[str, float], metrics: Metrics) -> list[Arm]:
    """Return arms with time and epochs to another target than their scenario's, from the scores of their epochs.

    A run that another target ended before it got to this one has not reached it.

    Args:
        arms: The arms.
        epochs: Their epochs: columns of `epochs.csv` and `study`.
        target: Column and value.
        metrics: All metrics by column.
    """
    name, aim = target
    scored = epochs[epochs[name].notna()] if name in epochs else epochs[:0]
    reached = scored.loc[[metrics[name].is_reached(score, aim) for score in scored[name]]]
    by_run = reached.groupby(["study", "run_id"])[["train_time_s", "epoch"]].min().dropna()

    def first(column: str) -> Callable[[Row], float | None]:
        values = by_run[column].to_dict()
        return lambda row: values.get((row["study"], row["run_id"]))

    taken = {TIME_TO_TARGET.column: first("train_time_s"), "epochs_to_target": first("epoch")}
    return [arm.having(target_metric=lambda _: name, target_value=lambda _: aim, **taken) for arm in arms]


def _commands(
    answer: Answer,
    group: ComparisonGroup,
    place: StudyPlace,
    arms: Sequence[Arm],
    unsettled: Collection[tuple[str | None, str]],
    wanted: Wanted,
    confirming: Sequence[Arm],
) -> Iterator[Command]:
    """Yield commands, why, and about how long each takes; the one that would tell most about a group first."""
    study, scenario = shlex.quote(str(place.path)), shlex.quote(str(place.path / files.SCENARIO))
    only = [word for option in place.asked if option[0] == "--only" for word in option]
    run, again = shlex.join(["dlbench", "run", "--study", str(place.path), *only]), f"dlbench run {scenario}"
    # A command goes on with the whole study, whatever group of its arms asks for it.
    studies = {arm.study for arm in group.arms}
    whole = [arm for arm in arms if arm.study in studies]
    ended = {arm: [row for row in arm.rows if row["status"] != Status.INTERRUPTED] for arm in whole}
    times = {(arm.study, arm.name): [float(s) for row in ended[arm] if (s := row.get("wall_time_s"))] for arm in whole}
    usual = mean(map(mean, filter(None, times.values()))) if any(times.values()) else 0.0

    def seconds_of(arm: Arm) -> float:
        return mean(times[arm.study, arm.name] or [usual])

    failed = [(arm, row) for arm in group.arms for row in arm.rows if not Status(row["status"]).is_final]
    hopeless = [row for arm, row in failed if _is_hopeless(arm, row)]
    again_s = [seconds_of(arm) for arm, row in failed if row not in hopeless]
    if edited([row for arm in group.completed for row in arm.completed]):
        asked = shlex.join(word for option in place.asked for word in option)
        yield f"{again} {asked}".rstrip(), "all runs with the code as it is now", sum(map(sum, times.values()))
    if place.can_continue:
        if place.missing:
            yield run, f"{counted(place.missing, 'run')} to be made", usual * place.missing
        if hopeless:
            yield f"dlbench logs {hopeless[0]['run_id']} --study {study}", "why it failed", None
        if again_s:
            yield run, f"repeats {counted(len(again_s), 'run')} that failed", sum(again_s)

    if repeats := _repeats(answer, place, {arm: (arm.study, arm.name) in unsettled for arm in whole}, seconds_of):
        number, why, seconds = repeats
        yield f"{run if place.can_continue else again} --repeats {number}", why, seconds
    for change, why, longer in _changes(answer, group, whole, wanted):
        key = change.partition("=")[0].removeprefix("tune.")
        kept = [word for option in place.asked if not option[1].startswith(f"{key}=") for word in option]
        seconds = longer and longer * sum(seconds_of(arm) * len(arm.rows) for arm in whole)
        yield f"{again} {shlex.join([*kept, '--set', change])}", why, seconds
    judged = {arm.name for arm in answer.arms if arm.word != "out"}
    left = [arm for arm in group.arms if arm.name in judged]
    used = {arm.label for arm in left if answer.use and arm.name == answer.use.name}
    # Once all its fresh seeds have run, there are none to add.
    fresh = {arm.label for arm in confirming if arm.study in studies and len(arm.rows) >= ENOUGH_REPEATS}
    if place.decides and used - fresh and place.can_continue and len(left) > 1:
        contenders = sorted(map(seconds_of, left), reverse=True)[:CONTENDERS]
        yield f"{run} --confirm", "it and its rivals on fresh seeds", ENOUGH_REPEATS * sum(contenders)
    yield f"dlbench report {study}", "charts, evidence, all doubts", None


def _is_hopeless(arm: Arm, row: Row) -> bool:
    """Whether a failed run will fail again: in a simulator, a second attempt, or as all runs of its arm did."""
    is_alike = len(arm.rows) > 1 and len({each["status"] for each in arm.rows}) == 1
    return row["status"] in _HOPELESS and (is_alike or is_simulated(row) or (row.get("attempt") or 1) > 1)


def _repeats(
    answer: Answer, place: StudyPlace, unsettled: Mapping[Arm, bool], seconds_of: Callable[[Arm], float]
) -> Command | None:
    """Return how many repeats would tell of most arms for their time, and what they do; None where 100 tell nothing.

    Where the study itself decides by what is asked, as many as decide, and none beyond the first look of arms that are
    settled.

    Args:
        answer: What is said of a group.
        place: Its study.
        unsettled: Of all arms of that study, whether further repeats may decide them.
        seconds_of: Returns how long a run of an arm takes.
    """
    completed = {arm.title: arm.completed for arm in answer.arms}
    totals: list[tuple[float, bool]] = []
    for arm, judged in open_arms(answer):
        if gap := judged.difference:
            n = min(arm.completed, completed[gap.against])
            totals.append((n + (gap.further or math.inf), True) if n >= ENOUGH_REPEATS else (ENOUGH_REPEATS, False))
    numbers = [number for number, _ in totals if number < math.inf]
    if not numbers:
        return None
    # While no arm is used, repeats that leave the likeliest one open do not change the answer.
    if not answer.use and totals[0][0] < math.inf:
        numbers = [number for number in numbers if number >= totals[0][0]]
    there = {arm: len(arm.rows) * place.can_continue for arm in unsettled}
    least = max(min(there.values()), LEAST_REPEATS) if place.can_continue else ENOUGH_REPEATS

    def is_by_rule(total: float) -> bool:
        return place.decides and ENOUGH_REPEATS < total <= MOST_OF_RULE

    def seconds_to(total: float) -> float:
        wanted = {arm: total if it or not is_by_rule(total) else min(total, least) for arm, it in unsettled.items()}
        return sum(seconds_of(arm) * max(number - there[arm], 0) for arm, number in wanted.items())

    total = min(numbers, key=lambda most: (seconds_to(most) or most) / sum(number <= most for number in numbers))
    settled = sum(settles and number <= total for number, settles in totals)
    why = "settles what is open" if settled == len(totals) else f"settles {settled} of {len(totals)} open arms"
    most = min(math.ceil(least + OF_ALL_LOOKS * (total - least)), MOST_OF_RULE)
    number = Repeats(min=least, max=most) if is_by_rule(total) else int(total)
    return str(number), why if settled else f"{total} repeats begin to tell", seconds_to(total)


def _changes(answer: Answer, group: ComparisonGroup, whole: Sequence[Arm], wanted: Wanted) -> Iterator[Command]:
    """Yield settings of another study that may say more, why, and how many times as long as this it takes, if known.

    Args:
        answer: What is said of the group.
        group: The arms.
        whole: All arms of the study.
        wanted: Goal, metrics and prices.
    """
    if answer.use is None:
        if all(arm.word == "out" for arm in answer.arms):
            yield from _ways_in(answer, group, whole)
        return
    # Where no score decides, another learning rate changes nothing.
    if not_tuned_for(group.completed) and _may_search(whole) and criteria(group, wanted).score:
        yield "tune.learning_rate=auto", "each arm at its own best rate", WITH_SEARCH
    better = [way for way in answer.batch_sizes if way.batch and way.gain > TRAIN_TIME.margin]
    if len(better) == 1 and len({arm.workers for arm in group.arms}) == 1:
        per_worker = any(arm.get("batch_scope") == BatchScope.PER_WORKER for arm in group.arms)
        batch = round((better[0].batch or 0) / (group.arms[0].workers if per_worker else 1))
        yield f"batch_size={batch}", f"a batch that may reach the target {percent(better[0].gain)} sooner", None


def _ways_in(answer: Answer, group: ComparisonGroup, whole: Sequence[Arm]) -> Iterator[Command]:
    """Yield settings with which an arm may come in, as `_changes` does."""
    reasons, rows = [arm.reason for arm in answer.arms], (row for arm in group.arms for row in arm.rows)
    rates, epochs = (values_of(whole, name) for name in (LEARNING_RATE, "epochs"))
    if any(TOO_SHORT in reason for reason in reasons) and all(map(can_extend, rows)):
        yield "extend_window=true", "times steps until a rate counts", None
    if any(AT_ITS_TARGET in reason for reason in reasons):
        yield "target.stop=false", "trains on beyond the target", None
    knows_nothing = any("knowing nothing" in reason for reason in reasons)
    if any(map(_is_too_fast, group.completed)) and len(rates) == 1 and not any(map(tuned_of, group.arms)):
        yield f"learning_rate={LOWER_RATE * rates[0]:g}", "a rate that may learn", 1.0
    elif (knows_nothing or any("exploded" in reason for reason in reasons)) and _may_search(whole):
        yield "tune.learning_rate=auto", "rates that may learn", WITH_SEARCH
    # Where some arm is over a limit only, it has reached what is asked for.
    is_over = any(reason.startswith(OVER) for reason in reasons)
    if (knows_nothing or any("reached" in reason for reason in reasons)) and not is_over and len(epochs) == 1:
        yield f"epochs={2 * epochs[0]}", "longer training may learn more", 2.0


def _may_search(arms: Sequence[Arm]) -> bool:
    """Whether dlbench can search for a learning rate that is no axis, and has not."""
    is_own = any(arm.get("command") is not None for arm in arms)
    is_axis = len(values_of(arms, LEARNING_RATE)) > 1
    return not (is_own or is_axis or any(LEARNING_RATE in tuned_of(arm) for arm in arms))


def _is_too_fast(arm: Arm) -> bool:
    """Whether an arm's loss is far above that of a model that knows nothing: it was driven there, not left there.

    Where some classes are rare, or values not about 0, an untrained model's loss is far above, too.
    """
    loss, accuracy = (BUILT_IN[f"validation_{name}"] for name in ("loss", "accuracy"))
    nothing, largest = of_nothing(arm, loss), of_nothing(arm, accuracy)
    values = list(arm.comparable(loss.column).values())
    if not (values and nothing and largest):
        return False
    return nothing <= -EVEN * math.log(largest) and median(values) > TOO_FAST * nothing
