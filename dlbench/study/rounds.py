"""Which runs come next: those of searches first, then the repeats of each arm at what its search has found.

What comes next depends on the plan and on the rows so far alone, so that a study that was interrupted goes on to the
same choices.
"""

import math
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from dlbench.analysis.answer.answer import ArmAnswer
from dlbench.analysis.answer.comparison_group import comparison_groups
from dlbench.analysis.answer.decide import Wanted, best_first, decide, undecided
from dlbench.analysis.answer.recommend import CONTENDERS
from dlbench.analysis.arms import Arm, Row, arms, last_attempts
from dlbench.analysis.formatting import counted, listed
from dlbench.analysis.judge import ENOUGH_REPEATS, Verdict
from dlbench.errors import first_of
from dlbench.grouping import by_key
from dlbench.records.outcome import Status
from dlbench.scenario.cluster import Prices
from dlbench.scenario.expand.arms import in_words
from dlbench.scenario.expand.points import RATE_STEP, next_rate
from dlbench.scenario.expand.runs import execution_order
from dlbench.scenario.expand.search import rungs, search_repeats
from dlbench.scenario.goal import read_goal
from dlbench.scenario.metrics import TRAIN_TIME, declared
from dlbench.scenario.run_spec import Phase, RunSpec, arm_name
from dlbench.scenario.scenario import Repeats, Scenario, Tune
from dlbench.scenario.settings import Affects, Settings, affected_by
from dlbench.study.folder import StudyPlan

# A search that finds its own values goes no further than these, and is done where they are no farther apart.
MOST_TRIED, FINE = 9, 2.0
# This many rates to either side of the best one show whether rates are told apart; fewer in all show nothing.
NEAR, FEWEST_NEAR = 2, 4
# Arms of which it is said what was chosen.
MOST_LINES = 20


def next_round(
    plan: StudyPlan,
    rows: Iterable[Row],
    made: Collection[str] = (),
    has_room: Callable[[Sequence[RunSpec]], bool] | None = None,
) -> tuple[RunSpec, ...]:
    """Return the runs of a plan that can be made now, in the order of execution, those that are made among them.

    Measured runs are known once all searches have ended. An arm of which no candidate completed has none.

    Args:
        plan: What is asked for.
        rows: Of all attempts so far.
        made: Ids of runs that are not to be made again, however they ended.
        has_room: Says whether a budget has room for runs; None without a budget. Then one arm is searched after the
            other, as many as can be measured, too: a budget that ended within searches would have bought no answer.
    """
    searches = by_key((run.arm, run) for run in plan.runs if run.phase is Phase.TUNE)
    last = {row["run_id"]: row for row in last_attempts(rows) if row["status"] != Status.INTERRUPTED}
    todo: list[list[RunSpec]] = []
    measured_first = [run for run in plan.runs if run.phase is Phase.MEASURE and run.repeat == 0]
    settled = {row.get("label") for row in last.values() if row.get("phase") == Phase.MEASURE}
    measured = {arm_name(name) for name, row in last.items() if row.get("phase") == Phase.MEASURE}
    # What failed by accident is tried again in another call, until its arm is measured.
    ended = {name: row for name, row in last.items() if Status(row["status"]).is_final or name in made}
    for arm, candidates in searches.items():
        needed, chosen = search(candidates, plan.scenario, last if arm in settled else ended, measured)
        if missing := [run for run in needed if run.run_id not in made]:
            todo.append(missing)
        measured_first += [chosen] if chosen is not None else []
    if has_room is not None:
        least = plan.rule.min if isinstance(plan.rule, Repeats) else plan.rule
        first = next((of_arm for of_arm in todo if has_room([*of_arm, *[*measured_first, of_arm[0]] * least])), None)
        todo = [] if first is None else [first]
    if todo:
        searched = [run for of_arm in todo for run in of_arm]
        random.Random(plan.scenario.name).shuffle(searched)  # so that a slow hour of the machine is no arm's alone
        return tuple(searched)
    runs = plan.runs
    if isinstance(plan.rule, Repeats):
        runs = _repeated(measured_first, _until_decided(measured_first, plan.rule, plan, last), plan)
    elif searches:
        runs = _repeated(measured_first, [plan.rule] * len(measured_first), plan)
    if not plan.confirms or any(run.run_id not in last for run in runs):
        return runs
    return (*runs, *_on_fresh_seeds(plan, measured_first, list(last.values())))


