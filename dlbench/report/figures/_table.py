"""The figures of quantities, one declaration each; `_quantities` interprets them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from dlbench.analysis.arms import Arm
from dlbench.analysis.formatting import counted
from dlbench.analysis.groups import values_of
from dlbench.report.chart import Axis
from dlbench.report.figures._critical_batch import PLACE, perfect_scaling_and_fits, update_notes, with_updates
from dlbench.report.figures._quantities import QuantityFigure
from dlbench.report.figures._scaling import (
    efficiency_notes,
    ideals,
    whole,
    with_efficiencies,
    with_rates,
)
from dlbench.report.figures._shown import RATE, RATE_AXIS, SEEN, rate_note, synthetic_note
from dlbench.report.figures._target import EPOCHS, TIME, target_notes, with_ends
from dlbench.report.lines import EFFICIENCY

if TYPE_CHECKING:
    from dlbench.report.data import ReportData

GIB = 2.0**30
# Below this share of the processors' time neither the hypervisor nor dlbench itself explains a difference.
NEAR_ZERO = 0.01
SCALES = {
    "none": "was the same at every batch size",
    "linear": "grew with the global batch",
    "sqrt": "grew with the square root of the global batch",
}


def _learned(data: "ReportData") -> list[Arm]:
    return [arm for arm in data.arms if arm.scores_mean_something]


def _in_gib(data: "ReportData") -> list[Arm]:
    columns = {
        "device_memory_gib": lambda row: _ratio(row.get("device_memory_peak_bytes"), GIB),
        "host_memory_gib": lambda row: _ratio(row.get("host_memory_peak_bytes"), GIB),
    }
    return [arm.having(**columns) for arm in data.arms]


def _time_notes(_: "ReportData", __: Sequence[Arm]) -> Iterator[str]:
    yield "Training time is end to end: the first step is in it, evaluations are not."


def _rate_notes(_: "ReportData", arms: Sequence[Arm]) -> Iterator[str]:
    yield "Steady throughput: samples of all workers per second of the timed window."
    yield from rate_note(arms)


def _score_notes(data: "ReportData", arms: Sequence[Arm]) -> Iterator[str]:
    """Yield what else changes with the batch size or the workers and may explain a difference."""
    yield "Training loss and accuracy are means over the last epoch, while the weights still change."
    epochs, bases, scales, base_batches, batches = (
        values_of(arms, column)
        for column in (
            "epochs", "learning_rate_base", "learning_rate_scale", "learning_rate_base_batch", "batch_size_global",
        )
    )  # fmt: skip
    if len(batches) > 1 and len(epochs) == 1:
        passes = counted(epochs[0], "epoch")
        yield f"Every run was to train {passes}, in which a larger global batch makes fewer updates."
    if len(batches) > 1 and len(bases) == len(scales) == 1 and scales[0] in SCALES:
        is_scaled = scales[0] != "none" and len(base_batches) == 1
        base = f"{bases[0]:g}" + (f" at a global batch of {base_batches[0]}" if is_scaled else "")
        yield f"The learning rate ({base}) {SCALES[scales[0]]}; it was not tuned for each."
    if "per-worker" in values_of(arms, "batch_scope") and len(values_of(arms, "workers")) > 1:
        yield (
            "Where the batch counts the samples of one worker, the global batch grows with the workers: a difference "
            "may come from that batch and its learning rate, not from the workers."
        )
    if "epochs" in values_of(arms, "divide"):
        yield "Where epochs are divided, each worker passes over all samples, fewer times the more workers there are."
    if True in values_of(arms, "target_stop"):
        yield "Some runs ended as soon as they reached their target."
    yield from synthetic_note(data.arms)


def _device_notes(_: "ReportData", arms: Sequence[Arm]) -> Iterator[str]:
    """Define utilisation, and say where the hypervisor or dlbench's own threads took a share that is not near zero."""
    yield (
        "Utilisation: CPU time / (time x cores of the workers) inside the timed window, or on GPUs the share of time "
        "in which a kernel ran, as NVML says."
    )
    rows = [row for arm in arms for row in arm.completed]
    shares = {
        "the hypervisor took": [row.get("steal_fraction") for row in rows],
        "dlbench's own observing threads took": [
            _ratio(
                row.get("observer_cpu_s"), row.get("workers"), row.get("cores_per_worker"), row.get("timed_window_s")
            )
            for row in rows
        ],
    }
    for what, by_run in shares.items():
        known = [share for share in by_run if share is not None]
        much = [share for share in known if share > NEAR_ZERO]
        if much:
            most = f"more than {NEAR_ZERO:.0%} of the processors' time, at most {max(much):.1%}"
            yield f"In {len(much)} of {counted(len(known), 'run')} {what} {most}."


