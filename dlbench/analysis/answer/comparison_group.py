"""Comparison groups: arms of one task under one condition, emulated and real ones apart, each with a title."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from dlbench.analysis.arms import IMPORTED, Arm, columns_of, emulation
from dlbench.analysis.formatting import joined, one_line
from dlbench.analysis.groups import (
    ALONE,
    TASK,
    column_of,
    condition_text,
    described,
    is_shared,
    naming,
    place_of,
    task_columns,
    tuned_columns,
    values_of,
)
from dlbench.grouping import by_key

LINK = "link_bandwidth_bytes_per_s"
# Conditions that a base line is itself under another one of.
NUMBERS = ("workers", "hosts", "workers_per_host")
# What one worker alone has nothing of: how work is divided.
_OF_SEVERAL = ("batch_scope", "divide", "learning_rate_scale")
# Arms that differ in these are scored on other samples.
_EVALUATED = ("validation_samples", "validation_fraction")
# Links of studies whose measured bandwidths differ by less than this ratio are the same condition.
SAME_LINK = 1.5


@dataclass(frozen=True, eq=False)
class ComparisonGroup:
    """Arms that can be compared.

    Attributes:
        title: Model and data set, or the command.
        emulated: Reasons why its runs were not on representative hardware, for a sentence; empty where they are real.
        arms: In the order of their first runs, each with its own title.
        keys: The settings that their titles state.
        given: The condition that they share, by column; empty where all arms of the report share one.
        condition: The same in words.
    """

    title: str
    emulated: str
    arms: tuple[Arm, ...]
    keys: tuple[str, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    condition: str = ""

    @property
    def completed(self) -> tuple[Arm, ...]:
        """The arms with at least one completed run."""
        return tuple(arm for arm in self.arms if arm.completed)


def comparison_groups(arms: Sequence[Arm], given: Collection[str] = ()) -> list[ComparisonGroup]:
    """Return the comparison groups of a report: by task, in the order of first runs, emulated ones last, by condition.

    A base line of one worker is in the groups of all links, none of which holds it up, and of all ways of communicating
    and dividing.

    Args:
        arms: All arms of the report.
        given: Settings that are conditions beside those that always are.
    """
    links, columns = _links(arms), _conditions(arms, given)
    alone = [arm for arm in arms if arm.is_alone]
    of_alone = [name for name in columns if _binds_alone(name) or len({arm.get(name) for arm in alone}) > 1]
    keys: dict[Arm, tuple[Any, ...]] = {}
    for arm in arms:
        decisive = of_alone if arm.is_alone else columns
        condition = [arm.get(column) if column in decisive else None for column in columns]
        keys[arm] = (_task(arm), bool(arm.emulated), *condition, links.get(arm.study))
    of_ways = dict.fromkeys(keys[arm] for arm in arms if not arm.is_alone)
    grouped: dict[tuple[Any, ...], list[Arm]] = {}
    for arm in arms:
        fitting = [key for key in of_ways if arm.is_alone and _fits(keys[arm], key)]
        for key in fitting or [keys[arm]]:
            grouped.setdefault(key, []).append(arm)
    titles = [title for title, *_ in keys.values()]
    columns += [LINK] if len(set(links.values())) > 1 else []
    groups = []
    ordered = sorted(grouped, key=lambda key: (titles.index(key[0]), key[1], *map(place_of, key[2:])))
    for title, is_emulated, *condition in ordered:
        members, shared = grouped[title, is_emulated, *condition], dict(zip(columns, condition, strict=False))
        if len(members) == 1 and members[0].is_alone and of_ways and set(NUMBERS) & set(columns):
            continue  # the base line of others: there is nothing to choose between
        # An arm that is alone in its group is called as among those of other groups.
        stated = (
            naming(members) if len(members) > 1 else tuple(key for key in naming(arms) if key not in {*shared, *TASK})
        )
        emulated = emulation(arm.emulated for arm in members).replace(";", ", ")
        titled = _titled(members, stated)
        groups.append(ComparisonGroup(title, emulated, titled, stated, shared, condition_text(shared, arms)))
    return groups


def _conditions(arms: Sequence[Arm], given: Collection[str]) -> list[str]:
    """Return the columns of conditions in which arms differ: declared, devices, data and what is evaluated, simulator.

    Data that is known to be the same, such as one folder under two paths, is one condition.
    """
    of_settings = {"device_name", *_EVALUATED, *map(column_of, given), *set(task_columns(arms)).difference(TASK)}
    ways = [arm for arm in arms if not arm.is_alone] or arms
    options = ("communicator.",) if len(values_of(arms, "dataset_checksum")) == 1 else ("communicator.", "dataset.")
    always = (name for name in columns_of(arms) if name.startswith(options) or name in of_settings)
    return [name for name in always if len(values_of(arms if _binds_alone(name) else ways, name)) > 1]


def _binds_alone(name: str) -> bool:
    """Whether one worker alone is itself under a condition: not under links, ways of communicating or of dividing."""
    return name in NUMBERS or (is_shared(name) and name not in _OF_SEVERAL)


def _fits(key: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether all that is known of a task and condition is as in another one."""
    return all(ours in (None, two) for ours, two in zip(key, other, strict=True))


def _links(arms: Sequence[Arm]) -> dict[str | None, float]:
    """Return the bandwidth of the links that each study measured; of studies on about the same links that of one."""
    measured = by_key((arm.study, rate) for arm in arms for rate in arm.values(LINK))
    medians = {study: median(rates) for study, rates in measured.items()}
    last_of: dict[str | None, float] = {}
    last = 0.0
    for study in sorted(medians, key=medians.__getitem__):
        last = last if medians[study] < SAME_LINK * last else medians[study]
        last_of[study] = last
    return last_of


def _task(arm: Arm) -> str:
    named = (arm.first.get(key) for key in TASK)
    return " on ".join(one_line(name) for name in named if name and name != IMPORTED) or "a task without a name"


def _titled(arms: Sequence[Arm], keys: Sequence[str]) -> tuple[Arm, ...]:
    """Return arms with what people call them; base lines without the settings that only other arms have."""
    titles, keys, are_alone = [], (*keys, *tuned_columns(arms)), all(arm.is_alone for arm in arms)
    for arm in arms:
        is_base_line = arm.is_alone and not are_alone
        text = described({key: arm.first.get(key) for key in keys if is_shared(key) or not is_base_line})
        titles.append(one_line(joined(ALONE, text) if is_base_line else text or arm.label))
    times = Counter(titles)
    return tuple(
        replace(arm, title=title if times[title] == 1 else one_line(f"{title} [{arm.name} of {arm.study}]"))
        for arm, title in zip(arms, titles, strict=True)
    )
