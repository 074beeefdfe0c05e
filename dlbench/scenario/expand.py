"""A scenario on a cluster to its runs, in the order of execution: the same scenario always gives the same runs."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from dlbench import plugins
from dlbench.errors import UserError
from dlbench.scenario import document
from dlbench.scenario.arms import specify, with_baselines, with_cores, written_arms
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.exclusion import inline
from dlbench.scenario.largest import is_max
from dlbench.scenario.points import check_size
from dlbench.scenario.refusal import judge, refuse_baselines, refuse_points
from dlbench.scenario.resolve import Arm
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.scenario import Order, Scenario
from dlbench.scenario.settings import Settings
from dlbench.scenario.source import Source
from dlbench.scenario.translate import translate, unknown_key
from dlbench.scenario.values import PLUGIN_SETTINGS, check_values, keys


def expand(scenario: Scenario, cluster: Cluster, only: Mapping[str, str] | None = None) -> tuple[RunSpec, ...]:
    """Return every run of a scenario with base lines and repeats, in the order of execution.

    Args:
        scenario: What to measure.
        cluster: Where.
        only: Values of settings or options, as text; runs that have all of them are returned, the others left out.
            What is left is the same as in the whole: cores, labels, seeds and order do not change.

    Raises:
        UserError: A value is wrong, points are impossible or the same twice, there are too many runs or none.
    """
    check_values(scenario)
    wanted = _wanted(only or {}, scenario)
    written = written_arms(scenario, cluster)
    reasons = judge(written, scenario, cluster)
    refuse_points(written, reasons, [_is_wanted(arm, wanted) for arm in written], scenario)
    possible = [arm for arm, reason in zip(written, reasons, strict=True) if not reason]
    arms = _complete(possible, scenario, cluster)
    kept = [_is_wanted(arm, wanted) for arm in arms]
    if not any(kept):
        raise _nothing(only or {}, arms)
    return tuple(run for run, is_kept in _ordered(specify(arms, scenario), kept, scenario) if is_kept)


def _complete(possible: Sequence[Arm], scenario: Scenario, cluster: Cluster) -> tuple[Arm, ...]:
    """Return the arms with base lines and cores."""
    arms = with_baselines(possible, scenario, cluster)
    check_size(len(arms) * scenario.repeats, scenario)
    added = [arm for arm in arms if arm.is_baseline]
    refuse_baselines(added, judge(added, scenario, cluster), scenario)
    return with_cores(arms, cluster)


def _ordered(specs: Sequence[RunSpec], kept: Sequence[bool], scenario: Scenario) -> Iterator[tuple[RunSpec, bool]]:
    """Yield every repeat in the order of execution; shuffled by the scenario's name, so always in the same way."""
    found = [(repeat, number) for repeat in range(scenario.repeats) for number in range(len(specs))]
    if scenario.order is not Order.WRITTEN:
        random.Random(scenario.name).shuffle(found)
    if scenario.order is Order.BLOCKS:
        found.sort(key=lambda place: place[0])
    for repeat, number in found:
        yield specs[number].model_copy(update={"repeat": repeat}), kept[number]


def _wanted(only: Mapping[str, str], scenario: Scenario) -> dict[str, Any]:
    """Return the values that `only` asks for, in the form that arms hold them."""
    found = {}
    allowed = keys(scenario)
    for key, text in only.items():
        where = f"--only {key}={text}"
        if key not in allowed:
            raise unknown_key(key, allowed, where, "an axis, such as `workers`, or any other setting")
        value = document.parse_value(text, where)
        found[key] = _setting(key, value, where) if key in Settings.model_fields else value
    return found


def _setting(key: str, value: Any, where: str) -> Any:
    if is_max(key, value):
        return value
    try:
        found = getattr(Settings.model_validate({key: value}), key)
    except ValidationError as error:
        raise translate(error, Source(where), lambda _: ()) from error
    return plugins.canonical(found) if key in PLUGIN_SETTINGS and found is not None else found


def _is_wanted(arm: Arm, wanted: Mapping[str, Any]) -> bool:
    return all(_matches(arm, key, value) for key, value in wanted.items())


def _matches(arm: Arm, key: str, value: Any) -> bool:
    if key == "batch_size":
        return bool(value == arm.value(key))
    if key in Settings.model_fields:
        return value in (getattr(arm.given, key), getattr(arm.settings, key))
    return bool(arm.options.get(key) == value)


def _nothing(only: Mapping[str, str], arms: Sequence[Arm]) -> UserError:
    asked = " ".join(f"--only {key}={text}" for key, text in only.items())
    there = {key: list(dict.fromkeys(inline(arm.value(key)) for arm in arms))[:20] for key in only}
    return UserError(
        f"{asked} leaves nothing to run",
        hint="; ".join(f"{key} has: {', '.join(values)}" for key, values in there.items()),
    )