def _ratio(value: float | None, *divisors: float | None) -> float | None:
    """Return a value / all of its divisors; None where one is unknown or zero."""
    return value / math.prod(map(float, divisors)) if value is not None and all(divisors) else None


def _aimed(data: "ReportData") -> list[Arm]:
    return with_ends(data.arms)


TABLE: Mapping[str, QuantityFigure] = {
    "time_to_target": QuantityFigure(
        doc="Time and epochs to the target against batch size or workers; runs that never reached it are counted.",
        ORDER=5, title="Time and epochs to {target}",
        shown={
            TIME: Axis("time to target (s)", low=0.0),
            EPOCHS: Axis("epochs to target", low=0.0),
        },
        needs="one target", arms=_aimed, notes=target_notes, over_all=True, has_target=True,
    ),
    "training_time": QuantityFigure(
        doc="Training time, which decides between arms, and the samples seen in it.",
        ORDER=10, title="Training time",
        shown={"train_time_s": Axis("training time (s)", low=0.0), SEEN: Axis("samples seen", low=0.0)},
        needs="a training time", arms=attrgetter("arms"), notes=_time_notes, over_all=True,
    ),
    "throughput": QuantityFigure(
        doc="Steady throughput against batch size, and against workers with the ideal line through the measured single "
        "worker.",
        ORDER=20, title="Steady throughput", shown={RATE: RATE_AXIS}, needs="steady samples/s", arms=with_rates,
        notes=_rate_notes, reference=ideals, over_all=True, is_scaling=True,
    ),
    "efficiency": QuantityFigure(
        doc="Efficiency: the steady throughput of one of the workers over that of one worker alone.",
        ORDER=30, title="Efficiency",
        # An axis of 0 to 110 %; what lies higher makes it longer.
        shown={EFFICIENCY: Axis("steady samples/s of a worker / one worker alone", low=0.0, high=1.1, percent=True)},
        needs="an efficiency", arms=with_efficiencies, notes=efficiency_notes, reference=whole,
        is_scaling=True, may_spread=False, least=1,
    ),
    "accuracy": QuantityFigure(
        doc="Accuracy and loss at the end of training against batch size or workers.",
        ORDER=40, title="Accuracy and loss at the end of training",
        # Validation first, two in a row: that is what the question is about.
        shown={
            "validation_accuracy": Axis("validation accuracy", most=1.0),
            "validation_loss": Axis("validation loss (nats)"),
            "train_accuracy": Axis("training accuracy", most=1.0),
            "train_loss": Axis("training loss (nats)"),
        },
        needs="a loss or an accuracy, on data that can be learned", arms=_learned, notes=_score_notes, over_all=True,
        columns=2,
    ),
    "steps_to_target": QuantityFigure(
        doc="Updates to the target against the global batch: perfect scaling, the fit, and the critical batch size.",
        ORDER=80, title="Updates to {target} by global batch", shown={"updates": Axis("updates to target", "log10")},
        needs="a target at two or more global batches", arms=with_updates, notes=update_notes,
        reference=perfect_scaling_and_fits, x=PLACE, has_target=True,
    ),
    "strategies": QuantityFigure(
        doc="Steady throughput of each way to train at each batch size or number of workers, as a map.",
        ORDER=90, title="Steady throughput of each way", shown={RATE: Axis(RATE_AXIS.label)}, needs="steady samples/s",
        arms=with_rates, notes=_rate_notes, is_scaling=True, form="cells", columns=2,
    ),
    "devices": QuantityFigure(
        doc="How busy the devices were and how much memory they took, against batch size or workers.",
        ORDER=120, title="Utilisation and memory of devices",
        shown={
            "device_utilization": Axis("utilisation of the devices", low=0.0, percent=True),
            "device_memory_gib": Axis("peak memory of a device (GiB)", low=0.0),
            "host_memory_gib": Axis("peak host memory of a worker (GiB)", low=0.0),
        },
        needs="device_utilization or the peaks of device and host memory", arms=_in_gib, notes=_device_notes,
        may_spread=False,
    ),
}  # fmt: skip