def _on_fresh_seeds(plan: StudyPlan, found: Sequence[RunSpec], rows: Sequence[Row]) -> tuple[RunSpec, ...]:
    """Return runs on fresh seeds of the arms to use and of their nearest rivals, in the order of execution."""
    names = {arm_name(run.run_id): run for run in found}
    of_names = [row for row in rows if arm_name(row["run_id"]) in names]
    wanted, chosen = _wanted(plan.scenario, plan.cluster.prices), dict[str, None]()
    for group in comparison_groups(arms(of_names), plan.scenario.given):
        answer = decide(group, wanted)
        if answer.use is None:
            continue
        left = [arm for arm in answer.arms if arm.word != "out"]
        rivals = sorted((_distance(arm, wanted), arm.name) for arm in left if arm.name != answer.use.name)
        nearest = [name for _, name in rivals[: CONTENDERS - 1]]
        chosen |= dict.fromkeys([answer.use.name, *nearest] if nearest else ())
    fresh = [names[name].model_copy(update={"phase": Phase.CONFIRM}) for name in chosen]
    return _repeated(fresh, [ENOUGH_REPEATS] * len(fresh), plan)


def _distance(arm: ArmAnswer, wanted: Wanted) -> tuple[int, float]:
    """Return what the rivals of an arm are sorted by: those that may be better first, then by what the goal wants.

    Arms that lose come last, by how far, in margins of what they lose in.
    """
    lost = next((each for each in (arm.quality, arm.value) if each and each.verdict is Verdict.LOSES), None)
    judged = lost or arm.value
    if judged is None:
        return 3, 0.0
    metric = wanted.metrics.get(judged.metric, TRAIN_TIME)
    if lost is None or lost.difference is None:
        return ("open", "keeps", "loses").index(arm.word), -metric.gain(judged.spread.median, 0.0)
    return 2, -lost.difference.gain / max(metric.margin, 1e-9)


def _repeated(found: Sequence[RunSpec], counts: Sequence[int], plan: StudyPlan) -> tuple[RunSpec, ...]:
    """Return this many repeats of each arm, in the order of execution."""
    order = execution_order(len(found), plan.scenario, max(counts, default=0))
    runs = ((found[number], repeat) for repeat, number in order if repeat < counts[number])
    return tuple(run.model_copy(update={"repeat": repeat}) for run, repeat in runs)


def _until_decided(found: Sequence[RunSpec], rule: Repeats, plan: StudyPlan, known: Mapping[str, Row]) -> list[int]:
    """Return how many repeats of each arm there are to be by now: one more of those that are not decided yet."""
    names = {arm_name(run.run_id): number for number, run in enumerate(found)}
    rows = [row for row in known.values() if arm_name(row["run_id"]) in names]
    counts = [0] * len(found)
    for row in rows:
        counts[names[arm_name(row["run_id"])]] += 1
    if min(counts, default=0) < rule.min:
        return [max(count, rule.min) for count in counts]
    wanted = _wanted(plan.scenario, plan.cluster.prices)
    groups = comparison_groups(arms(rows), plan.scenario.given)
    # A base line may be in the group of every condition.
    for name in {arm.name for group in groups for arm in undecided(group, wanted)}:
        place = names[name]
        counts[place] = min(counts[place] + 1, rule.max)
    return counts


