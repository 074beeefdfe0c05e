"""What a worker hands in at its end: sums, counts and times as it observed them; rates are made from them later."""

from pydantic import Field

from dlbench.scenario.frozen import Frozen

# A rate comes from at least so much of the timed window; below it, it stays empty.
MIN_TIMED_STEPS = 50
MIN_TIMED_S = 5.0
# How workers' weights agree, from best to worst.
AGREEMENTS = ("exact", "close", "no")
# The highest validation accuracy.
BEST = "best_validation_accuracy"
# Begins what is said of a run with a process that stood still.
STOOD_STILL = "a worker stood still"


def gradient_moments(num_estimates: int, local: float, mean: float, spread: float) -> tuple[float, float]:
    """Return (|G|^2, tr(S)) of gradients, whose quotient is the noise scale (McCandlish et al. 2018, appendix A.1).

    Args:
        num_estimates: Estimates of the gradient in a step, of equally many samples each.
        local: Mean squared norm of one estimate.
        mean: Mean squared norm of their mean.
        spread: Mean of (local - mean) x the samples of all estimates together.
    """
    others = num_estimates - 1
    return (num_estimates * mean - local) / others, spread / others


class BatchChange(Frozen):
    """A change of a run's batch: a row of `batch_changes.csv`, without what names the run."""

    step: int
    epoch: int
    train_time_s: float
    batch_size_before: int
    batch_size: int
    parts: int
    learning_rate: float
    learning_rate_gain: float
    noise_scale: float | None = None
    step_time_s: float | None = None
    predicted_step_time_s: float | None = None
    predicted_gain: float | None = None


class Segment(Frozen):
    """One piece of the steps after the first, from barrier to barrier, as one worker saw it.

    Workers that do not wait for each other have common pieces, whose samples are all on worker 0.

    Attributes:
        opened_at_s: End of the barrier at its beginning, in seconds since the worker's first step.
        closing_at_s: Beginning of the barrier at its end; None where workers do not wait.
        closed_at_s: End of that barrier.
        paused_s: Time inside it that is left out: a script has evaluated between two steps.
        waited_s: Time inside its steps that is left out: only other workers have evaluated, and this one waited.
        cpu_time_s: CPU time of this process inside it; None where it is not counted.
        observer_cpu_s: Of it, CPU time of dlbench's own threads.
        extended: Whether it lies after training.
        simulated: Whether its times are a simulator's: exact, with the warm-up left out already.
        common: Whether it is from an update to another, the same moments for all workers.
    """

    opened_at_s: float
    closing_at_s: float | None = None
    closed_at_s: float
    steps: int
    samples: int
    paused_s: float = 0.0
    waited_s: float = 0.0
    cpu_time_s: float | None = None
    observer_cpu_s: float | None = None
    extended: bool = False
    simulated: bool = False
    common: bool = False

    @property
    def seconds(self) -> float:
        """How long it lasted, without what is left out."""
        return self.closed_at_s - self.opened_at_s - self.paused_s - self.waited_s


class NodeAccount(Frozen):
    """What one node did; see `nodes.csv`. None where a node that is no worker has nothing of the kind."""

    role: str
    host: int
    steps: int | None = None
    compute_time_s: float | None = None
    wait_time_s: float | None = None
    ended_at_s: float | None = None
    messages_sent: int
    messages_received: int
    bytes_sent: int
    bytes_received: int
    # To whom, messages and bytes; see `links.csv`.
    links: tuple[tuple[int, int, int], ...] = ()


class Result(Frozen):
    """One worker's own account of its run. None where the worker cannot know.

    Attributes:
        agreement: `exact`, `close` or `no`, the worst of all comparisons; None for a user's script without weights.
        max_difference: Largest difference between any two workers' weights at the end.
        weights_hash: Hash of this worker's trainable weights at the end.
        bytes_sent: Bytes the strategy sent in training steps (without extended ones), this worker.
        checkpoint_time_s: Making checkpoints in this attempt; None where the run makes none.
        segments: The pieces that rates may be made from, those of the warm-up among them.
        messages: Messages sent, where all are counted.
        updates: Updates of parameters, and `gradients_dropped`: gradients that entered none.
        scores: The last value of each score, by column; see `last_scores` of `dlbench.worker.train.evaluation`.
        gradient_norms: Steps at which norms were taken, and sums of the squared norms of this worker's gradients and of
            the means over all workers; None where there are no two workers, or gradients are reduced elsewhere.
        staleness: Staleness and the number of gradients that had it, rising.
        nodes: What this process did as a node; of a simulation, all of them in order.
        stood_still_s: How long the process stood still after its start-up, stopped or suspended: its times hold that.
        has_hook: Whether the process counted its steps; else numbers of steps, epochs and samples mean nothing.
    """

    steps: int
    extended_steps: int = 0
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
    scores: dict[str, float | None] = Field(default_factory=dict)
    time_to_target_s: float | None = None
    epochs_to_target: int | None = None
    learning_rate: float | None = None
    agreement: str | None = None
    max_difference: float | None = None
    weights_hash: str | None = None
    bytes_sent: int | None = None
    messages: int | None = None
    updates: int | None = None
    gradients_dropped: int | None = None
    gradient_norms: tuple[int, float, float] | None = None
    staleness: tuple[tuple[int, int], ...] = ()
    nodes: tuple[NodeAccount, ...] = ()
    stood_still_s: float = 0.0
    has_hook: bool = True
    host_memory_peak_bytes: int | None = None
    device_memory_peak_bytes: int | None = None
