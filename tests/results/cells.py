"""What a table shows of an arm: settings as they are, measurements as medians with their intervals."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dlbench.analysis.arm_table import marks
from dlbench.analysis.arms import Arm
from dlbench.analysis.formatting import accuracy, number, percent
from dlbench.analysis.statistics.intervals import median_interval
from dlbench.report.markdown import escaped
from tests.results.comparisons import interval_text, samples

Cell = Callable[[Arm], str]
TOUCHED = re.compile(r"touched ([-+.\de]+)")


def _spread(column: str, written: Callable[[float], str] = number) -> Cell:
    return lambda arm: _of(arm.values(column), written)


def _of(values: Iterable[float], written: Callable[[float], str] = number) -> str:
    known = list(values)
    return interval_text(median_interval(known) if known else None, written)


def _rate(arm: Arm) -> str:
    return " ".join(filter(None, (_spread("samples_per_s")(arm), escaped(marks(arm.completed)))))


def _share(*columns: str) -> Cell:
    """Return the share of the window that parts of its steps take together."""

    def share(arm: Arm) -> str:
        known = [row for row in arm.completed if row.get("timed_window_s")]
        known = [row for row in known if all(row.get(column) is not None for column in columns)]
        return _of((sum(row[column] for column in columns) / row["timed_window_s"] for row in known), percent)

    return share


def _reached(arm: Arm) -> str:
    """Return the time to the target; how many runs reached it, where not all of them did."""
    reached, tried = len(arm.values("time_to_target_s")), len(arm.completed)
    return _spread("time_to_target_s")(arm) if reached == tried else f"{reached} of {tried} reached it"


def _sent(arm: Arm) -> str:
    has_peers = int(arm.first.get("hosts") or 1) > 1
    return _of(value / 1e6 for value in arm.values("network_bytes")) if has_peers else ""


def _routes(arm: Arm) -> str:
    """Return which way each table's gradient took, and the mean share of its rows that a batch touched."""
    texts = [row["routes"] for row in arm.completed]
    ways = dict.fromkeys(re.sub(r" \(touched [^)]*\)", "", text) for text in texts)
    return f"{', '.join(ways)}; {_of((float(share) for text in texts for share in TOUCHED.findall(text)), percent)}"


def rate_per_sample(row: Mapping[str, Any]) -> float:
    """Return the rate at which one sample of a run enters the parameters that all workers share, or agree on.

    It is the rate of an update, times the share with which one gradient enters it, over the samples of the gradient.
    The shared parameters are those of the servers; without servers, or where workers train on their own, the mean of
    all copies, a centre included. Momentum is left out.
    """
    workers = int(row["workers"])
    shares: Mapping[str, Callable[[], float]] = {
        **dict.fromkeys(("asynchronous", "downpour", "hogwild"), lambda: 1.0),
        "backup_workers": lambda: 1 / (workers - int(row["strategy.backups"])),
        "elastic_averaging": lambda: 1 / (workers + 1),
        "softsync": lambda: 1 / (workers // int(row["strategy.n"])) / _divisor(row),
    }
    share = shares.get(row["strategy"], lambda: 1 / workers)()
    return float(row["learning_rate"]) * share / float(row["batch_size_per_worker"])


def _divisor(row: Mapping[str, Any]) -> float:
    """Return what `softsync` divides rates by on average: each gradient's staleness, where that is above 1."""
    return max(1.0, float(row["staleness_mean"])) if row["strategy.rate"] == "staleness" else 1.0


MEASURED: Mapping[str, tuple[str, Cell]] = {
    "train_time_s": ("training time, s", _spread("train_time_s")),
    "time_to_target_s": ("time to target, s", _reached),
    "epochs_to_target": ("epochs to target", _spread("epochs_to_target")),
    "batch_changes": ("changes of the batch", _spread("batch_changes")),
    "batch_size_last": ("batch of all workers at the end", _spread("batch_size_last")),
    "samples_seen": ("samples seen", lambda arm: f"{samples(arm):,}"),
    "steps": ("updates", _spread("steps")),
    "learning_rate": ("rate of an update", _spread("learning_rate")),
    "rate_per_sample": ("rate per sample", lambda arm: _of(map(rate_per_sample, arm.completed), "{:.2g}".format)),
    "samples_per_s": ("steady throughput, samples/s", _rate),
    "samples_per_s_per_worker": ("samples/s of one worker", _spread("samples_per_s_per_worker")),
    "updates_per_s": ("updates per second", _spread("updates_per_s")),
    "samples_per_update": ("samples in an update", _spread("samples_per_update")),
    "staleness_mean": ("mean staleness", _spread("staleness_mean")),
    "gradients_dropped": ("gradients dropped", _spread("gradients_dropped")),
    "messages": ("messages", _spread("messages")),
    "bytes_sent": ("bytes sent", _spread("bytes_sent")),
    "bytes_sent_mb": ("sent by all workers, MB", lambda arm: _of(value / 1e6 for value in arm.values("bytes_sent"))),
    "efficiency": ("efficiency of steady throughput", lambda arm: interval_text(arm.efficiency, percent)),
    "exchange": ("share of the window in the exchange", _share("communication_time_s")),
    "coding": ("share of the window in encoding and decoding", _share("encoding_time_s", "decoding_time_s")),
    "link": ("link as measured, MB/s", lambda arm: _of(v / 1e6 for v in arm.values("link_bandwidth_bytes_per_s"))),
    "sent_mb": ("sent by all hosts, MB", _sent),
    "routes": ("route of the table, rows touched", _routes),
    "startup_time_s": ("start-up, s", _spread("startup_time_s")),
    "wall_time_s": ("whole run, s", _spread("wall_time_s")),
    "mfu": ("model FLOP utilisation", _spread("mfu", "{:.1%}".format)),
    "first_step_s": ("first step, s", _spread("first_step_s")),
    "device_utilization": ("device busy", _spread("device_utilization", percent)),
    "train_loss": ("training loss", _spread("train_loss", "{:.4f}".format)),
    "train_accuracy": ("training accuracy", _spread("train_accuracy", accuracy)),
    "validation_loss": ("validation loss", _spread("validation_loss")),
    "validation_accuracy": ("validation accuracy", _spread("validation_accuracy", accuracy)),
    "emulated": ("emulated", lambda arm: arm.emulated.replace(";", ", ")),
}


def plain(value: Any) -> str:
    """Return a setting as it is written: whole numbers without a point."""
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def order(value: Any) -> tuple[int, float, str]:
    """Return what sorts settings: unknown ones, numbers by size, words by letter."""
    if value is None:
        return 0, 0.0, ""
    return (2, 0.0, value) if isinstance(value, str) else (1, float(value), "")


def counts(found: Mapping[Any, int]) -> str:
    """Return how often each value occurs: `exact in 60 runs, close in 2 runs`."""
    return ", ".join(f"{value} in {count}" for value, count in found.items())


def items(texts: Iterable[str]) -> str:
    """Return a list in Markdown."""
    return "\n".join(f"- {text}" for text in texts)
