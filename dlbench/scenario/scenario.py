"""A scenario: what to measure. `dlbench.scenario.read` reads it, `dlbench.scenario.expand` turns it into runs."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    model_validator,
)

from dlbench.scenario.frozen import Frozen
from dlbench.scenario.goal import FORMS
from dlbench.scenario.metrics import Declaration
from dlbench.scenario.run_spec import Limits, Target
from dlbench.scenario.settings import Count
from dlbench.scenario.source import Path, Source

# A file name holds at most 255 bytes; a start time and a counter follow.
MAX_NAME_BYTES = 150
_FORBIDDEN_IN_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f/\\\ud800-\udfff]")
_REFERENCE = re.compile(r"\w[\w.-]{0,99}")


class Order(StrEnum):
    """In which order the runs are executed."""

    BLOCKS = "blocks"
    SHUFFLED = "shuffled"
    WRITTEN = "written"


class Baseline(StrEnum):
    """Whether dlbench adds a run of one worker to each group of arms."""

    AUTO = "auto"
    NONE = "none"


class StepTable(StrEnum):
    """How the rows of steps are kept."""

    AUTO = "auto"
    CSV = "csv"
    PARQUET = "parquet"


def _name(value: str) -> str:
    if not value.strip() or value.startswith((".", "-")) or _FORBIDDEN_IN_NAME.search(value):
        raise ValueError("must be a name that can be a folder's: no slash, no control character, no dot in front")
    if len(value.encode()) > MAX_NAME_BYTES:
        raise ValueError(f"must be at most {MAX_NAME_BYTES} bytes long")
    return value


def _reference(value: str) -> str:
    if value and not _REFERENCE.fullmatch(value):
        raise ValueError("must name published numbers in a file, such as `kim2023`; `description` takes any text")
    return value


def name_from(stem: str) -> str:
    """Return a folder name made of any text: what a folder name cannot hold is replaced by a hyphen."""
    name = _FORBIDDEN_IN_NAME.sub("-", stem).lstrip(".-").strip()
    return name.encode()[:MAX_NAME_BYTES].decode(errors="ignore").strip() or "scenario"


# An empty section (`matrix:` with nothing under it) is taken for one that is not there.
_FILLED = BeforeValidator(lambda value: {} if value is None else value)
_LISTED = BeforeValidator(lambda value: () if value is None else value)


def _equally_long(axes: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    lengths = {key: len(values) for key, values in axes.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{key} has {length}" for key, length in lengths.items())
        raise ValueError(f"links axes that are not equally long: {listed}")
    return axes


Axis = Annotated[tuple[Any, ...], Field(min_length=1)]
Axes = dict[str, Axis]
Linked = Annotated[Axes, Field(min_length=1), AfterValidator(_equally_long)]
Partial = Annotated[dict[str, Any], Field(min_length=1)]


def _candidates(value: Any) -> Any:
    """Take `auto` for no values: the search finds its own."""
    if value != "auto" and not (isinstance(value, list | tuple) and value):
        raise ValueError("must be a list of values, or `auto`")
    return () if value == "auto" else value


Candidates = Annotated[tuple[Any, ...], BeforeValidator(_candidates)]


class Tune(BaseModel):
    """What is searched for, for each arm, before it is measured: values by setting or option, beside the keys here."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Candidates] = Field(init=False)

    repeats: Count | None = Field(
        None,
        description="Runs of each candidate, on seeds that no measured repeat has. Default: two where there are at "
        "least twice as many measured repeats as candidates, else one.",
    )
    epochs: Count | None = Field(
        None,
        description="Epochs of each candidate. Default: those of the arm, or fewer where the search would else cost "
        "more than the measurement; the best half then goes on with more.",
    )

    @property
    def candidates(self) -> dict[str, Candidates]:
        """The values to try by setting or option; none where the search finds its own (`auto`)."""
        return self.__pydantic_extra__


class LeastRate(Frozen):
    """A share of a stored rate below which a run is too slow."""

    of: str = Field(description="A `runs.csv` with rates, by device and settings or label; a path from here.")
    share: Annotated[float, Field(gt=0, le=1)] = Field(0.7, description="Of their median.")


class Expectations(Frozen):
    """What a smoke test expects of every run; `dlbench run` says what is not so, and ends with code 3."""

    gpu: bool = Field(False, description="It computes on a GPU, and no reading of the GPU's sensors is impossible.")
    falling_loss: bool = Field(False, description="The training loss of its last epoch is below that of its first.")
    rate: LeastRate | None = Field(None, description="It is not much slower than runs on the same device were.")


# As many repeats may be made of an arm until it is decided.
MOST_OF_RULE = 200


class Repeats(Frozen):
    """Repeats of each arm until the goal is decided."""

    min: Annotated[Count, Field(ge=3)] = Field(3, description="Before the first look.")
    max: Annotated[Count, Field(le=MOST_OF_RULE)] = Field(20, description="Of one arm.")
    until: Literal["decided"] = Field("decided", description="An arm that is shown to keep or to lose is left out.")

    @property
    def rule(self) -> str:
        """What rows say of it."""
        return f"until {self.until}: {self.min} to {self.max}"

    def __str__(self) -> str:
        """Return it as `--repeats` reads it."""
        return f"{self.min}..{self.max}"

    @classmethod
    def of_rule(cls, rule: str) -> Self:
        """Return the repeats of which rows say this rule."""
        least, _, most = rule.rpartition(": ")[2].partition(" to ")
        return cls(min=int(least), max=int(most))

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max < self.min:
            raise ValueError(f"has min {self.min} above max {self.max}")
        return self


