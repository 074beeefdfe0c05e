"""What published studies claim of their curves, in the words of a reference file; `dlbench.analysis` judges it."""

import math
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from dlbench.errors import nearest, shown
from dlbench.scenario.frozen import Frozen
from dlbench.scenario.metrics import BUILT_IN

# What a reference file may hold of each place: columns of `runs.csv` that people publish, and what they are called.
COLUMNS = {
    **{column: metric.title for column, metric in BUILT_IN.items()},
    "wall_time_s": "wall time",
    "epochs_to_target": "epochs to target",
    "samples_per_s_per_worker": "steady throughput of one worker",
    "step_time_p50_s": "median step",
    "device_utilization": "device utilization",
    "device_memory_peak_bytes": "device memory",
    "host_memory_peak_bytes": "host memory",
    "energy_j": "energy",
    "updates_per_s": "updates per second",
    "staleness_mean": "mean staleness",
    "gradients_dropped": "gradients dropped",
    "messages": "messages",
    "bytes_sent": "bytes sent",
}
# What the places of its curves may be, and what they are called.
PLACES = {
    "workers": "number of workers",
    "batch_size": "batch size",
    "batch_size_per_worker": "batch size of one worker",
    "batch_size_global": "batch size of all workers",
    "servers": "number of servers",
}
# Settings in which curves may differ.
SERIES = (
    "mode", "model", "strategy", "algorithm", "collectives", "batch_scope", "divide", "precision", "servers",
    "server_placement", "communicator",
)  # fmt: skip
# Options may be places and series, too, as `runs.csv` calls them.
OPTION = r"(strategy|communicator|model|dataset|trainer)\.[a-z][a-z0-9_]*"


class Shape(StrEnum):
    """How a column, or its ratio between two series, goes along x."""

    FALLS = "falls"
    RISES = "rises"
    FLAT = "flat"
    LEAST_INSIDE = "least-inside"
    MOST_INSIDE = "most-inside"
    ABOVE = "above"
    BELOW = "below"


# Changes below these count as flat where a claim names no `flat`. A loss moves by a fifth where accuracy moves by a
# point (kim2023: 0.1765 and 0.1490 beside 0.9381 and 0.9464).
FLAT, FLAT_LOSS = 0.02, 0.2
# Claims for which it matters what is flat, and claims that compare two series.
WITH_FLAT, COMPARING = (Shape.FALLS, Shape.RISES, Shape.FLAT), (Shape.ABOVE, Shape.BELOW)


def column_name(value: str) -> str:
    """Refuse a column that no reference can hold."""
    if value not in COLUMNS:
        more = nearest(value, COLUMNS) or f"there are: {', '.join(COLUMNS)}"
        raise ValueError(f"must be a column that a reference can hold, not {shown(value)}; {more}")
    return value


def _as_text(value: Any) -> Any:
    """Take a series that is called by a number for its text, as it stands in the table."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


ColumnName = Annotated[str, AfterValidator(column_name)]
SeriesName = Annotated[str, BeforeValidator(_as_text), Field(min_length=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Claim(Frozen):
    """One claim of a study.

    Attributes:
        claim: What is claimed.
        column: Of which column.
        series: Of which series; None: of each.
        than: Another series: the claim is about the column of `series` over that of this one.
        beyond: Only places above this one count.
        up_to: Only places up to this one count.
        flat: The change, as a share, below which a curve counts as flat; None: `FLAT`, of a loss `FLAT_LOSS`.
        inferred: Whether the source says it neither in words nor by its numbers: whoever wrote the file infers it.
    """

    claim: Shape
    column: ColumnName
    series: SeriesName | None = None
    than: SeriesName | None = None
    beyond: Positive | None = None
    up_to: Positive | None = None
    flat: Annotated[float, Field(gt=0, lt=1)] | None = None
    inferred: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.claim in COMPARING and self.than is None:
            raise ValueError(f"{self.claim} needs `than`")
        if self.than is not None and self.series is None:
            raise ValueError("`than` needs `series`")
        if self.flat is not None and self.claim not in WITH_FLAT:
            raise ValueError(f"{self.claim} takes no `flat`")
        if self.series is not None and self.series == self.than:
            raise ValueError(f"{self.claim} compares {shown(self.series)} with itself")
        if self.beyond is not None and self.up_to is not None and self.beyond >= self.up_to:
            raise ValueError(f"no place is beyond {self.beyond:g} and up to {self.up_to:g}")
        return self

    @property
    def margin(self) -> float:
        """The change, as a share, below which a curve counts as flat."""
        metric = BUILT_IN.get(self.column)
        is_error = metric is not None and metric.is_score and not metric.is_higher_better
        return self.flat or (FLAT_LOSS if is_error else FLAT)

    def covers(self, place: float) -> bool:
        """Whether it is about a place."""
        return (self.beyond or -math.inf) < place <= (self.up_to or math.inf)

    @property
    def where(self) -> str:
        """Which places it is about, such as ` beyond 4`; empty where it is about all."""
        ends = {"beyond": self.beyond, "up to": self.up_to}
        return "".join(f" {word} {end:g}" for word, end in ends.items() if end is not None)

    def said(self, x: str) -> str:
        """Return the claim as a sentence without a full stop: `training time falls with batch size`.

        It ends with `(inferred)` where the claim is.
        """
        place, column = PLACES.get(x, f"`{x}`"), COLUMNS[self.column]
        curve = f"{column} of {self.series}" if self.series is not None else column
        if self.claim in COMPARING:
            sentence = f"{curve} is {self.claim} that of {self.than}"
        else:
            curve = f"{curve} over that of {self.than}" if self.than is not None else curve
            flat = f"{100 * self.margin:g}%"
            sentence = {
                Shape.FALLS: f"{curve} falls with {place}, and is nowhere {flat} or more above an earlier value",
                Shape.RISES: f"{curve} rises with {place}, and is nowhere {flat} or more below an earlier value",
                Shape.FLAT: f"{curve} changes by less than {flat} from the smallest {place} to any other",
                Shape.LEAST_INSIDE: f"{curve} is least at neither the smallest nor the largest {place}",
                Shape.MOST_INSIDE: f"{curve} is greatest at neither the smallest nor the largest {place}",
            }[self.claim]
        places = f" for {place}{self.where}" if self.where else f" at every {place}" if self.claim in COMPARING else ""
        return f"{sentence}{places}" + (" (inferred)" if self.inferred else "")
