"""The largest batch of a model on a device: what a trial answers, the sizes that were tried, and what was found.

A trial is one process, `python -m dlbench.worker.probe <bytes>`, with an assignment in its environment as a worker
has. The last line that it prints is its answer; one that ends without an answer could not even say that it failed.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

PROGRAM = ("-m", "dlbench.worker.probe")
ANSWER = "dlbench-probe-answer: "


class Answer(BaseModel):
    """What a trial found.

    Attributes:
        fits: Whether the steps could be made in the memory given; else it ran out of it.
        reason: Why not: the first line of the error.
        train_samples: Training samples that the run has.
        device_name: Processor or accelerator.
        on_accelerator: Whether the device's own memory was the limit, not the host's.
        resident_peak_bytes: Largest resident memory of the process on its host.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fits: bool
    reason: str = ""
    train_samples: int
    device_name: str
    on_accelerator: bool
    resident_peak_bytes: int


class Trial(BaseModel):
    """One size that was tried in a process of its own.

    Attributes:
        batch_size: Samples of one worker.
        fits: Whether the steps could be made.
        reason: Why not; empty where they could.
        is_slow: Whether it was ended because it took longer than `startup_timeout_s`.
        resident_peak_bytes: Largest resident memory of the process; None where it ended without an answer.
        wall_time_s: From start to end of the process.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch_size: int
    fits: bool
    reason: str = ""
    is_slow: bool = False
    resident_peak_bytes: int | None = None
    wall_time_s: float


class Largest(BaseModel):
    """The largest batch, and how it was found.

    Attributes:
        batch_size: Samples of one worker.
        limited_by: `memory`; `time`: a larger one took longer than `startup_timeout_s`; `samples`: a larger one would
            be more than the training samples of one worker.
        memory_bytes: What one worker may take on its host; None where an accelerator's memory was the limit.
        margin: Share kept free: of that memory in the search, on an accelerator of the batch that was found.
        device_name: Processor or accelerator.
        recipe: All that it depends on beside the machine, as JSON.
        data_checksum: Of the prepared data set.
        most_samples: Training samples of one worker: no larger batch was tried.
        trials: Every size that was tried, in order.
        found_at: UTC, ISO 8601.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch_size: int
    limited_by: Literal["memory", "time", "samples"]
    memory_bytes: int | None
    margin: float
    device_name: str
    recipe: str
    data_checksum: str
    most_samples: int
    trials: tuple[Trial, ...]
    found_at: str
