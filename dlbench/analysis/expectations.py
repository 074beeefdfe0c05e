"""Whether runs are what their scenario expects of them: a smoke test's verdict."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from dlbench.analysis.arms import Row
from dlbench.records.outcome import Status
from dlbench.scenario.run_spec import arm_name
from dlbench.scenario.scenario import Expectations

# A GPU that shows kernels in less of the window than this was not what computed.
LEAST_UTILIZATION = 0.01
# Rates in samples per second by device and what says which runs are meant: their settings (`arm_name`), or their label.
Rates = Mapping[tuple[str, str], Sequence[float]]


def unmet(
    expected: Expectations, rows: Sequence[Row], losses: Mapping[str, Sequence[float]], rates: Rates
) -> Iterator[str]:
    """Yield what is not as it should be, a sentence for each run and expectation.

    Args:
        expected: Of every run.
        rows: Of `runs.csv`, the last attempt of each run; one that did not complete is for others to tell.
        losses: The training loss at the end of each epoch, by `run_id`.
        rates: What runs had elsewhere.
    """
    for row in rows:
        if row["status"] == Status.COMPLETED:
            who = row["label"] or row["run_id"]
            yield from (f"{who}: {reason}" for reason in _reasons(expected, row, losses.get(row["run_id"], ()), rates))
    # Of a device that is new no rate can be known.
    is_known = {device for _, device in rates} & {row["device_name"] or "" for row in rows}
    if expected.rate is not None and is_known and not any(usual(row, rates) for row in rows):
        yield f"no rate was checked: {expected.rate.of} has this device, and none of these runs"


def usual(row: Row, rates: Rates) -> Sequence[float]:
    """Return the rates that runs like this one had on its device: those of its settings, else of its label."""
    keys = [(name or "", row["device_name"] or "") for name in (arm_name(row["run_id"]), row["label"])]
    return next((rates[key] for key in keys if key in rates), ())


def _reasons(expected: Expectations, row: Row, losses: Sequence[float], rates: Rates) -> Iterator[str]:
    utilization = row["device_utilization"] or 0.0
    if expected.gpu and row["device_memory_peak_bytes"] is None:
        yield f"it computed on {row['device_name'] or 'an unknown device'}, no GPU that NVML knows"
    elif expected.gpu and utilization < LEAST_UTILIZATION:
        yield f"kernels ran on its GPU in {utilization:.1%} of the window: something else computed"
    if expected.gpu and row["device_rejected"]:
        yield f"sensors of its GPU cannot be trusted: {row['device_rejected']}"
    if expected.falling_loss and len(losses) < 2:
        yield "its loss is known of less than two epochs"
    elif expected.falling_loss and not losses[-1] < losses[0]:
        yield f"its training loss did not fall: {losses[0]:.4g} after the first epoch, {losses[-1]:.4g} at the end"
    if expected.rate is not None and (alike := usual(row, rates)):
        middle, rate = median(alike), row["samples_per_s"]
        if rate is None:
            yield f"it has no steady rate; {middle:,.0f} samples/s are usual"
        elif rate < expected.rate.share * middle:
            yield f"{rate:,.0f} samples/s are {rate / middle:.0%} of the usual {middle:,.0f}"
