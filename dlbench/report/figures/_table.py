"""The figures of quantities, one declaration each; `_quantities` interprets them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from dlbench.analysis.arms import EFFICIENCY, Arm, quotient
from dlbench.analysis.formatting import counted, percent
from dlbench.analysis.groups import values_of
from dlbench.report.chart import Axis
from dlbench.report.figures._places import by_condition, placed
from dlbench.report.figures._quantities import QuantityFigure
from dlbench.report.figures._reference_lines import (
    by_global_batch,
    efficiency_notes,
    update_notes,
    with_efficiencies,
    with_fits,
    with_ideals,
    with_rates,
    with_updates,
    with_whole,
)
from dlbench.report.figures._shown import RATE, RATE_AXIS, SCORES, SEEN, rate_note, synthetic_note
from dlbench.report.figures._target import (
    EPOCHS,
    PER_SAMPLE,
    TIME,
    message_notes,
    target_notes,
    with_ends,
    with_messages,
)
from dlbench.scenario.metrics import MFU

GIB = 2.0**30
# Below this share of the processors' time neither the hypervisor nor dlbench itself explains a difference.
NEAR_ZERO = 0.01
# The factors of the CPU time that the workers of a run had in its timed window.
CAPACITY = ("workers", "cores_per_worker", "timed_window_s")


def _with_shares(arms: Sequence[Arm]) -> list[Arm]:
    columns = {
        "device_memory_gib": lambda row: quotient(row.get("device_memory_peak_bytes"), GIB),
        "host_memory_gib": lambda row: quotient(row.get("host_memory_peak_bytes"), GIB),
        "observer_fraction": lambda row: quotient(row.get("observer_cpu_s"), *map(row.get, CAPACITY)),
    }
    return [arm.having(**columns) for arm in arms]


def _score_notes(every: Sequence[Arm], arms: Sequence[Arm]) -> Iterator[str]:
    """Yield what else changes with the batch size or the workers and may explain a difference."""
    epochs, batches = values_of(arms, "epochs"), values_of(arms, "batch_size_global")
    if len(batches) > 1 and len(epochs) == 1:
        passes = counted(epochs[0], "epoch")
        yield f"Every run was to train {passes}, in which a larger global batch makes fewer updates."
    if "per-worker" in values_of(arms, "batch_scope") and len(values_of(arms, "workers")) > 1:
        yield (
            "Where the batch counts the samples of one worker, the global batch grows with the workers: a difference "
            "may come from that batch and its learning rate, not from the workers."
        )
    if "epochs" in values_of(arms, "divide"):
        yield "Where epochs are divided, each worker passes over all samples, fewer times the more workers there are."
    if True in values_of(arms, "target_stop"):
        yield "Some runs ended as soon as they reached their target."
    yield from synthetic_note(every)


def _device_notes(_: Sequence[Arm], shown: Sequence[Arm]) -> Iterator[str]:
    """Say where the hypervisor or dlbench's own threads took a share that is not near zero."""
    columns = {"steal_fraction": "the hypervisor", "observer_fraction": "dlbench's own observing threads"}
    for column, what in columns.items():
        shares = [share for arm in shown for share in arm.values(column)]
        if much := [share for share in shares if share > NEAR_ZERO]:
            most = f"more than {NEAR_ZERO:.0%} of the processors' time, at most {percent(max(much))}"
            yield f"In {len(much)} of {counted(len(shares), 'run')} {what} took {most}."


