"""What the numbers of a report mean: the words of `dlbench.records.columns`, and of what is made from them."""

from collections.abc import Iterable
from dataclasses import dataclass

from dlbench.records.columns import RUNS
from dlbench.report.page.runs_table import EFFICIENCY, MEASURES


@dataclass(frozen=True)
class Definition:
    """A number's name, its column where it has one, its unit, and what it means."""

    name: str
    column: str
    unit: str
    meaning: str


WORDS = (
    Definition("run", "", "", "One point of the scenario, one repeat. An attempt is one launch of it."),
    Definition("arm", "", "", "All repeats of one point: they differ in the seed alone."),
    Definition(
        "base line",
        "",
        "",
        "One worker alone, without any communication library, equal in everything else to its arms.",
    ),
    Definition(
        "median", "", "", "The middle value over the completed repeats of an arm; every repeat is drawn as a point."
    ),
    Definition(
        "interval",
        "",
        "",
        "Lies between two of the repeats (order statistics) and holds the true median with the stated "
        "probability, whatever the distribution; that of a ratio is Welch's, of logarithms (95%). One repeat has none.",
    ),
    Definition(
        "emulated", "", "", "Not representative hardware, for the reasons named. Never compared with runs that are not."
    ),
)
OF_EFFICIENCY = Definition(
    MEASURES[EFFICIENCY],
    "",
    "",
    "Steady throughput of one worker / that of its base line. At a batch size of each worker it is that of weak "
    "scaling, at one of all workers that of strong scaling.",
)


def definitions(columns: Iterable[str]) -> tuple[Definition, ...]:
    """Return the words, and what each of these columns means that is a measure."""
    known = {column.name: column for column in RUNS}
    found = list(WORDS)
    for name in columns:
        if name == EFFICIENCY:
            found.append(OF_EFFICIENCY)
        elif name in MEASURES:
            found.append(Definition(MEASURES[name], name, known[name].unit, known[name].meaning))
    return tuple(found)
