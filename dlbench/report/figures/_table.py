"""The figures of quantities, one declaration each; `_quantities` interprets them."""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from dlbench.analysis.formatting import counted, percent
from dlbench.report.chart import Axis
from dlbench.report.figures._critical_batch import PLACE, perfect_scaling_and_fits, rows_with_updates, update_notes
from dlbench.report.figures._quantities import QuantityFigure
from dlbench.report.figures._rows import SEEN, is_completed, learned, numbers, synthetic_note
from dlbench.report.figures._scaling import (
    EFFICIENCY,
    efficiency_notes,
    efficiency_series,
    ideals,
    rows_with_efficiency,
    rows_with_rate,
    whole,
)
from dlbench.report.figures._shown import RATE, RATE_AXIS, rate_note
from dlbench.report.figures._target import target_notes, with_ends

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

GIB = 2.0**30
# Below this share of the processors' time neither the hypervisor nor dlbench itself explains a difference.
NEAR_ZERO = 0.01
SCALES = {
    "none": "was the same at every batch size",
    "linear": "grew with the global batch",
    "sqrt": "grew with the square root of the global batch",
}


def _learned(data: "ReportData") -> "pd.DataFrame":
    return learned(data.runs)


def _in_gib(data: "ReportData") -> "pd.DataFrame":
    return data.runs.assign(
        device_memory_gib=numbers(data.runs, "device_memory_peak_bytes") / GIB,
        host_memory_gib=numbers(data.runs, "host_memory_peak_bytes") / GIB,
    )


def _time_notes(_: "ReportData", __: "pd.DataFrame") -> Iterator[str]:
    yield "Training time is end to end: the first step is in it, evaluations are not."


def _rate_notes(_: "ReportData", runs: "pd.DataFrame") -> Iterator[str]:
    yield "Steady throughput: samples of all workers per second of the timed window."
    yield from rate_note(runs)


def _score_notes(data: "ReportData", runs: "pd.DataFrame") -> Iterator[str]:
    """Yield what else changes with the batch size or the workers and may explain a difference."""
    yield "Training loss and accuracy are means over the last epoch, while the weights still change."
    epochs, bases, scales, base_batches = (
        runs[column].dropna().unique().tolist()
        for column in ("epochs", "learning_rate_base", "learning_rate_scale", "learning_rate_base_batch")
    )
    batches_differ = runs["batch_size_global"].nunique() > 1
    if batches_differ and len(epochs) == 1:
        passes = counted(epochs[0], "epoch")
        yield f"Every run was to train {passes}, in which a larger global batch makes fewer updates."
    if batches_differ and len(bases) == len(scales) == 1 and scales[0] in SCALES:
        is_scaled = scales[0] != "none" and len(base_batches) == 1
        base = f"{bases[0]:g}" + (f" at a global batch of {base_batches[0]}" if is_scaled else "")
        yield f"The learning rate ({base}) {SCALES[scales[0]]}; it was not tuned for each."
    if (runs["batch_scope"] == "per-worker").fillna(False).any() and runs["workers"].nunique() > 1:
        yield (
            "Where the batch counts the samples of one worker, the global batch grows with the workers: a difference "
            "may come from that batch and its learning rate, not from the workers."
        )
    if (runs["divide"] == "epochs").fillna(False).any():
        yield "Where epochs are divided, each worker passes over all samples, fewer times the more workers there are."
    if runs["target_stop"].fillna(False).any():
        yield "Some runs ended as soon as they reached their target."
    yield from synthetic_note(data.runs)


