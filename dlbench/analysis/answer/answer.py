"""The answer as a typed object: what to use, what is as good, what is open, what to doubt, what to run next."""

from typing import Any, Literal

from pydantic import Field

from dlbench.analysis.judge import Verdict
from dlbench.scenario.frozen import Frozen

Word = Literal["keeps", "loses", "open", "out"]


class Spread(Frozen):
    """A median over the repeats of an arm with its interval; null where one repeat says nothing of spread."""

    median: float
    low: float | None
    high: float | None
    n: int


class Difference(Frozen):
    """What one arm differs in from another; above 0 is better, for time as well."""

    against: str = Field(description="Title of the other arm.")
    is_share: bool = Field(description="Whether differences are shares of the other arm's value, not in the unit.")
    gain: float = Field(description="By how much the arm is better.")
    worst: float | None = Field(
        description="The same at worst, one-sided 95% over all arms; of an arm that keeps, against any other one."
    )
    best: float | None = Field(description="The same at best.")
    detectable: float | None = Field(description="The smallest difference that these repeats could have shown.")
    further: int | None = Field(
        description="Further repeats that would probably decide; null above 100, of fewer than five, or if decided."
    )


class Judged(Frozen):
    """One quantity of an arm, and what is shown of it against the best arm."""

    metric: str
    spread: Spread
    verdict: Verdict
    difference: Difference | None = Field(description="Null where no other arm comes near.")


class ArmAnswer(Frozen):
    """What is said of one arm."""

    study: str
    name: str = Field(description="Its run_id without the repeat.")
    title: str
    settings: dict[str, Any] = Field(description="The settings in which arms differ.")
    workers: int
    word: Word = Field(description="keeps, loses or open: against the best. out: not compared, for `reason`.")
    reason: str = Field("", description="Why it is out.")
    completed: int
    runs: int
    value: Judged | None = Field(None, description="What the goal wants least of, or most.")
    quality: Judged | None = Field(None, description="The score that the goal keeps.")
    time_s: float | None = Field(None, description="Median training time, or time to the target.")
    slowest_s: float | None = Field(None, description="The longest of these times.")
    worker_hours: float | None = Field(
        None, description="Median training time x workers and servers with cores of their own."
    )
    cost: float | None = Field(None, description="Their price, where prices are known.")
    dearest: float | None = Field(None, description="That of the longest time.")
    energy_j: float | None = None
    lost_time: dict[str, float] | None = Field(
        None,
        description="Share of its worker-time that each part takes beyond what one worker alone spends on it; they sum "
        "to 1 - efficiency, of whole runs.",
    )


class Doubt(Frozen):
    """What speaks against trusting the answer."""

    text: str
    weight: int = Field(description="How much it could change the answer: larger is more.")


class BatchSize(Frozen):
    """The global batch that would come to the target soonest, of one way to train, by fits of epochs and step times."""

    arms: str = Field(description="The way, such as `mpi, 2 workers`.")
    batch: float | None = Field(None, description="In samples, at most a doubling beyond those that were run.")
    low: float | None = Field(None, description="Lower end of its interval.")
    high: float | None = None
    gain: float = Field(0.0, description="Share by which it would be sooner than the best that was run.")
    nearest: float | None = Field(None, description="The best that was run, by the fits.")
    reason: str = Field("", description="Why nothing can be said.")
    noise: tuple[float, float] | None = Field(
        None, description="Least and greatest gradient noise scale of its runs, in samples: a hint, never what decides."
    )


class Next(Frozen):
    """The command that would tell most."""

    command: str
    why: str
    seconds: float | None = Field(description="About how long it takes, from the runs that were made.")


class Answer(Frozen):
    """The answer for arms that can be compared: one task, one condition, all emulated or all real."""

    task: str
    given: dict[str, Any] = Field(description="The condition that it is for.")
    condition: str = Field(description="The same in words; empty where all arms have one condition.")
    emulated: str = Field(description="Why the hardware is not representative; empty where it is.")
    goal: str = Field(description="What decides, in words.")
    currency: str = Field(description="What costs are counted in; empty where that is not known.")
    use: ArmAnswer | None = Field(description="The arm to use, or the only one; null where none is shown to be right.")
    either: tuple[str, ...] = Field(description="Titles of the arms of which one is right, where `use` is null.")
    open: tuple[str, ...] = Field(description="Titles of arms that may be the better choice, the likeliest first.")
    cheaper: str | None = Field(description="Title of the arm that is as good and costs least.")
    knee: str | None = Field(description="Title of the arm where more workers begin to buy little time.")
    faster: str | None = Field(
        description="Title of the fastest arm that loses quality; where cost decides, of the cheapest."
    )
    arms: tuple[ArmAnswer, ...]
    batch_sizes: tuple[BatchSize, ...] = Field((), description="Of three or more that had a target.")
    missing: int = Field(0, description="Runs still to be made, where an arm has none: nothing is recommended.")
    confirmed: int = Field(0, description="Fresh seeds on which the arm to use was shown to keep once more.")
    doubts: tuple[Doubt, ...] = Field(description="Those that could change the answer most come first.")
    next: Next | None = None


class Answers(Frozen):
    """What `dlbench recommend --json` prints."""

    schema_version: int = 1
    answers: tuple[Answer, ...]
