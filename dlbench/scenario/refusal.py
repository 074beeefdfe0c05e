"""Points that cannot be run: all of them in one message, with the lines that would leave them out."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dlbench.errors import UserError
from dlbench.scenario.arms import draft
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.exclusion import exclude_lines
from dlbench.scenario.points import Point
from dlbench.scenario.possible import Descriptions, impossible
from dlbench.scenario.resolve import Arm
from dlbench.scenario.scenario import Scenario
from dlbench.scenario.source import Path

_MOST_REASONS = 5


def judge(arms: Sequence[Arm], scenario: Scenario, cluster: Cluster) -> list[str]:
    """Return, for each arm, why it cannot be run; an empty string where it can.

    Raises:
        UserError: A data set refuses its options.
    """
    seen: Descriptions = {}
    found = []
    for arm in arms:
        try:
            found.append(impossible(draft(arm, scenario), cluster, seen))
        except UserError as error:
            where = error.where or scenario.source.where(_dataset_path(arm.point))
            raise UserError(error.message, hint=error.hint, where=where) from error
    return found


def refuse_points(arms: Sequence[Arm], reasons: Sequence[str], is_wanted: Sequence[bool], scenario: Scenario) -> None:
    """Refuse impossible points among those that are wanted.

    Raises:
        UserError: There are any.
    """
    is_bad = [bool(reason) and wanted for reason, wanted in zip(reasons, is_wanted, strict=True)]
    if not any(is_bad):
        return
    bad = [arm for arm, gone in zip(arms, is_bad, strict=True) if gone]
    why = Counter(reason for reason, gone in zip(reasons, is_bad, strict=True) if gone)
    where = scenario.source.where(_place(bad[0].point))
    if not bad[0].point.chosen:
        raise UserError(f"this cannot be run: {next(iter(why))}", where=where)
    # Leaving out everything is no remedy.
    hint = "" if all(is_bad) else _remedy(arms, is_bad)
    raise UserError(f"{len(bad)} of {len(arms)} points cannot be run:\n{_listed(why)}", hint=hint, where=where)


def refuse_baselines(arms: Sequence[Arm], reasons: Sequence[str], scenario: Scenario) -> None:
    """Refuse base lines that cannot be run.

    Raises:
        UserError: There are any.
    """
    why = Counter(reason for reason in reasons if reason)
    if why:
        raise UserError(
            f"{why.total()} of {len(arms)} base lines cannot be run:\n{_listed(why)}",
            hint="`baseline: none` leaves base lines out",
            where=scenario.source.where(("baseline",)),
        )


def _listed(why: Counter[str]) -> str:
    lines = [f"  {reason}" + (f" ({count} points)" if count > 1 else "") for reason, count in why.items()]
    more = [f"  and {len(lines) - _MOST_REASONS} more reasons"] if len(lines) > _MOST_REASONS else []
    return "\n".join(lines[:_MOST_REASONS] + more)


def _remedy(arms: Sequence[Arm], is_bad: Sequence[bool]) -> str:
    """Say what would remove exactly the impossible points."""
    matrix = [(arm.point, gone) for arm, gone in zip(arms, is_bad, strict=True) if not arm.point.is_included]
    lines = exclude_lines([_chosen(point) for point, _ in matrix], [gone for _, gone in matrix])
    included = [arm.point for arm, gone in zip(arms, is_bad, strict=True) if arm.point.is_included and gone]
    said = ["leave them out with\nexclude:\n" + "\n".join(lines)] if lines else []
    if included:
        numbers = ", ".join(str(int(_place(point)[1]) + 1) for point in included)
        said.append(f"take out of `include`: point {numbers}")
    return "\n".join(said)


def _chosen(point: Point) -> dict[str, Any]:
    return {key: value for key, value in point.values.items() if key in point.chosen}


def _place(point: Point) -> Path:
    """Return where a point was written: its included point, the last of its axes, or `base`."""
    paths = [path for key, path in point.origins.items() if key in point.chosen]
    if point.is_included:
        return paths[0][:2]
    return paths[-1] if paths else ("base",)


def _dataset_path(point: Point) -> Path:
    options = [path for key, path in point.origins.items() if key.startswith("dataset.")]
    return next(iter(options), point.origins.get("dataset", ()))
