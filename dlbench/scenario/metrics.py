"""What runs are scored and compared by: each quantity with its unit, its better side and what difference matters.

The project's own trainers evaluate `SCORES`, on training and on validation samples. A script of the user's own reports
others by name, which its scenario declares under `metrics`, or prints or writes any of them. Columns, targets, goals,
figures, exporters and the answer derive from these declarations.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dlbench.scenario.frozen import Frozen

_SHARE = re.compile(r"(\d+(?:\.\d+)?) ?%")
# What is no parenthesis in a regular expression, or one.
_PARENTHESIS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^]\\])*\]|\((?:\?(?:P<\w+>)?)?|\)", re.DOTALL)


@dataclass(frozen=True)
class Metric:
    """A quantity that runs are scored or compared by.

    Attributes:
        column: Its column in `runs.csv`; scores have it in `epochs.csv`, too.
        title: What a sentence or a heading calls it.
        is_higher_better: Whether more is better.
        margin: The smallest difference that matters: in the column's unit, or a share of the value.
        is_share: Whether `margin` is a share. Such quantities are compared by ratios.
        unit: Of its values; empty where it has none.
        is_score: Whether it says how well a model predicts.
        knows_nothing: What a model that knows nothing scores; None where only its data say that, or it is no score.
        least: No value is below it; of a loss, none that the project's own trainers compute.
        most: No value is above it.
    """

    column: str
    title: str
    is_higher_better: bool
    margin: float
    is_share: bool
    unit: str = ""
    is_score: bool = False
    knows_nothing: float | None = None
    least: float = -math.inf
    most: float = math.inf

    @property
    def score(self) -> str:
        """Name of the score without the samples it is of: `accuracy` of `validation_accuracy`."""
        return self.column.removeprefix("train_").removeprefix("validation_") if self.is_score else ""

    @property
    def other_units(self) -> str:
        """A regular expression of units in which such values are printed, too."""
        if self.unit == "s":
            return r"[nmu\u00b5\u03bc]s|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|days?"
        if self.unit == "samples/s":
            return r"(?:it|iter(?:ation)?s?|steps?|batch(?:es)?)(?:/|[ _]per[ _])s(?:ec(?:ond)?)?"
        return "%" if self.most == 1 else "(?!)"

    def is_reached(self, value: float, aim: float) -> bool:
        """Whether a value is at the aim or on the better side of it."""
        return value >= aim if self.is_higher_better else value <= aim

    def gain(self, value: float, other: float) -> float:
        """Return by how much a value is better than another one; below 0 where it is worse."""
        return value - other if self.is_higher_better else other - value

    def margin_at(self, value: float) -> float:
        """Return the smallest difference from a value that matters."""
        return self.margin * abs(value) if self.is_share else self.margin

    def of_classes(self, num_classes: int) -> float | None:
        """Return what guessing one of `num_classes` classes scores, equally frequent; None of other scores."""
        guesses = {"accuracy": 1 / num_classes, "loss": math.log(num_classes)} if num_classes > 0 else {}
        return guesses.get(self.score, self.knows_nothing)


# Metrics by column.
Metrics = Mapping[str, Metric]


def _time(column: str, title: str) -> Metric:
    return Metric(column, title, is_higher_better=False, margin=0.02, is_share=True, unit="s")


def _error(column: str, title: str) -> Metric:
    return Metric(column, title, is_higher_better=False, margin=0.02, is_share=True, is_score=True, least=0.0)


# What the project's own trainers may evaluate, by name. A sample's loss is in nats, of a regression its squared error.
SCORES: Metrics = {
    "loss": _error("loss", "loss"),
    "accuracy": Metric(
        "accuracy", "accuracy", is_higher_better=True, margin=0.01, is_share=False, is_score=True, least=0.0, most=1.0
    ),
    "mean_squared_error": _error("mean_squared_error", "mean squared error"),
}
TRAIN_TIME = _time("train_time_s", "training time")
TIME_TO_TARGET = _time("time_to_target_s", "time to target")
RATE = Metric("samples_per_s", "steady throughput", True, 0.02, is_share=True, unit="samples/s")
MFU = Metric("mfu", "model FLOP utilisation", True, 0.02, is_share=True, least=0.0, most=1.0)


# Which samples a score is of, those that decide first.
SAMPLES: tuple[Literal["validation", "train"], ...] = ("validation", "train")


def scored(samples: Literal["train", "validation"], name: str) -> Metric:
    """Return a score of the project's own on training or validation samples.

    Raises:
        KeyError: There is none of this name.
    """
    words = {"train": "training", "validation": "validation"}[samples]
    return replace(SCORES[name], column=f"{samples}_{name}", title=f"{words} {SCORES[name].title}")


def evaluated(num_classes: int) -> tuple[str, ...]:
    """Return the names of what the project's own trainers evaluate; a regression has no classes."""
    return ("loss", "accuracy" if num_classes else "mean_squared_error")


# The columns of scores, in the order of tables.
SCORE_COLUMNS = tuple(scored(samples, name).column for samples in reversed(SAMPLES) for name in SCORES)
_SCORED = (scored(samples, name) for samples in SAMPLES for name in ("accuracy", "loss", "mean_squared_error"))
BUILT_IN: Metrics = {metric.column: metric for metric in (TIME_TO_TARGET, TRAIN_TIME, RATE, MFU, *_SCORED)}
# By which runs are judged where nothing else is asked for, the first that they have.
QUALITY = ("validation_accuracy", "validation_mean_squared_error", "validation_loss")


