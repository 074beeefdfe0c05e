"""What published studies claim of their curves, in the words of a reference file; `dlbench.analysis` judges it."""

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dlbench.errors import nearest, shown
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
    """A claim about how a column goes over the places of x, or about two curves of it."""

    FALLS = "falls"
    GAINS_SHRINK = "gains-shrink"
    RISES_AND_FALLS = "rises-to-plateau-and-falls"
    MIRRORS = "mirrors"
    SPEEDS_UP = "speeds-up"
    STARTS_BEHIND = "starts-behind"
    CLOSES_IN = "closes-in"
    OVERTAKES = "overtakes"
    SLIGHTLY_BETTER = "slightly-better"
    LEAST_INSIDE = "least-inside"
    STAYS = "stays"
    COUNTS_THE_OTHERS = "counts-the-others"


# Changes below these count as flat where a claim names no `flat`. A loss moves by a fifth where accuracy
# moves by a point (kim2023: 0.1765 and 0.1490 beside 0.9381 and 0.9464).
FLAT, FLAT_LOSS = 0.02, 0.2
# What a claim needs beside `claim` and `column`; those that take none may name a `series`, else all of them must do it.
NEEDED: dict[Shape, tuple[str, ...]] = {
    Shape.MIRRORS: ("of",),
    Shape.STARTS_BEHIND: ("series", "than"),
    Shape.CLOSES_IN: ("series", "than"),
    Shape.OVERTAKES: ("series", "than", "beyond"),
    Shape.SLIGHTLY_BETTER: ("most",),
}
# Claims that compare two series.
COMPARING = (Shape.STARTS_BEHIND, Shape.CLOSES_IN, Shape.OVERTAKES)
# Claims of which there are mirror images.
MIRRORED = (Shape.FALLS, Shape.SPEEDS_UP, Shape.RISES_AND_FALLS)
# Claims for which it matters what is flat.
_WITH_FLAT = (
    Shape.FALLS, Shape.GAINS_SHRINK, Shape.RISES_AND_FALLS, Shape.MIRRORS, Shape.STAYS, Shape.COUNTS_THE_OTHERS,
)  # fmt: skip


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


class Claim(BaseModel):
    """One claim of a study.

    Attributes:
        claim: What is claimed.
        column: Of which column.
        of: The column that `mirrors` is a mirror image of.
        series: Of which series; None: of each.
        than: The series that `series` is compared with.
        beyond: The place after which `overtakes` is claimed.
        most: By how much at most `slightly-better` is better, in the column's unit.
        flat: The change, as a share, below which a curve counts as flat; None: `FLAT`, of a loss `FLAT_LOSS`.
        inferred: Whether the source says it neither in words nor by its numbers: whoever wrote the file infers it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    claim: Shape
    column: ColumnName
    of: ColumnName | None = None
    series: SeriesName | None = None
    than: SeriesName | None = None
    beyond: Positive | None = None
    most: Positive | None = None
    flat: Annotated[float, Field(gt=0, lt=1)] | None = None
    inferred: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        needed = NEEDED.get(self.claim, ())
        missing = [name for name in needed if getattr(self, name) is None]
        if missing:
            raise ValueError(f"{self.claim} needs `{missing[0]}`")
        taken = {*needed, "series", *(("flat",) if self.claim in _WITH_FLAT else ())}
        optional = [name for name in ("of", "than", "beyond", "most", "flat") if name not in taken]
        extra = [name for name in optional if getattr(self, name) is not None]
        if extra:
            raise ValueError(f"{self.claim} takes no `{extra[0]}`")
        if self.series is not None and self.series == self.than:
            raise ValueError(f"{self.claim} compares {shown(self.series)} with itself")
        if self.of == self.column:
            raise ValueError(f"{self.column} cannot be the mirror image of itself")
        return self

    @property
    def margin(self) -> float:
        """The change, as a share, below which a curve counts as flat."""
        metric = BUILT_IN.get(self.column)
        is_error = metric is not None and metric.is_score and not metric.is_higher_better
        return self.flat or (FLAT_LOSS if is_error else FLAT)

    def said(self, x: str) -> str:
        """Return the claim as a sentence without a full stop: `training time falls with batch size`.

        It ends with `(inferred)` where the claim is.
        """
        place, column = PLACES.get(x, f"`{x}`"), COLUMNS[self.column]
        who = f"{column} of {self.series}" if self.series is not None else column
        than = f"that of {self.than}"
        other = COLUMNS.get(self.of or "", "")
        flat = f"{100 * self.margin:g}%"
        most = f"{100 * (self.most or 0):g} points" if self.column.endswith("accuracy") else f"{self.most or 0:g}"
        sentence = {
            Shape.FALLS: f"{who} falls with {place}, and is nowhere {flat} or more above an earlier value",
            Shape.GAINS_SHRINK: f"{who} falls with {place} by ever less, within {flat}",
            Shape.RISES_AND_FALLS: f"{who} rises with {place} to a plateau (within {flat}) and falls at the end",
            Shape.MIRRORS: f"{who} has the shape of {other} by {place} upside down (flat within {flat})",
            Shape.SPEEDS_UP: f"{who} is less at the largest {place} than at the smallest",
            Shape.STARTS_BEHIND: f"{who} is above {than} at the smallest {place}",
            Shape.CLOSES_IN: f"{who} begins above {than} and closes in with a growing {place}",
            Shape.OVERTAKES: f"{who} is below {than} beyond {place} {self.beyond or 0:g}",
            Shape.SLIGHTLY_BETTER: f"{who} is higher at the largest {place} than at the smallest, by {most} at most",
            Shape.LEAST_INSIDE: f"{who} is least at neither the smallest nor the largest {place}",
            Shape.STAYS: f"{who} changes by less than {flat} from the smallest {place} to any other",
            Shape.COUNTS_THE_OTHERS: f"{who} is {place} - 1 (within {flat})",
        }[self.claim]
        return f"{sentence} (inferred)" if self.inferred else sentence