def announced(todo: Sequence[RunSpec]) -> list[str]:
    """Return lines about a round: what is searched for, or what searches have chosen for the arms that come now."""
    searches = [run for run in todo if run.phase is Phase.TUNE]
    if searches:
        keys = dict.fromkeys(key for run in searches for key in _values(run))
        arms = {run.arm for run in searches}
        epochs = sorted({run.settings.epochs for run in searches})
        trained = counted(epochs[0], "epoch") if len(epochs) == 1 else f"{epochs[0]} to {epochs[-1]} epochs"
        return [
            f"search for {listed(keys, 3)}: {counted(len(searches), 'run')} of {counted(len(arms), 'arm')}, {trained}"
        ]
    if fresh := dict.fromkeys(run.label for run in todo if run.phase is Phase.CONFIRM):
        return [f"once more on fresh seeds: {listed(list(fresh), CONTENDERS, '; ')}"]
    if todo and todo[0].repeats_rule and min(run.repeat for run in todo):
        return [f"not decided yet: {listed(list(dict.fromkeys(run.label for run in todo)), 3, '; ')}"]
    lines = []
    for label, tuned in {run.label: run.tuned for run in todo if run.tuned}.items():
        doubts = "; ".join(filter(None, (tuned.at_edge, "rates were not told apart" * bool(tuned.scattered))))
        lines.append(f"{label}: {in_words(tuned.values)}{f' ({doubts})' if doubts else ''}")
    return first_of(lines, MOST_LINES, "and {} more arms")


def search(
    candidates: Sequence[RunSpec], scenario: Scenario, rows: Mapping[str, Row], measured: Collection[str]
) -> tuple[list[RunSpec], RunSpec | None]:
    """Return the runs that the search of an arm needs next, and the first repeat of the arm at what it has chosen.

    Args:
        candidates: The first runs of the search.
        scenario: With `tune`.
        rows: The rows of runs that have ended, by run_id.
        measured: Names of the arms that were measured already.
    """
    tune = scenario.tune
    assert tune is not None
    # Of two that are alike the one that is written first counts.
    left = sorted((run for run in candidates if run.repeat == 0), key=lambda run: _place(run, tune))
    tried, is_open, repeats = list(left), not all(tune.candidates.values()), search_repeats(len(left), scenario)
    for number, (count, epochs) in enumerate(rungs(left, scenario)):
        left = left[:count]
        ranked: list[RunSpec] = []
        while len(ranked) < len(left):
            trained = [run.with_settings(epochs=epochs) for run in left]
            wanted = [[run.model_copy(update={"repeat": repeat}) for repeat in range(repeats)] for run in trained]
            missing = [run for runs in wanted for run in runs if run.run_id not in rows]
            if missing:
                return missing, None
            ended = [[rows[run.run_id] for run in runs] for runs in wanted]
            if not any(row["status"] == Status.COMPLETED for rows_of_one in ended for row in rows_of_one):
                return [], None
            by_arm = {Arm(str(place), tuple(rows)): left[place] for place, rows in enumerate(ended)}
            in_order, num_sound = best_first(list(by_arm), _wanted(scenario), is_time_choice=_chooses_time(left))
            ranked = [by_arm[arm] for arm in in_order]
            if is_open and number == 0:
                further = _further(ranked[0], tried)
                left += further
                tried += further
        left = ranked
    own_rate = float(scenario.base.get("learning_rate", Settings().learning_rate))
    choice, is_scattered = (left[0], None) if _chooses_time(left) else _chosen(left[:num_sound], own_rate)
    # What was measured already, by an older version, stays.
    choice = next((run for run in tried if arm_name(run.as_measured.run_id) in measured), choice)
    tuned = choice.tuned
    assert tuned is not None
    # The arm as it is measured: at the chosen candidate's values, with all epochs.
    at_edge = filter(None, (_edge(key, value, tried) for key, value in tuned.values.items()))
    tuned = tuned.model_copy(update={"at_edge": "; ".join(at_edge), "scattered": is_scattered})
    return [], choice.as_measured.model_copy(update={"tuned": tuned})


def _chooses_time(candidates: Sequence[RunSpec]) -> bool:
    """Whether the time of a step depends on what is tried."""
    return any(
        key not in Settings.model_fields or affected_by(key) is not Affects.TRAINING for key in _values(candidates[0])
    )


