"""What a worker hands in at its end: sums, counts and times as it observed them; rates are made from them later."""

from pydantic import BaseModel, ConfigDict

# A rate comes from at least so much of the timed window; below it, it stays empty.
MIN_TIMED_STEPS = 50
MIN_TIMED_S = 5.0
# How workers' weights agree, from best to worst.
AGREEMENTS = ("exact", "close", "no")


class Segment(BaseModel):
    """One piece of the timed window, from barrier to barrier, as one worker saw it (seconds since its first step)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    opened_at_s: float
    closed_at_s: float
    steps: int
    samples: int
    extended: bool = False


class Result(BaseModel):
    """One worker's own account of its run. None where the worker cannot know.

    Attributes:
        agreement: `exact`, `close` or `no`, the worst of all comparisons; None for a user's script without weights.
        max_difference: Largest difference between any two workers' weights at the end.
        weights_hash: Hash of this worker's trainable weights at the end.
        bytes_sent: Bytes the strategy sent in training steps (without extended ones), this worker.
        checkpoint_time_s: Making checkpoints in this attempt; None where the run makes none.
        segments: The timed window.
        cpu_time_s: CPU time of this process inside the window.
        observer_cpu_s: Of it, CPU time of dlbench's own threads.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: int
    extended_steps: int = 0
    warmup_steps: int = 0
    warmup_detected: bool | None = None
    epochs_completed: int = 0
    samples_seen: int = 0
    samples_dropped: int | None = None
    train_samples: int | None = None
    validation_samples: int | None = None
    num_parameters: int | None = None
    flops_per_sample: float | None = None
    ready_at: float | None = None
    first_step_s: float | None = None
    train_time_s: float | None = None
    evaluation_time_s: float = 0.0
    checkpoint_time_s: float | None = None
    segments: tuple[Segment, ...] = ()
    cpu_time_s: float | None = None
    observer_cpu_s: float | None = None
    train_loss: float | None = None
    train_accuracy: float | None = None
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    best_validation_accuracy: float | None = None
    time_to_target_s: float | None = None
    epochs_to_target: int | None = None
    learning_rate: float | None = None
    agreement: str | None = None
    max_difference: float | None = None
    weights_hash: str | None = None
    bytes_sent: int | None = None
    host_memory_peak_bytes: int | None = None
    device_memory_peak_bytes: int | None = None
