"""What the runs of several batch sizes say of those between them, and of one doubling beyond."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from dlbench.analysis.answer.answer import BatchSize
from dlbench.analysis.arms import Arm, Row, has_fixed_batch, quotient
from dlbench.analysis.formatting import number, percent
from dlbench.analysis.groups import described, groups
from dlbench.analysis.metrics.critical_batch import LEAST_SIZES, NotIdentifiableError, best_batch

BATCH = "batch_size_global"
# A target that is reached sooner compares warm-ups, and whole epochs tell little of it.
LEAST_EVALUATIONS = 5


def batch_sizes(arms: Sequence[Arm], keys: Sequence[str]) -> Iterator[BatchSize]:
    """Yield for each way to train at three or more batch sizes which of them would reach the target soonest.

    Args:
        arms: Arms with a target that can be compared.
        keys: The settings in which they differ.
    """
    others = [key for key in keys if not key.startswith("batch_size")]
    fixed = (arm for arm in arms if arm.completed and has_fixed_batch(arm.first))
    for values, alike in groups(fixed, others):
        if len({arm.get(BATCH) for arm in alike}) < LEAST_SIZES:
            continue
        way = described(values) or "all arms"
        runs = [_run(row) for arm in alike for row in arm.completed]
        reached = [run for run in runs if run is not None]
        scales = [scale for arm in alike for scale in arm.values("gradient_noise_scale")]
        noise = (min(scales), max(scales)) if scales else None
        try:
            if missed := len(runs) - len(reached):
                raise NotIdentifiableError(
                    f"{missed} of {len(runs)} runs did not reach the target, or do not say their steps"
                )
            refuse_coarse(row for arm in alike for row in arm.completed)
            best = best_batch(*map(list, zip(*reached, strict=True)))
        except NotIdentifiableError as error:
            yield BatchSize(arms=way, reason=f"not identifiable: {error}", noise=noise)
        else:
            yield BatchSize(arms=way, noise=noise, **asdict(best))


def refuse_coarse(rows: Iterable[Row]) -> None:
    """Refuse to tell how epochs depend on the batch from runs that reach the target in a few evaluations.

    Raises:
        NotIdentifiableError: One of them did, with its batch.
    """
    num_evaluations, batch = min(((evaluations(row), row.get(BATCH) or 0) for row in rows), default=(math.inf, 0))
    if num_evaluations < LEAST_EVALUATIONS:
        raise NotIdentifiableError(
            f"at batch {number(batch)} the target is reached by evaluation {num_evaluations:g}: "
            f"it takes {LEAST_EVALUATIONS} to tell how epochs depend on the batch"
        )


def evaluations(row: Row) -> float:
    """Return how many evaluations a run took to its target; infinite where that is not known."""
    return (row.get("epochs_to_target") or math.inf) / (row.get("evaluate_every") or 1)


def _run(row: Row) -> tuple[float, float, float] | None:
    """Return global batch, steps to the target and mean time of a step of a run; None where one is not known."""
    each = quotient(row.get("steps"), row.get("epochs_completed"))
    step_s = quotient(row.get("train_time_s"), row.get("steps"))
    epochs, batch = row.get("epochs_to_target"), row.get(BATCH)
    return (float(batch), float(epochs) * each, step_s) if batch and epochs and each and step_s else None


def batch_text(size: BatchSize) -> str:
    """Return what is said of the batch sizes of one way to train."""
    ends = "" if size.noise is None else f"{number(size.noise[0])} to {number(size.noise[1])} samples"
    hint = f"; a hint: gradient noise scale {ends}, fair to two to four times a batch" if ends else ""
    if size.batch is None or size.nearest is None:
        return f"{size.arms}: {size.reason}{hint}"
    held = f" [{number(size.low)}, {number(size.high)}]" if size.low is not None and size.high is not None else ""
    sooner = f"{percent(size.gain)} sooner than" if size.gain else "as soon as"
    text = f"{size.arms}: a global batch of {round(size.batch):,}{held} would reach the target {sooner}"
    return f"{text} {number(size.nearest)}, by fits of E = E_min (1 + B / B_c) and of step times{hint}"
