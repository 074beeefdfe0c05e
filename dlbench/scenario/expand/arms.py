"""The arms of a scenario: its points resolved, what is excluded taken out, base lines added, cores shared alike."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dlbench.errors import UserError
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.cluster.spread import spread
from dlbench.scenario.expand.points import Point, axis_keys, points
from dlbench.scenario.expand.resolve import PlannedArm, resolve
from dlbench.scenario.plugin_settings import load
from dlbench.scenario.read.document import inline
from dlbench.scenario.scenario import Baseline, Scenario
from dlbench.scenario.settings import SIMULATED, Affects, Settings, affected_by


def written_arms(scenario: Scenario, cluster: Cluster) -> tuple[PlannedArm, ...]:
    """Return the arms of the points that `exclude` leaves, as they are written.

    Raises:
        UserError: A value is wrong, two points are the same run or have other seeds, or nothing is left.
    """
    arms = [resolve(point, scenario, cluster) for point in points(scenario)]
    kept = [arm for arm in arms if arm.point.is_included or not any(_has_all(arm, out) for out in scenario.exclude)]
    if not kept:
        raise UserError("`exclude` leaves nothing to run", where=scenario.source.where(("exclude",)))
    _refuse_twins(kept, scenario)
    if len({arm.run.settings.seed for arm in kept}) > 1:
        raise UserError(
            "arms differ in `seed`, which all arms share, so that repeats pair",
            hint="write `repeats: N`: each arm is run with seeds seed, seed + 1, ...",
            where=scenario.source.where(next(arm.point.origins["seed"] for arm in kept if "seed" in arm.point.chosen)),
        )
    return tuple({_identity(arm): arm for arm in kept}.values())


def unused_excludes(scenario: Scenario, cluster: Cluster) -> tuple[str, ...]:
    """Return a warning for each of `exclude` that matches no point."""
    if not scenario.exclude:
        return ()
    arms = [resolve(point, scenario, cluster) for point in points(scenario)]
    matrix = [arm for arm in arms if not arm.point.is_included]
    unused = [(i, out) for i, out in enumerate(scenario.exclude) if not any(_has_all(arm, out) for arm in matrix)]
    places = ((scenario.source.where(("exclude", i)), inline(out)) for i, out in unused)
    return tuple(f"{place}: exclude {partial} matches no point".removeprefix(": ") for place, partial in places)


def with_baselines(arms: Sequence[PlannedArm], scenario: Scenario, cluster: Cluster) -> tuple[PlannedArm, ...]:
    """Return the arms, each group after the base line it lacks."""
    if scenario.baseline is Baseline.NONE:
        return tuple(arms)
    identities = {_identity(arm) for arm in arms}
    planned: list[PlannedArm] = []
    for arm in arms:
        baseline = resolve(_alone(arm), scenario, cluster, is_baseline=True)
        if _identity(baseline) not in identities:
            identities.add(_identity(baseline))
            planned.append(baseline)
        planned.append(arm)
    return tuple(planned)


def with_cores(arms: Sequence[PlannedArm], cluster: Cluster) -> tuple[PlannedArm, ...]:
    """Return the arms with the same cores for each worker: the host's over the most workers on it in the study.

    Above one they are whole cores, which is what a worker can be bound to; the rest stays free, in every arm. They stay
    None where a host's cores are not known yet.
    """
    real = [arm.run.settings for arm in arms if not arm.run.settings.is_simulated]
    used = [(cluster.num_cores(host), count) for settings in real for host, count in spread(settings, cluster)]
    shares = [cores / count for cores, count in used if cores is not None]
    least = min(shares, default=1.0)
    share = None if len(shares) < len(used) else float(math.floor(least)) if least >= 1 else least
    planned = []
    for arm in arms:
        settings = arm.run.settings
        if settings.cores_per_worker is None:
            # All workers that one process simulates share one core.
            cores = 1.0 if settings.is_simulated else share
            arm = arm.with_run(settings=settings.model_copy(update={"cores_per_worker": cores}))
        planned.append(arm)
    return tuple(planned)


def with_names(arms: Sequence[PlannedArm], scenario: Scenario) -> tuple[PlannedArm, ...]:
    """Return the arms with labels that distinguish them, and their values on the scenario's axes."""
    keys = axis_keys(scenario)
    written = [arm for arm in arms if not arm.run.baseline]
    varying = [key for key in keys if len({inline(arm.value(key)) for arm in written}) > 1]
    named = []
    for arm in arms:
        settings, shown = arm.run.settings, [key for key in varying if not arm.run.baseline or is_shared(key)]
        words = in_words({key: arm.value(key) for key in shown})
        label = words or f"strategy={settings.strategy} workers={settings.workers}"
        axes = {key: arm.value(key) for key in keys if key in Settings.model_fields or key in arm.run.options}
        named.append(arm.with_run(label=f"baseline {words}".rstrip() if arm.run.baseline else label, axes=axes))
    return tuple(named)


def in_words(values: Mapping[str, Any]) -> str:
    """Return values as a label has them, such as `batch_size=8 workers=2`; those that are None are left out."""
    words = {key: value if isinstance(value, str) else inline(value) for key, value in values.items()}
    return " ".join(f"{key}={word}" for key, word in words.items() if values[key] is not None)


def _has_all(arm: PlannedArm, partial: dict[str, Any]) -> bool:
    return all(arm.has(key, value) for key, value in partial.items())


def _identity(arm: PlannedArm) -> str:
    return json.dumps([arm.run.settings.model_dump(mode="json"), arm.run.options], sort_keys=True)


def _refuse_twins(arms: Iterable[PlannedArm], scenario: Scenario) -> None:
    seen: dict[str, PlannedArm] = {}
    for arm in arms:
        twin = seen.setdefault(_identity(arm), arm)
        # A value that is tried is nothing to an arm that has no such option.
        if twin is not arm and not arm.point.tuned:
            origins, source = twin.point.origins, scenario.source
            differing = [path for key, path in arm.point.origins.items() if path != origins.get(key)]
            chosen = {key: value for key, value in arm.point.values.items() if not arm.point.is_common(key)}
            raise UserError(
                f"duplicate run: {inline(chosen)[1:-1]}",
                hint="name each value once; write `repeats` to run it again",
                where=source.where(max(differing, key=source.line, default=())),
            )


def _alone(arm: PlannedArm) -> Point:
    """Return the point of its base line: one worker, the same batch as `batch_scope` counts it.

    It has no other setting of its group's distribution. What is simulated has a base line that is simulated, too, whose
    worker computes alike.
    """
    point, also = arm.point, set()
    alone: dict[str, Any] = {"strategy": "single", "workers": 1}
    if arm.run.settings.is_simulated:
        alone["communicator"] = SIMULATED
        also = {f"communicator.{name}" for name in load("communicators", SIMULATED).get("ALONE")}
    kept = {key: value for key, value in point.values.items() if is_shared(key) or key in also}
    origins = {key: path for key, path in point.origins.items() if key in kept}
    return Point(kept | alone, origins, point.chosen & kept.keys() | {"strategy"}, tuned=point.tuned & kept.keys())


def is_shared(key: str) -> bool:
    """Whether a base line has the value of its group of arms for this setting or option."""
    name = key.partition(".")[0]
    return name not in Settings.model_fields or affected_by(name) is not Affects.DISTRIBUTION
