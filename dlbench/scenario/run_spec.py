"""One point of the matrix and one repeat, fully resolved: launch, worker and records share it."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, Self

from pydantic import Field

from dlbench.parts import size_of_part
from dlbench.scenario.frozen import Frozen
from dlbench.scenario.metrics import SCORE_COLUMNS, MetricDeclaration, declared
from dlbench.scenario.settings import BatchScope, Divide, Finite, LearningRateScale, Seconds, Settings


def arm_name(run_id: str) -> str:
    """Return what the repeats of an arm share of their run_id."""
    return re.sub(r"-r\d+\Z", "", run_id)


class Phase(StrEnum):
    """What a run is made for: a result, the choice of what an arm is measured at, or the winner on fresh seeds."""

    MEASURE = "measure"
    TUNE = "tune"
    CONFIRM = "confirm"


# Each more than all repeats of a study above the one before.
FIRST_SEEDS = {Phase.TUNE: 1_000_000, Phase.CONFIRM: 2_000_000}


class Tuned(Frozen):
    """What a search tries for an arm, or has chosen for it.

    Attributes:
        arm: Label of the arm.
        values: The value of each setting or option that is searched for, by key.
        epochs: Of the measurement: a search may train less.
        extend_window: Whether the measurement steps on until a rate counts: a search does not.
        at_edge: What is said of each chosen value that is the least or greatest that was tried.
        scattered: Whether runs scattered by more than learning rates differ; None where too few were compared to see.
    """

    arm: str
    values: dict[str, Any]
    epochs: int
    extend_window: bool = False
    at_edge: str = ""
    scattered: bool | None = None


class Target(Frozen):
    """A value to reach, such as validation accuracy 0.9; `stop` ends the run at the evaluation that reaches it."""

    metric: str = Field(
        "validation_accuracy",
        description="What is measured at each evaluation: a score, or what `metrics` declares.",
        examples=list(SCORE_COLUMNS),
    )
    value: Finite = Field(description="Reached at or above it where more is better (accuracy), else at or below it.")
    stop: bool = Field(False, description="End the run at the evaluation that reaches the value.")


class Limits(Frozen):
    """Time limits of a run, in seconds, how often rows leave a worker, and whether checkpoints stay."""

    timeout_s: Seconds | None = Field(None, description="Ends a run that takes longer, start-up included.")
    startup_timeout_s: Seconds = Field(300.0, description="From launch until every worker trains.")
    stall_timeout_s: Seconds = Field(300.0, description="Ends a run in which no worker made a step for so long.")
    orphan_timeout_s: Seconds = Field(30.0, description="A worker without a connection for so long ends itself.")
    flush_interval_s: Seconds = Field(0.5, description="At most this much of rows is lost with a dead host.")
    grace_s: Seconds = Field(5.0, description="Between asking processes to end and killing them.")
    keep_checkpoints: bool = Field(
        False, description="Keep the newest checkpoints of a run that has ended; else they are deleted."
    )


class RunSpec(Frozen):
    """One run, resolved: nothing in it is `auto`. Its hash without `repeat` and `seed` names the arm.

    Attributes:
        scenario: The scenario's name.
        label: Distinguishes this arm from the study's others, for humans, such as `batch_size=8 workers=2`.
        repeat: 0, 1, ...; the run's seed is `settings.seed + repeat`.
        settings: Every setting, with `cores_per_worker`, `launcher`, `communicator` and `algorithm` resolved.
        options: Options of the plugins with their defaults filled in, by dotted key: `model.hidden`.
        axes: The settings this arm has from an axis, by name; empty for a scenario without axes.
        metrics: What a script of the user's own reports besides the scores that every dlbench knows.
        baseline: Whether dlbench added this run as a base line.
        phase: What it is made for.
        repeats_rule: How it was decided how often the arm is run; empty for a fixed number.
        tuned: What was searched for, and for which arm; None where nothing is.
        tf_config: Whether a script's processes find each other by TensorFlow's `TF_CONFIG`.
        unknown: Settings that a script of the user's own does not read and the scenario does not write: what it trains
            with instead is its own.
    """

    scenario: str
    label: str
    repeat: int = Field(ge=0)
    settings: Settings
    options: dict[str, Any] = Field(default_factory=dict)
    axes: dict[str, Any] = Field(default_factory=dict)
    target: Target | None = None
    metrics: dict[str, MetricDeclaration] = Field(default_factory=dict)
    limits: Limits = Field(default_factory=Limits)
    baseline: bool = False
    phase: Phase = Phase.MEASURE
    repeats_rule: str = ""
    tuned: Tuned | None = None
    tf_config: bool = False
    unknown: tuple[str, ...] = ()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return the run with other values; what was found out of this one is not kept, but for another repeat."""
        copy = super().model_copy(update=update, deep=deep)
        if update is None or set(update) != {"repeat"}:
            copy.__dict__.pop("fingerprint", None)
        return copy

    def with_settings(self, **values: Any) -> Self:
        """Return the run with other values of settings."""
        return self.model_copy(update={"settings": self.settings.model_copy(update=values)})

    @property
    def run_id(self) -> str:
        """Readable slug + short hash of the resolved specification + repeat; safe as a folder name. See `arm_name`."""
        settings = self.settings
        batch = "" if "batch_size" in self.unknown else f"b{settings.batch_size}"
        words = filter(None, (settings.model, settings.strategy, f"w{settings.workers}", batch))
        slug = "-".join("".join(c if c.isalnum() and c.isascii() else "-" for c in word) for word in words)
        return f"{slug[:60].strip('-').lower()}-{self.fingerprint}-r{self.repeat}"

    @cached_property
    def fingerprint(self) -> str:
        """Short hash of everything that changes what is measured; the same for all repeats of an arm.

        Settings at their defaults are left out, so that a run keeps its name when a setting is added.
        """
        content = self.model_dump(mode="json", include={"options", "target"})
        content["settings"] = self.settings.model_dump(mode="json", exclude_defaults=True)
        if self.phase is not Phase.MEASURE:
            content["phase"] = [self.phase, self.tuned.arm if self.tuned else ""]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]

    def reaches_target(self, scores: Mapping[str, float | None]) -> bool:
        """Whether scores, by column, are at the target or on the better side of it; without a target never."""
        value = scores.get(self.target.metric) if self.target else None
        if self.target is None or value is None:
            return False
        return declared(self.metrics)[self.target.metric].is_reached(value, self.target.value)

    @property
    def arm(self) -> str:
        """Label of the arm that the run is of, or that it searches for."""
        return self.tuned.arm if self.tuned else self.label

    @property
    def as_measured(self) -> "RunSpec":
        """A candidate of a search as its arm would be measured at its values; any other run as it is."""
        if self.phase is not Phase.TUNE or self.tuned is None:
            return self
        measured = self.with_settings(epochs=self.tuned.epochs, extend_window=self.tuned.extend_window)
        return measured.model_copy(update={"phase": Phase.MEASURE, "label": self.arm})

    @property
    def seed(self) -> int:
        """Seed of this repeat: `settings.seed + repeat`, of what is no result so much above that no result has it."""
        return self.settings.seed + self.repeat + FIRST_SEEDS.get(self.phase, 0)

    @property
    def global_batch_size(self) -> int:
        """Samples of all workers in one step."""
        settings = self.settings
        return settings.batch_size * (settings.workers if settings.batch_scope is BatchScope.PER_WORKER else 1)

    def local_batch_size(self, worker: int) -> int:
        """Samples of one worker in one step; where the global batch does not divide, the first take one more."""
        return size_of_part(self.global_batch_size, self.settings.workers, worker)

    @property
    def epochs_per_worker(self) -> int:
        """Epochs each worker trains: all of them, or with `divide: epochs` ceil(epochs / workers)."""
        settings = self.settings
        return math.ceil(settings.epochs / settings.workers) if settings.divide is Divide.EPOCHS else settings.epochs

    @property
    def full_learning_rate(self) -> float:
        """Learning rate after warm-up: base x (global / base batch), its square root, or unscaled."""
        return self.learning_rate_of(self.global_batch_size)

    def learning_rate_of(self, batch_size: int) -> float:
        """Return the same where an update is made of `batch_size` samples."""
        settings = self.settings
        if settings.learning_rate_scale is LearningRateScale.NONE:
            return settings.learning_rate
        ratio = batch_size / (settings.learning_rate_base_batch or batch_size)
        power = 0.5 if settings.learning_rate_scale is LearningRateScale.SQRT else 1.0
        return settings.learning_rate * float(ratio**power)

    def options_of(self, prefix: str) -> dict[str, Any]:
        """Return the options of one plugin without their prefix: `options_of("model")` -> `{"hidden": [128]}`."""
        start = prefix + "."
        return {key.removeprefix(start): value for key, value in self.options.items() if key.startswith(start)}
