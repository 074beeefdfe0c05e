"""Strategies under conditions: what of their settings makes variants of one, and how many messages they send."""

from collections.abc import Iterator, Sequence

from dlbench.analysis.arms import Arm, quotient
from dlbench.analysis.groups import condition_text, groups, values_of, varying, ways
from dlbench.report.chart import Axis, MissingRowsError
from dlbench.report.figures._places import WORKERS
from dlbench.report.figures._target import TARGET, TIME, end_notes, late, target_name
from dlbench.report.lines import Part, brief_keys, ended

# What belongs to a strategy: variants of it differ in these.
OF_STRATEGY = ("strategy", "algorithm", "collectives", "launcher", "servers", "server_placement", "placement", "mode")
PER_SAMPLE = "bytes_per_sample"


def belongs_to_strategy(key: str) -> bool:
    """Whether a setting or option makes a variant of a strategy, and no other condition."""
    return key in OF_STRATEGY or key.startswith("strategy.")


def with_messages(arms: Sequence[Arm]) -> list[Arm]:
    """Return the arms of several workers with the column PER_SAMPLE, and what those came to that missed a target.

    Raises:
        MissingRowsError: None sends messages between nodes.
    """
    columns = {PER_SAMPLE: lambda row: quotient(row.get("bytes_sent"), row.get("samples_seen")), ended(TIME): late}
    if not values_of(ways(arms), "messages"):
        raise MissingRowsError("needs completed runs of two or more strategies, one of which sends messages")
    return [arm.having(**columns) for arm in ways(arms)]


def by_condition(arms: Sequence[Arm]) -> Iterator[tuple[Part, Axis]]:
    """Yield the arms of each condition against workers; variants of strategies are told apart."""
    keys = varying(arms, x="workers")
    variants = [key for key in keys if key != "strategy" and belongs_to_strategy(key)]
    for values, alike in groups(arms, [key for key in keys if not belongs_to_strategy(key)]):
        part = Part(condition_text(values, arms), tuple(alike), ("strategy", *variants), "workers")
        yield brief_keys(part), WORKERS


def message_notes(_: Sequence[Arm], shown: Sequence[Arm]) -> Iterator[str]:
    """Say what the targets are, and how the runs count that did not reach them."""
    aimed = [arm for arm in shown if arm.get("target_value") is not None]
    yield from (f"The target is a {target_name(values)}." for values, _ in groups(aimed, TARGET))
    yield from end_notes(aimed)
