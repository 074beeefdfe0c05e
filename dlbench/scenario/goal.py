"""What decides between arms: a target soonest or cheapest, least time without losing quality, or throughput."""

import re
from collections.abc import Mapping
from typing import Literal

from dlbench.errors import UserError, nearest, shown
from dlbench.scenario.frozen import Frozen
from dlbench.scenario.metrics import Metric

FORMS = "`time`, `cost`, `throughput`, `time keeping validation_loss`, `time to validation_accuracy>=0.9`"
_WORDS = re.compile(
    r"(?P<least>time|cost|throughput)"
    r"(?: to (?P<metric>\w+) ?(?P<side>>=|<=) ?(?P<value>[-+.\deE]+)| keeping (?P<quality>\w+))?"
)


class Goal(Frozen):
    """What decides between arms.

    Attributes:
        least: Least training time, least cost (worker-hours, where there is no price), or highest throughput.
        target: Column and value that runs are to reach, where that is the goal.
        quality: The score that no arm may lose, where one is named; default: the first that runs have.
    """

    least: Literal["time", "cost", "throughput"] = "time"
    target: tuple[str, float] | None = None
    quality: str | None = None

    def __str__(self) -> str:
        if self.target:
            return f"{self.least} to {self.target[0]} {self.target[1]:g}"
        return f"{self.least} keeping {self.quality}" if self.quality else self.least


def read_goal(text: str, metrics: Mapping[str, Metric], where: str = "") -> Goal:
    """Return the goal that a text says.

    Args:
        text: One of FORMS.
        metrics: All metrics by column.
        where: What messages call its place.

    Raises:
        UserError: It has another form, or names no score, or the wrong side of one.
    """
    match = _WORDS.fullmatch(" ".join(text.split()))
    if not match or (match["least"] == "throughput" and match[0] != "throughput"):
        raise UserError(f"the goal {shown(text)} is not of a known form; there are: {FORMS}", where=where)
    scores = [name for name, metric in metrics.items() if metric.is_score]
    for name in filter(None, (match["metric"], match["quality"])):
        if name not in scores:
            more = nearest(name, scores) or f"there are: {', '.join(scores)}"
            raise UserError(f"the goal names {shown(name)}, which no run is scored by; {more}", where=where)
    if not match["metric"]:
        return Goal(least=match["least"], quality=match["quality"])
    try:
        value = float(match["value"])
    except ValueError:
        raise UserError(f"the goal's value is a number, not {shown(match['value'])}", where=where) from None
    metric = metrics[match["metric"]]
    if not metric.least <= value <= metric.most:
        raise UserError(f"{metric.title} is never {value:g}", where=where)
    if (match["side"] == ">=") != metric.is_higher_better:
        other = "<=" if match["side"] == ">=" else ">="
        raise UserError(
            f"{match['metric']} is better on the other side: {match['metric']}{other}{value:g}", where=where
        )
    return Goal(least=match["least"], target=(match["metric"], value))
