"""A scenario on a cluster to its runs, in the order of execution: the same scenario always gives the same runs."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from dlbench.errors import UserError, first_of
from dlbench.grouping import by_key
from dlbench.scenario.check.case import Descriptions
from dlbench.scenario.check.feasibility import infeasibility
from dlbench.scenario.check.scripts import TOGETHER, unread
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.expand.arms import with_baselines, with_cores, with_names, written_arms
from dlbench.scenario.expand.points import Point, check_size
from dlbench.scenario.expand.resolve import PlannedArm
from dlbench.scenario.expand.search import search_repeats, with_search
from dlbench.scenario.goal import Goal, read_goal
from dlbench.scenario.metrics import declared
from dlbench.scenario.read.document import inline, parse_value
from dlbench.scenario.read.values import keys
from dlbench.scenario.run_spec import Phase, RunSpec
from dlbench.scenario.scenario import Order, Repeats, Scenario
from dlbench.scenario.settings import Settings, value_of
from dlbench.scenario.source import Path, Source, translate, unknown_key

# Reasons and points that one message names.
_MOST_REASONS, _MOST_POINTS = 5, 20
# The strategy whose scripts find each other by `TF_CONFIG`.
_TF_STRATEGY = "multi_worker"


def expand(
    scenario: Scenario,
    cluster: Cluster,
    only: Mapping[str, str] | None = None,
    repeats: int | Repeats | None = None,
) -> tuple[RunSpec, ...]:
    """Return every run of a scenario with base lines and repeats, in the order of execution.

    Args:
        scenario: What to measure.
        cluster: Where.
        only: Values of settings or options, as text; runs that have all of them are returned, the others left out.
            What is left is the same as in the whole: cores, labels, seeds and order do not change.
        repeats: Of measured runs, in place of the scenario's; a search is as long as the scenario's own make it.

    Raises:
        UserError: A value is wrong, points are impossible or the same twice, there are too many runs or none.
    """
    wanted = _wanted(only or {}, scenario)
    written = written_arms(scenario, cluster)
    reasons = _reasons(written, scenario, cluster)
    bad = [(arm, why) for arm, why in zip(written, reasons, strict=True) if why and _is_wanted(arm, wanted)]
    if bad:
        raise _impossible(bad, len(written), scenario)
    possible = [arm for arm, reason in zip(written, reasons, strict=True) if not reason]
    arms = with_names(with_cores(_with_baselines(possible, scenario, cluster), cluster), scenario)
    kept = [_is_wanted(arm, wanted) for arm in arms]
    if not any(kept):
        raise _nothing(only or {}, arms)
    arms = _with_unknown(with_search(_with_tf_config(arms), scenario))
    _refuse_one_name(arms)
    rule = scenario.repeats if repeats is None else repeats
    measured, words = (rule, "") if isinstance(rule, int) else (rule.min, rule.rule)
    candidates = Counter(arm.run.tuned.arm for arm in arms if arm.run.tuned)
    counts = [
        search_repeats(candidates[run.tuned.arm], scenario) if run.tuned and run.phase is Phase.TUNE else measured
        for run in (arm.run for arm in arms)
    ]
    order = execution_order(len(arms), scenario, max(counts))
    return tuple(
        arms[number].run.model_copy(update={"repeat": repeat, "repeats_rule": words})
        for repeat, number in order
        if kept[number] and repeat < counts[number]
    )


def _with_tf_config(arms: Sequence[PlannedArm]) -> tuple[PlannedArm, ...]:
    """Return the arms: a script that `multi_worker` starts in some of them gets `TF_CONFIG` alone, too."""
    ways = [(arm.run.settings.command, arm.run.settings.strategy) for arm in arms]
    scripts = {command for command, strategy in ways if command is not None and strategy == _TF_STRATEGY}
    asking = {(command, strategy) for command in scripts for strategy in (_TF_STRATEGY, "single")}
    return tuple(arm.with_run(tf_config=way in asking) for arm, way in zip(arms, ways, strict=True))


def _with_unknown(arms: Iterable[PlannedArm]) -> tuple[PlannedArm, ...]:
    """Return the arms, of which those of a user's own script say which settings are not known of it."""
    of_command = lru_cache(None)(unread)

    def unknown(arm: PlannedArm) -> tuple[str, ...]:
        command, written = arm.run.settings.command, arm.point.values
        keys = () if command is None else of_command(command)
        return tuple(key for key in keys if key not in written and TOGETHER.get(key) not in written)

    return tuple(arm.with_run(unknown=unknown(arm)) for arm in arms)


def _refuse_one_name(arms: Sequence[PlannedArm]) -> None:
    """Refuse two arms whose short hashes are equal: rows of one would be taken for rows of the other."""
    for run_id, labels in by_key((arm.run.run_id, arm.run.label) for arm in arms).items():
        if len(labels) > 1:
            both = f"[{labels[0]}] and [{labels[1]}]"
            raise UserError(f"{both} happen to get one name, {run_id}", hint="leave one of them out")