class Matters(Frozen):
    """The smallest difference of a metric that matters: a number in its unit, or a share such as `2%`."""

    value: float = Field(gt=0, allow_inf_nan=False)
    is_share: bool = False


def _matters(value: Any) -> Any:
    """Take a number for one in the metric's unit, and `2%` for a share."""
    if isinstance(value, str) and (match := _SHARE.fullmatch(value.strip())):
        return {"value": float(match[1]) / 100, "is_share": True}
    if isinstance(value, bool | str | list):
        raise ValueError("must be a number in the metric's unit, or a share such as 2%")
    return {"value": value} if isinstance(value, int | float) else value


class MetricDeclaration(Frozen):
    """A metric that a script reports with `run.epoch(NAME=...)`, prints, or writes into a file."""

    better: Literal["higher", "lower"] | None = Field(
        None, description="Which values are better; of a metric that dlbench knows, that is known."
    )
    matters: Annotated[Matters | None, BeforeValidator(_matters, json_schema_input_type=float | str)] = Field(
        None, description="The smallest difference that matters: a number in its unit, or a share such as `2%`."
    )
    unit: str = Field("", max_length=30, description="Unit of its values.")
    knows_nothing: float | None = Field(
        None, allow_inf_nan=False, description="What a model that knows nothing scores; such arms are not recommended."
    )

    output: str = Field(
        "",
        description="A regular expression with one group for the value: its last match in what worker 0 prints counts.",
        examples=["total images/sec: ([0-9.]+)"],
    )
    file: str = Field(
        "",
        description="JSON, lines of JSON or CSV that worker 0 writes; {attempt_id} and settings are filled in.",
    )
    key: str = Field(
        "", description="Where the value is in the file: a key (`eval.loss`), or a column; of several values the last."
    )
    times: float | None = Field(
        None, allow_inf_nan=False, description="What the value is multiplied by, such as 0.01 for %."
    )
    of: Literal["all", "worker"] | None = Field(
        None,
        description="Of a rate: whether it is that of all workers, or of each, which is multiplied by the workers.",
    )

    @property
    def is_taken(self) -> bool:
        """Whether the value is taken from what a script prints or writes."""
        return bool(self.output or self.file)

    @property
    def factor(self) -> float:
        """What the value is multiplied by."""
        return 1.0 if self.times is None else self.times

    def mistake(self, name: str) -> str:
        """Return why nothing can be taken so for the metric of a name, or an empty string."""
        if self.output and self.file:
            return "`output` and `file` exclude each other"
        if bool(self.file) != bool(self.key):
            return "`file` and `key` belong together: `{file: results.json, key: eval.loss}`"
        if self.of and not self.is_taken:
            return "`of` needs `output` or `file`"
        if self.of == "worker" and name in BUILT_IN and name != RATE.column:
            return f"`of: worker` is for rates, such as {RATE.column}: it multiplies them by the workers"
        try:
            groups = re.compile(self.output).groups
        except re.error as error:
            return f"{self.output!r} is no regular expression: {error}"
        if self.output and groups != 1:
            others = "others are (?:...), printed ones \\( and \\)"
            return f"{self.output!r} has {groups} groups in parentheses, and one is the value; {others}"
        if self.times is None and (unit := self.other_unit(name)):
            factor = " to the samples of one step" if name == RATE.column else ", such as 0.01 for % or 0.001 for ms"
            return f"the value is in {unit}: set `times`{factor}"
        return ""

    def other_unit(self, name: str) -> str:
        """Return which of the metric's other units the expression has after the group, or an empty string."""
        units = rf"\)(?:(?:[ ]|\\s)[*+?]?)?({self.metric(name).other_units})(?![^\W\d])"
        unit = re.match(units, around_group(self.output)[1])
        return unit[1] if unit else ""

    def metric(self, name: str) -> Metric:
        """Return the metric that is declared, or the known one of this name."""
        if name in BUILT_IN:
            return BUILT_IN[name]
        matters = self.matters or Matters(value=0.02, is_share=True)
        return Metric(
            column=name,
            title=name.replace("_", " "),
            is_higher_better=self.better != "lower",
            margin=matters.value,
            is_share=matters.is_share,
            unit=self.unit,
            is_score=True,
            knows_nothing=self.knows_nothing,
        )


# A metric as a scenario says it; a text is a regular expression.
_SHORT = BeforeValidator(
    lambda value: {"output": value} if isinstance(value, str) else value,
    json_schema_input_type=str | MetricDeclaration,
)
Declaration = Annotated[MetricDeclaration, _SHORT]


def declared(metrics: Mapping[str, MetricDeclaration]) -> dict[str, Metric]:
    """Return all metrics by column: the built-in ones, then those that a scenario declares."""
    return {**BUILT_IN, **{name: declaration.metric(name) for name, declaration in metrics.items()}}


def around_group(expression: str) -> tuple[str, str]:
    """Return the parts of a regular expression around what its one group matches, with its parentheses."""
    opened: list[re.Match[str]] = []
    for it in _PARENTHESIS.finditer(expression):
        if it[0] == ")" and opened:
            start = opened.pop()
            if start[0] != "(?":
                return expression[: start.end()], expression[it.start() :]
        elif it[0].startswith("("):
            opened.append(it)
    return expression, ""