def _device_notes(_: "ReportData", runs: "pd.DataFrame") -> Iterator[str]:
    """Define utilisation, and say where the hypervisor or dlbench's own threads took a share that is not near zero."""
    yield (
        "Utilisation: CPU time / (time x cores of the workers) inside the timed window, or on GPUs the share of time "
        "in which a kernel ran, as NVML says."
    )
    completed = runs[is_completed(runs)]
    cores = numbers(completed, "workers") * numbers(completed, "cores_per_worker")
    capacity = cores * numbers(completed, "timed_window_s")
    shares = {
        "the hypervisor took": numbers(completed, "steal_fraction"),
        "dlbench's own observing threads took": numbers(completed, "observer_cpu_s") / capacity.where(capacity > 0),
    }
    for who, share in shares.items():
        much = share[share > NEAR_ZERO]
        if len(much):
            known = counted(int(share.notna().sum()), "run")
            most = f"more than {NEAR_ZERO:.0%} of the processors' time, at most {percent(much.max())}"
            yield f"In {len(much)} of {known} {who} {most}."


def _aimed(data: "ReportData") -> "pd.DataFrame":
    return with_ends(data.runs)


TABLE: Mapping[str, QuantityFigure] = {
    "time_to_target": QuantityFigure(
        doc="Time and epochs to the target against batch size or workers; runs that never reached it are counted.",
        ORDER=5, title="Time and epochs to {target}",
        shown={
            "time_to_target_s": Axis("time to target (s)", low=0.0),
            "epochs_to_target": Axis("epochs to target", low=0.0),
        },
        needs="one target", rows=_aimed, notes=target_notes, over_all=True, has_target=True,
    ),
    "training_time": QuantityFigure(
        doc="Training time, which decides between arms, and the samples seen in it.",
        ORDER=10, title="Training time",
        shown={"train_time_s": Axis("training time (s)", low=0.0), SEEN: Axis("samples seen", low=0.0)},
        needs="a training time", rows=attrgetter("runs"), notes=_time_notes, over_all=True,
    ),
    "throughput": QuantityFigure(
        doc="Steady throughput against batch size, and against workers with the ideal line through the measured single "
        "worker.",
        ORDER=20, title="Steady throughput", shown={RATE: RATE_AXIS}, needs="steady samples/s", rows=rows_with_rate,
        notes=_rate_notes, reference=ideals, over_all=True, is_scaling=True,
    ),
    "efficiency": QuantityFigure(
        doc="Efficiency: the steady throughput of one of the workers over that of one worker alone.",
        ORDER=30, title="Efficiency",
        # An axis of 0 to 110 %; what lies higher makes it longer.
        shown={EFFICIENCY: Axis("steady samples/s of a worker / one worker alone", low=0.0, high=1.1, percent=True)},
        needs="an efficiency", rows=rows_with_efficiency, notes=efficiency_notes, reference=whole,
        values=efficiency_series, is_scaling=True, may_spread=False, least=1,
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
        needs="a loss or an accuracy, on data that can be learned", rows=_learned, notes=_score_notes, over_all=True,
        columns=2,
    ),
    "steps_to_target": QuantityFigure(
        doc="Updates to the target against the global batch: perfect scaling, the fit, and the critical batch size.",
        ORDER=80, title="Updates to {target} by global batch", shown={"updates": Axis("updates to target", "log10")},
        needs="a target at two or more global batches", rows=rows_with_updates, notes=update_notes,
        reference=perfect_scaling_and_fits, x=PLACE, has_target=True,
    ),
    "strategies": QuantityFigure(
        doc="Steady throughput of each way to train at each batch size or number of workers, as a map.",
        ORDER=90, title="Steady throughput of each way", shown={RATE: Axis(RATE_AXIS.label)}, needs="steady samples/s",
        rows=rows_with_rate, notes=_rate_notes, is_scaling=True, form="cells", columns=2,
    ),
    "devices": QuantityFigure(
        doc="How busy the devices were and how much memory they took, against batch size or workers.",
        ORDER=120, title="Utilisation and memory of devices",
        shown={
            "device_utilization": Axis("utilisation of the devices", low=0.0, percent=True),
            "device_memory_gib": Axis("peak memory of a device (GiB)", low=0.0),
            "host_memory_gib": Axis("peak host memory of a worker (GiB)", low=0.0),
        },
        needs="device_utilization or the peaks of device and host memory", rows=_in_gib, notes=_device_notes,
        may_spread=False,
    ),
}  # fmt: skip