def _with_baselines(possible: Sequence[PlannedArm], scenario: Scenario, cluster: Cluster) -> tuple[PlannedArm, ...]:
    """Return the arms with base lines, all of which can be run."""
    arms = with_baselines(possible, scenario, cluster)
    check_size(len(arms), scenario)
    added = [arm for arm in arms if arm.run.baseline]
    why = Counter(filter(None, _reasons(added, scenario, cluster)))
    if why:
        raise UserError(
            f"{why.total()} of {len(added)} base lines cannot be run:\n{_listed(why)}",
            hint="`baseline: none` leaves base lines out",
            where=scenario.source.where(("baseline",)),
        )
    return arms


def _reasons(arms: Sequence[PlannedArm], scenario: Scenario, cluster: Cluster) -> list[str]:
    """Return, for each arm, why it cannot be run; an empty string where it can.

    Raises:
        UserError: A data set refuses its options.
    """
    seen: Descriptions = {}
    goal = read_goal(scenario.goal, declared(scenario.metrics)) if scenario.goal else Goal()
    score = goal.target[0] if goal.target else goal.quality
    reasons = []
    for arm in arms:
        try:
            reasons.append(infeasibility(arm.run, cluster, seen, score))
        except UserError as error:
            options = (path for key, path in arm.point.origins.items() if key.startswith("dataset."))
            where = error.where or scenario.source.where(next(options, arm.point.origins.get("dataset", ())))
            raise UserError(error.message, hint=error.hint, where=where) from error
    return reasons


def _impossible(bad: Sequence[tuple[PlannedArm, str]], total: int, scenario: Scenario) -> UserError:
    """Return the error for points that cannot be run, each with its reason."""
    points = [arm.point for arm, _ in bad]
    why = Counter(reason for _, reason in bad)
    where = scenario.source.where(_place(points[0]))
    if not points[0].chosen | points[0].tuned:
        return UserError(f"this cannot be run: {next(iter(why))}", where=where)
    # Leaving out everything is no remedy.
    hint = "" if len(bad) == total else _remedy(points)
    return UserError(f"{len(bad)} of {total} points cannot be run:\n{_listed(why)}", hint=hint, where=where)


def _listed(why: Counter[str]) -> str:
    lines = [f"  {reason}" + (f" ({count} points)" if count > 1 else "") for reason, count in why.items()]
    return "\n".join(first_of(lines, _MOST_REASONS, "  and {} more reasons"))


def _remedy(bad: Sequence[Point]) -> str:
    """Say what removes the impossible points: a line of `exclude` for each, or its place in `include`."""
    chosen = [
        {key: value for key, value in point.values.items() if key in point.chosen | point.tuned}
        for point in bad
        if not point.is_included
    ]
    lines = [f"  - {inline(values)}" for values in chosen]
    numbers = [str(int(_place(point)[1]) + 1) for point in bad if point.is_included]
    shown = "\n".join(first_of(lines, _MOST_POINTS, "  # and {} more"))
    hints = [f"leave them out with\nexclude:\n{shown}"] if lines else []
    if numbers:
        hints.append(f"take out of `include`: point {', '.join(numbers[:_MOST_POINTS])}")
    return "\n".join(hints)


def _place(point: Point) -> Path:
    """Return where a point was written: its included point, the last of its axes, or `base`."""
    paths = [path for key, path in point.origins.items() if key in point.chosen | point.tuned]
    if point.is_included:
        return paths[0][:2]
    return paths[-1] if paths else ("base",)


def execution_order(num_arms: int, scenario: Scenario, repeats: int) -> list[tuple[int, int]]:
    """Return repeat and arm of each run in the order of execution; shuffled by the scenario's name, always alike."""
    order = [(repeat, number) for repeat in range(repeats) for number in range(num_arms)]
    if scenario.order is not Order.WRITTEN:
        random.Random(scenario.name).shuffle(order)
    if scenario.order is Order.BLOCKS:
        order.sort(key=lambda place: place[0])
    return order


def _wanted(only: Mapping[str, str], scenario: Scenario) -> dict[str, Any]:
    """Return the values that `only` asks for, in the form that arms hold them."""
    wanted = {}
    allowed = keys(scenario)
    for key, text in only.items():
        where = f"--only {key}={text}"
        if key not in allowed:
            raise unknown_key(key, allowed, where, "an axis, such as `workers`, or any other setting")
        if scenario.tune is not None and key in scenario.tune.candidates:
            hint = f"--set tune.{key}=[...] tries other values"
            raise UserError(f"{key} is searched for: no run can be chosen by it", where=where, hint=hint)
        value = parse_value(text, where, key)
        try:
            wanted[key] = value_of(key, value) if key in Settings.model_fields else value
        except ValidationError as error:
            raise translate(error, Source(where)) from error
    return wanted


def _is_wanted(arm: PlannedArm, wanted: Mapping[str, Any]) -> bool:
    """Whether an arm has all values, as it is written or as it is resolved."""
    return all(arm.has(key, value) or arm.value(key) == value for key, value in wanted.items())


def _nothing(only: Mapping[str, str], arms: Sequence[PlannedArm]) -> UserError:
    asked = " ".join(f"--only {key}={text}" for key, text in only.items())
    there = {key: list(dict.fromkeys(inline(arm.value(key)) for arm in arms))[:20] for key in only}
    return UserError(
        f"{asked} leaves nothing to run",
        hint="; ".join(f"{key} has: {', '.join(values)}" for key, values in there.items()),
    )