RATE_IS = "Steady throughput: samples of all workers per second of the timed window."
OVER_ALL, SCALED = partial(placed, others=True), partial(placed, scaling=True)
TABLE: Mapping[str, QuantityFigure] = {
    "time_to_target": QuantityFigure(
        doc="Time and epochs to the target against batch size or workers; runs that never reached it are counted.",
        ORDER=5, title="Time and epochs to {target} by {x}", needs="one target",
        shown={TIME: Axis("time to target (s)", low=0.0), EPOCHS: Axis("epochs to target", low=0.0)},
        arms=with_ends, places=OVER_ALL, notes=target_notes,
    ),
    "training_time": QuantityFigure(
        doc="Training time, which decides between arms, and the samples seen in it.",
        ORDER=10, title="Training time by {x}", needs="a training time",
        shown={"train_time_s": Axis("training time (s)", low=0.0), SEEN: Axis("samples seen", low=0.0)},
        definition="Training time is end to end: the first step is in it, evaluations are not.", places=OVER_ALL,
    ),
    "throughput": QuantityFigure(
        doc="Steady throughput against batch size, and against workers with the ideal line through the measured single "
        "worker.",
        ORDER=20, title="Steady throughput by {x}", needs="steady samples/s", shown={RATE: RATE_AXIS},
        definition=RATE_IS,
        arms=with_rates, places=partial(placed, scaling=True, others=True), reference=with_ideals, notes=rate_note,
    ),
    "efficiency": QuantityFigure(
        doc="Efficiency: the steady throughput of one of the workers over that of one worker alone.",
        ORDER=30, title="Efficiency by {x}", needs="an efficiency", least=1,
        # An axis of 0 to 110 %; what lies higher makes it longer.
        shown={EFFICIENCY: Axis("steady samples/s of a worker / one worker alone", low=0.0, high=1.1, percent=True)},
        arms=with_efficiencies, places=SCALED, reference=with_whole, notes=efficiency_notes,
    ),
    "accuracy": QuantityFigure(
        doc="Accuracy and loss at the end of training against batch size or workers.",
        ORDER=40, title="Accuracy and loss at the end of training by {x}",
        needs="a loss or an accuracy, on data that can be learned",
        # Validation first: that is what the question is about.
        shown={
            name: SCORES[name] for name in ("validation_accuracy", "validation_loss", "train_accuracy", "train_loss")
        },
        definition="Training loss and accuracy are means over the last epoch, while the weights still change.",
        arms=lambda arms: [arm for arm in arms if arm.scores_mean_something], places=OVER_ALL, notes=_score_notes,
    ),
    "exchange": QuantityFigure(
        doc="What each message-passing strategy reaches, as maps: time to the target, accuracy, bytes and staleness by "
        "workers.",
        ORDER=42, title="What each way of synchronising comes to", form="cells", ALL_ARMS=True,
        needs="messages between workers or servers",
        shown={
            TIME: Axis("time to target (s)", "log10"),
            "validation_accuracy": Axis("validation accuracy at the end"),
            PER_SAMPLE: Axis("bytes sent / sample", "log10"),
            "staleness_mean": Axis("mean staleness (updates)"),
        },
        definition="Bytes are those of all workers and servers, over the samples that entered updates. Staleness is "
        "the version of the parameters at the update minus the version that the gradient was computed at.",
        arms=with_messages, places=by_condition, notes=message_notes,
    ),
    "steps_to_target": QuantityFigure(
        doc="Updates to the target against the global batch: perfect scaling, the fit, and the critical batch size.",
        ORDER=80, title="Updates to {target} by {x}", needs="a target at two or more global batches that do not change",
        shown={"updates": Axis("updates to target", "log10")},
        arms=with_updates, places=by_global_batch, reference=with_fits, notes=update_notes,
    ),
    "strategies": QuantityFigure(
        doc="Steady throughput of each way to train at each batch size or number of workers, as a map.",
        ORDER=90, title="Steady throughput of each way by {x}", needs="steady samples/s", form="cells",
        shown={RATE: Axis(RATE_AXIS.label)}, definition=RATE_IS, arms=with_rates, places=SCALED, notes=rate_note,
    ),
    "devices": QuantityFigure(
        doc="How busy the devices were and how much memory they took, against batch size or workers.",
        ORDER=120, title="Utilisation and memory of devices by {x}",
        needs="device_utilization or the peaks of device and host memory",
        shown={
            "device_utilization": Axis("utilisation of the devices", low=0.0, high=1.1, percent=True),
            MFU.column: Axis("model FLOP utilisation", low=0.0, percent=True),
            "device_throttled": Axis("clocks held back", low=0.0, high=1.1, percent=True),
            "device_memory_gib": Axis("peak memory of a device (GiB)", low=0.0),
            "host_memory_gib": Axis("peak host memory of a worker (GiB)", low=0.0),
        },
        definition="Utilisation: CPU time / (time x cores of the workers) inside the timed window, or on GPUs the "
        "share of time in which a kernel ran, as NVML says. Model FLOP utilisation: FLOP of the model's training steps "
        "over what the data sheet of its device promises. Clocks held back: share of the timed window in which power, "
        "heat or the hardware lowered those of a GPU.",
        arms=_with_shares, notes=_device_notes,
    ),
}  # fmt: skip
