"""What the numbers of a report mean: the words of `dlbench.records.columns`, and of what is made from them."""

from collections.abc import Iterable
from typing import NamedTuple

from dlbench.analysis.arm_table import EFFICIENCY
from dlbench.analysis.groups import ALONE
from dlbench.records.columns import RUNS
from dlbench.report.page.runs_table import MEASURES


class Definition(NamedTuple):
    """A number's name, what it means, its unit, and its column where it has one."""

    name: str
    meaning: str
    unit: str = ""
    column: str = ""


WORDS = (
    Definition("run", "One point of the scenario, one repeat. An attempt is one launch of it."),
    Definition("arm", "All repeats of one point: they differ in the seed alone."),
    Definition(
        ALONE,
        "What arms are measured by: one worker without any communication library, equal to them in everything else.",
    ),
    Definition("median", "The middle value over the completed repeats of an arm; every repeat is drawn as a point."),
    Definition(
        "interval",
        "Lies between two of the repeats (order statistics) and holds the true median with the stated "
        "probability, whatever the distribution; that of a ratio is Welch's, of logarithms (95%). One repeat has none.",
    ),
    Definition(
        "emulated", "Not representative hardware, for the reasons named. Never compared with runs that are not."
    ),
)
OF_EFFICIENCY = Definition(
    MEASURES[EFFICIENCY],
    f"Steady throughput of each worker / that of {ALONE}. At a batch size of each worker it is that of weak "
    "scaling, at one of all workers that of strong scaling.",
)


def definitions(names: Iterable[str]) -> tuple[Definition, ...]:
    """Return the words, and what each of these columns means that is a measure."""
    known = {
        column.name: Definition(MEASURES[column.name], column.meaning, column.unit, column.name)
        for column in RUNS
        if column.name in MEASURES
    } | {EFFICIENCY: OF_EFFICIENCY}
    return (*WORDS, *(known[name] for name in names if name in known))
