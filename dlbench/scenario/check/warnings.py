"""What is said of runs before they start: warnings of what is probably not intended, and the form of step rows."""

import math
from collections.abc import Iterable, Iterator, Sequence

from dlbench import plugins
from dlbench.scenario.check.case import Case, Descriptions, num_steps
from dlbench.scenario.check.script_warnings import script_warnings
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.cluster.spread import spread
from dlbench.scenario.plugin_settings import needs_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.scenario import Scenario, StepTable
from dlbench.scenario.settings import BatchPolicy, Input

# Rates come from at least this many steps after warm-up: `MIN_TIMED_STEPS` of `records.result`, a layer above this one.
_WINDOW_STEPS = 50
# From here on `step_table: auto` keeps step rows as Parquet.
MOST_CSV_BYTES = 50_000_000
# Of a value of a gradient in float32.
_VALUE_BYTES = 4
# Of a step's row in `steps.csv`: measured, 125 to 137.
ROW_BYTES = 130


def warnings(runs: Sequence[RunSpec], cluster: Cluster) -> tuple[str, ...]:
    """Return the warnings for the runs of a scenario, each one sentence."""
    # Candidates of a search are warned of as their arm will be measured.
    arms = list({(run.fingerprint, run.label): run for run in (planned.as_measured for planned in runs)}.values())
    real = [run for run in arms if not run.settings.is_simulated]
    return (*_window(real, cluster), *_on_cores(real, cluster), *_training(arms), *script_warnings(arms))


def announcement(scenario: Scenario, runs: Iterable[RunSpec], cluster: Cluster) -> str:
    """Say that step rows will be kept as Parquet though the scenario does not ask for it; else nothing."""
    size = csv_bytes(runs, cluster) if scenario.step_table is StepTable.AUTO else 0
    if size <= MOST_CSV_BYTES:
        return ""
    return (
        f"about {size / 1e6:,.0f} MB of step rows: they are kept as steps.parquet, a quarter of that; "
        "`step_table: csv` keeps CSV"
    )


def csv_bytes(runs: Iterable[RunSpec], cluster: Cluster) -> float:
    """Return how large `steps.csv` will be at least: steps of extended windows and of scripts are not known before."""
    seen: Descriptions = {}
    counts = ((run.settings.workers, num_steps(Case(run, cluster, seen))) for run in runs)
    return ROW_BYTES * sum(workers * steps for workers, steps in counts if math.isfinite(steps))


def _window(arms: Sequence[RunSpec], cluster: Cluster) -> Iterator[str]:
    seen: Descriptions = {}
    short = [
        run for run in arms if not run.settings.extend_window and num_steps(Case(run, cluster, seen)) <= _WINDOW_STEPS
    ]
    if short:
        settings = [run.settings for run in short]
        can_extend = all(it.batch_policy is BatchPolicy.FIXED and not needs_of(it.strategy).nodes for it in settings)
        remedy = "`extend_window: true` or more epochs" if can_extend else "more epochs"
        labels = _some([run.label for run in short])
        yield f"fewer than {_WINDOW_STEPS} steps after warm-up, so no samples_per_s: {labels}; {remedy} would fill it"


def _on_cores(arms: Sequence[RunSpec], cluster: Cluster) -> Iterator[str]:
    """Warn of workers that have no whole core, or none that a device of theirs would be."""
    counts = [num_processes for run in arms for num_processes in spread(run.settings, cluster)]
    if crowded := [(count, host.slots) for host, count in counts if count > host.slots]:
        most, slots = max(crowded)
        yield f"up to {most} workers share {slots} cores: such rows are marked `oversubscribed`, not real scaling"
    several = {it.strategy for it in (run.settings for run in arms) if it.workers > 1 and it.command is None}
    # Drawn on the processors of one process, logical devices are no devices.
    if logical := sorted(strategy for strategy in several if needs_of(strategy).one_process):
        rows = "such rows are marked `logical-devices`, and compared with no real ones"
        yield f"workers of {', '.join(logical)} are logical devices on this machine's processors: {rows}"
    cores = sorted({run.settings.cores_per_worker or 1.0 for run in arms})
    # Messages wait for workers without a turn.
    if len({run.settings.workers for run in arms}) > 1 and not all(number.is_integer() for number in cores):
        shares = " and ".join(f"{number:g}" for number in cores)
        why = "a worker that has used up its quota lets the others wait, which counts as communication"
        how = "use whole cores to measure communication alone"
        yield f"numbers of workers are compared with {shares} cores per worker: {why}; {how}"


def _training(arms: Sequence[RunSpec]) -> Iterator[str]:
    if rare := [run.label for run in arms if run.target and run.settings.evaluate_every > run.epochs_per_worker]:
        yield f"evaluated only after training, so the target is seen late: {_some(rare)}"
    if longer := [run.label for run in arms if _is_as_long_in_a_ring(run)]:
        why = "in a ring each worker's compressed gradient goes round whole, and gradients as they are in blocks"
        yield f"compression that saves no bytes at this number of workers: {_some(longer)}; {why}"
    trained = [run for run in arms if run.settings.command is None]
    if whole := [run.label for run in trained if run.settings.warmup_epochs == run.epochs_per_worker]:
        why = "warmup_epochs is all of the training, so the learning rate reaches its value in the last step only"
        yield f"{why}: {_some(whole)}"
    if late := [
        run.label for run in trained if (run.settings.learning_rate_decay_epochs or 0) >= run.epochs_per_worker
    ]:
        yield f"learning_rate_decay_epochs is all of the training, so the learning rate never falls: {_some(late)}"
    if random := [run.label for run in trained if run.settings.input is Input.SYNTHETIC]:
        why = "trained on random numbers (input synthetic), so that losses and accuracies mean nothing"
        yield f"{why}: {_some(random)}"


def _is_as_long_in_a_ring(run: RunSpec) -> bool:
    """Whether p - 1 payloads are as long as 2 (p - 1) blocks of 1/p of a gradient in float32."""
    if run.settings.strategy != "ring" or run.settings.compression is None:
        return False
    size = plugins.load("compressors", run.settings.compression).get("BYTES_PER_VALUE")
    return size is not None and bool(run.settings.workers * size >= 2 * _VALUE_BYTES)


def _some(labels: Sequence[str]) -> str:
    labels = list(dict.fromkeys(labels))
    more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
    return ", ".join(f"[{label}]" for label in labels[:3]) + more