# A rule is a mapping; whatever else is written is meant to be a number, and is refused as one.
FORMS_OF_REPEATS = ("<rule>", "<count>")
RepeatsOrCount = Annotated[
    Annotated[Repeats, Tag("<rule>")] | Annotated[Count, Tag("<count>")],
    Discriminator(lambda value: FORMS_OF_REPEATS[not isinstance(value, dict | Repeats)]),
]


class Scenario(Limits):
    """What to measure: settings common to all runs, the axes that vary, and how often. Time limits are keys of it too.

    A key of `base`, an axis or a point is a field of `Settings` or a plugin's option by dotted name.
    """

    name: Annotated[str, AfterValidator(_name)] = Field(description="Names the study; default: the file's name.")
    description: str = Field("", description="What it is for.")
    reference: Annotated[str, AfterValidator(_reference)] = Field(
        "",
        description="Published numbers it is compared with: NAME of `reference/NAME.csv` beside the scenario, else of "
        "`scenarios/reference` in the folder dlbench is started in.",
    )
    base: Annotated[dict[str, Any], _FILLED] = Field(
        default_factory=dict, description="Settings and plugin options (`model.hidden`) common to all runs."
    )
    matrix: Annotated[Axes, _FILLED] = Field(
        default_factory=dict, description="Axes, each a list of values; every combination is an arm."
    )
    zip: Annotated[tuple[Linked, ...], _LISTED] = Field(
        (), description="Linked axes: lists of equal length that vary together. Several mappings multiply."
    )
    include: Annotated[tuple[Partial, ...], _LISTED] = Field(
        (), description="Whole points added to the matrix, each over `base`."
    )
    exclude: Annotated[tuple[Partial, ...], _LISTED] = Field(
        (), description="Points of the matrix left out: those that have all values of one of these."
    )
    tune: Tune | None = Field(
        None,
        description="Settings or options whose best value, by the goal, is searched for each arm before it is "
        "measured, such as `learning_rate: [0.01, 0.03, 0.1]`, or `learning_rate: auto`.",
    )
    repeats: RepeatsOrCount = Field(
        1,
        description="How often each arm is run; the seed grows by one each time. `{min: 3, max: 20, until: decided}` "
        "repeats arms that are still open.",
    )
    order: Order = Field(
        Order.BLOCKS,
        description="`blocks`: one repeat after the other, shuffled within; `shuffled`: all; `written`: as written.",
    )
    baseline: Baseline = Field(
        Baseline.AUTO, description="`auto`: add the run of one worker without communication to each group of arms."
    )
    step_table: StepTable = Field(
        StepTable.AUTO,
        description="`csv`: steps.csv; `parquet`: steps.parquet, a quarter of the size (needs pyarrow); `auto`: CSV up "
        "to 50 MB.",
    )
    target: Target | None = Field(None, description="A value to reach; the time to it is a column.")
    goal: str = Field(
        "",
        description=f"What decides between arms: {FORMS}. Default: the target soonest; without one, least time "
        "without losing quality.",
    )
    given: tuple[str, ...] = Field(
        (), description="Axes that are conditions, not choices: an answer is made for each, never across."
    )
    expect: Annotated[Expectations, _FILLED] = Field(
        default_factory=Expectations, description="What must be so in every run, for smoke tests."
    )
    metrics: Annotated[dict[str, Declaration], _FILLED] = Field(
        default_factory=dict,
        description="What a script reports with `run.epoch(NAME=...)` besides losses and accuracies, prints or writes.",
    )

    _source: Source = PrivateAttr(default_factory=Source)

    @property
    def source(self) -> Source:
        """Where each value was written; empty for a scenario made in Python."""
        return self._source

    def written_in(self, source: Source) -> Self:
        """Return the same scenario that knows where it was written."""
        copy = self.model_copy()
        copy._source = source
        return copy

    @property
    def least_repeats(self) -> int:
        """How often each arm is run in any case."""
        return self.repeats if isinstance(self.repeats, int) else self.repeats.min

    @property
    def limits(self) -> Limits:
        """The time limits of each run."""
        return Limits(**{name: getattr(self, name) for name in Limits.model_fields})

    def axes(self) -> tuple[tuple[Path, Axes], ...]:
        """Return the groups of axes whose combinations are the points: each of `matrix` alone, each of `zip` linked."""
        alone = [(("matrix",), {key: values}) for key, values in self.matrix.items()]
        linked = [(("zip", index), axes) for index, axes in enumerate(self.zip)]
        return (*alone, *linked)

    def entries(self) -> Iterator[tuple[Path, str, Any]]:
        """Yield every value of a setting or option with its path and key."""
        for key, value in self.base.items():
            yield ("base", key), key, value
        for path, axes in self.axes():
            for key, values in axes.items():
                yield from (((*path, key, index), key, value) for index, value in enumerate(values))
        for key, candidates in self.tune.candidates.items() if self.tune else ():
            yield from ((("tune", key, index), key, value) for index, value in enumerate(candidates))
        for section, points in (("include", self.include), ("exclude", self.exclude)):
            for index, point in enumerate(points):
                yield from (((section, index, key), key, value) for key, value in point.items())