def _chosen(ranked: Sequence[RunSpec], own_rate: float) -> tuple[RunSpec, bool | None]:
    """Return the candidate to measure an arm at, and whether runs scatter by more than its rates differ.

    Rates that are told apart get worse to both sides of the best one, which is taken. Where those near it do not, the
    best run may have been a lucky one: then the scenario's own rate stays, if it is among the better half. None where
    too few rates were compared to see that.

    Args:
        ranked: The candidates, the best first, without those that came to nothing where that one did not.
        own_rate: The scenario's.
    """
    best = ranked[0]
    alike = [(run.settings.learning_rate, place) for place, run in enumerate(ranked) if _others(run) == _others(best)]
    places = [place for _, place in sorted(alike)]
    middle = places.index(0)
    below, above = places[max(0, middle - NEAR) : middle + 1], places[middle : middle + NEAR + 1]
    if len(below) + len(above) - 1 < FEWEST_NEAR:
        return best, None
    if below == sorted(below, reverse=True) and above == sorted(above):
        return best, False
    better = ranked[: math.ceil(len(ranked) / 2)]
    at_own_rate = (run for run in better if _others(run) == _others(best) and run.settings.learning_rate == own_rate)
    return next(at_own_rate, best), True


def _wanted(scenario: Scenario, prices: Prices | None = None) -> Wanted:
    metrics = declared(scenario.metrics)
    return Wanted(read_goal(scenario.goal, metrics) if scenario.goal else None, metrics, prices)


def _further(best: RunSpec, tried: Sequence[RunSpec]) -> list[RunSpec]:
    """Return candidates near the best one: beyond it, where its rate is the least or greatest tried with its values.

    Else between it and its neighbours, where these are farther away than `FINE`: a rate that is off by the square root
    of `RATE_STEP` takes as many times the epochs where steps are small, which would be more than strategies differ.
    """
    rate = best.settings.learning_rate
    rates = sorted(run.settings.learning_rate for run in tried if _others(run) == _others(best))
    place = rates.index(rate)
    if place in (0, len(rates) - 1):
        factors = [RATE_STEP if place else 1 / RATE_STEP] * (len(rates) < MOST_TRIED)
    else:
        ratios = [rates[place - 1] / rate, rates[place + 1] / rate]
        factors = [math.sqrt(ratio) for ratio in ratios if not 1 / FINE <= ratio <= FINE]
    return [_at_rate(best, next_rate(rate, factor)) for factor in factors]


def _at_rate(run: RunSpec, rate: float) -> RunSpec:
    """Return a candidate at another learning rate."""
    tuned = run.tuned and run.tuned.model_copy(update={"values": {**_values(run), "learning_rate": rate}})
    label = run.label.replace(f"learning_rate={run.settings.learning_rate!r}", f"learning_rate={rate!r}")
    return run.with_settings(learning_rate=rate).model_copy(update={"tuned": tuned, "label": label})


def _values(run: RunSpec) -> Mapping[str, Any]:
    """Return the values that a search tries in a candidate; none of any other run."""
    return run.tuned.values if run.tuned else {}


def _others(run: RunSpec) -> dict[str, Any]:
    """Return the values of a candidate beside its learning rate."""
    return {key: value for key, value in _values(run).items() if key != "learning_rate"}


def _edge(key: str, value: Any, tried: Sequence[RunSpec]) -> str:
    """Say that a value is the least or greatest of those that were tried, where there may be others beyond it."""
    searched = (_values(run).get(key) for run in tried)
    values: set[Any] = {tuple(each) if isinstance(each, list) else each for each in searched}
    if len(values) < 2 or not all(isinstance(each, int | float) and not isinstance(each, bool) for each in values):
        return ""
    if value == max(values):
        return f"{key} {value:g} is the largest tried"
    # Nothing is below zero, or of a count below one.
    is_least = value == min(values) and value != 0 and not (isinstance(value, int) and value == 1)
    return f"{key} {value:g} is the smallest tried" if is_least else ""


def _place(run: RunSpec, tune: Tune) -> tuple[float, ...]:
    """Return where the values of a candidate are written, or what a search has found itself."""
    return tuple(
        (tried.index(value) if value in tried else len(tried)) if (tried := tune.candidates[key]) else float(value)
        for key, value in _values(run).items()
    )
