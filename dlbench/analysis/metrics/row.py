"""One attempt as a row of `runs.csv`: from its specification, its layout and its journal. None is unknown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import dlbench
from dlbench import plugins
from dlbench.analysis.metrics import rates, sensors
from dlbench.analysis.metrics.warm_up import without_warm_up
from dlbench.errors import UserError
from dlbench.records.columns import SCHEMA_VERSION, names
from dlbench.records.outcome import Outcome
from dlbench.records.result import AGREEMENTS, BEST, Result, Segment
from dlbench.scenario.cluster import Prices
from dlbench.scenario.layout import Layout
from dlbench.scenario.metrics import SCORE_COLUMNS
from dlbench.scenario.run_spec import RunSpec
from dlbench.telemetry.journal import Journal, Rows

# Columns that a result holds under the same name, and how the workers' values become one. Values that were summed or
# agreed over all workers before they were handed in are the same in all, so the first known one is taken.
FIRST = (
    "epochs_completed",
    "learning_rate",
    "num_parameters",
    "flops_per_sample",
    "train_samples",
    "validation_samples",
    "samples_dropped",
    "steps",
    "time_to_target_s",
    "epochs_to_target",
)
LARGEST = (
    "first_step_s",
    "train_time_s",
    "evaluation_time_s",
    "checkpoint_time_s",
    "host_memory_peak_bytes",
    "device_memory_peak_bytes",
)
# What a worker counts until its end: steps that only lengthen the window are in it and cannot be taken out.
TOTALS = ("energy_j", "network_bytes", "wire_bytes", "steal_fraction")
# In less time the start of a run itself keeps cores busy.
LEAST_BUSY_S = 1.0
SUM = ("samples_seen", "bytes_sent", "messages", "updates", "gradients_dropped")


@dataclass(frozen=True)
class AttemptRecords:
    """One launch of a run, as its row names it, and the prices of where it was."""

    study: str
    number: int
    dataset_checksum: str = ""
    prices: Prices | None = None


def run_row(
    run: RunSpec,
    layout: Layout | None,
    attempt: AttemptRecords,
    outcome: Outcome,
    journal: Journal,
    machine: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the row of one attempt: every column of `runs.csv` and the dotted ones of its plugin options.

    Args:
        run: The specification.
        layout: Who ran where; None where the attempt ended before it was laid out.
        attempt: Study, number, data and prices of the attempt.
        outcome: How it ended.
        journal: What its workers reported.
        machine: `machine.json`; fills versions that no worker reported.
    """
    places = None if layout is None else layout.places
    servers = () if places is None else tuple(place.rank for place in places if not place.workers)
    processes = run.settings.workers if places is None else len(places) - len(servers)
    by_servers = [journal.results[rank] for rank in servers if rank in journal.results]
    journal = replace(journal, results={rank: one for rank, one in journal.results.items() if rank not in servers})
    journal, warmup_detected = without_warm_up(journal)
    is_complete = len(journal.results) == processes and len(by_servers) == len(servers)
    results = journal.results if is_complete else {}
    row: dict[str, Any] = dict.fromkeys((*names("runs"), *run.metrics))
    row |= _specification(run)
    row |= _attempt(attempt, outcome)
    row |= _layout(layout) | _cost(run, attempt.prices, layout, outcome)
    row |= _results(journal.results.values(), by_servers, complete=bool(results))
    row |= _scores(run, journal.results.values())
    if run.settings.is_simulated:
        row |= _simulated(run, row)
    row["warmup_detected"] = warmup_detected
    row |= _window(run, results, row["cores_per_worker"])
    row |= _steps(journal, processes)
    if row["timed_steps"] and journal.steps.keys() >= results.keys():
        row |= _between_steps(results, journal.steps)
    if row["samples_per_s"] is not None:
        row["rate_drift"] = rates.drift(journal.steps.values())
    row |= _sensors(journal, 1 if layout is None else len(layout.hosts))
    row["startup_time_s"] = startup_time(outcome.started_at, results.values())
    row |= _facts(run, journal, machine, row)
    row |= run.options
    return row


def startup_time(started_at: str, results: Iterable[Result]) -> float | None:
    """Return the time from the launcher's start until the last worker was ready for its first step, or None."""
    ready = [result.ready_at for result in results]
    known = [moment for moment in ready if moment is not None]
    if not started_at or not known or len(known) < len(ready):
        return None
    return max(known) - datetime.fromisoformat(started_at).timestamp()


def workers_agree(results: Iterable[Result]) -> str | None:
    """Return the worst agreement of all workers, an unknown one above all; where none has one, compare their hashes."""
    found = list(results)
    known = [result.agreement for result in found if result.agreement is not None]
    if known:
        return max(known, key=lambda name: AGREEMENTS.index(name) if name in AGREEMENTS else len(AGREEMENTS))
    hashes = [result.weights_hash for result in found]
    if len(hashes) < 2 or None in hashes:
        return None
    return "exact" if len(set(hashes)) == 1 else "no"


def _specification(run: RunSpec) -> dict[str, Any]:
    settings = run.settings.model_dump(mode="json")
    # A user's own script has empty names where the scenario says nothing of model, data set or engine.
    row = {name: settings[name] for name in names("runs") if settings.get(name) != "" and name in settings}
    target = run.target
    return row | {
        "run_id": run.run_id,
        "scenario": run.scenario,
        "label": run.label,
        "repeat": run.repeat,
        "baseline": run.baseline,
        "batch_size_per_worker": run.global_batch_size / run.settings.workers,
        "batch_size_global": run.global_batch_size,
        # A command decides itself.
        "remainder": settings["remainder"] if run.settings.command is None else None,
        "epochs_per_worker": run.epochs_per_worker,
        "learning_rate_base": run.settings.learning_rate,
        "learning_rate": run.full_learning_rate,
        "seed": run.seed,
        "target_metric": target.metric if target else None,
        "target_value": target.value if target else None,
        "target_stop": target.stop if target else None,
    }


def _attempt(attempt: AttemptRecords, outcome: Outcome) -> dict[str, Any]:
    return {
        "study": attempt.study,
        "attempt": attempt.number,
        "dataset_checksum": attempt.dataset_checksum or None,
        "status": outcome.status.value,
        "reason": outcome.reason or None,
        "exit_code": outcome.exit_code,
        "started_at": outcome.started_at or None,
        "wall_time_s": outcome.wall_time_s or None,
        "schema_version": SCHEMA_VERSION,
        "dlbench_version": dlbench.__version__,
    }


def _layout(layout: Layout | None) -> dict[str, Any]:
    if layout is None:
        return {}
    workers = dict.fromkeys(layout.hosts, 0)
    for place in layout.places:
        workers[place.host] += len(place.workers) if place.role == "worker" else 0
    # Workers that are not bound could use what the specification says.
    bound = {} if layout.cores_per_worker is None else {"cores_per_worker": layout.cores_per_worker}
    return bound | {
        "hosts": len(layout.hosts),
        "machines": layout.machines,
        "link_latency_s": layout.link_latency_s,
        "link_bandwidth_bytes_per_s": layout.link_bandwidth_bytes_per_s,
        "workers_per_host": max(workers.values()),
        "processes": len(layout.places),
        "servers": sum(place.role == "server" for place in layout.places),
        "emulated": ";".join(layout.emulated) or None,
        "cores_enforced": _enforced(layout),
    }


def _simulated(run: RunSpec, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return where the workers would be that one process simulated, and the bytes of each in a step."""
    workers, per_host = run.settings.workers, run.options["communicator.workers_per_host"]
    sent, steps = row["bytes_sent"], row["steps"]
    return {
        "bytes_sent_per_step": sent / (steps * workers) if sent is not None and steps else None,
        "hosts": -(-workers // per_host),
        "workers_per_host": min(workers, per_host),
        "servers": run.settings.servers or 0,
    }


def _cost(run: RunSpec, prices: Prices | None, layout: Layout | None, outcome: Outcome) -> dict[str, Any]:
    """Return what an attempt cost: its time from launch to end on every host and every worker's slot it used."""
    if prices is None or layout is None or not outcome.wall_time_s:
        return {}
    workers = sum(len(place.workers) for place in layout.places)
    workers += run.settings.num_slots - run.settings.workers  # servers and an evaluator with slots of their own
    return {
        "cost": prices.cost(outcome.wall_time_s, len(layout.hosts), workers),
        "cost_currency": prices.currency,
    }


def _enforced(layout: Layout) -> str:
    if any(place.quota is not None for place in layout.places):
        return "quota"
    return "affinity" if all(place.cores for place in layout.places) else "none"


def _facts(run: RunSpec, journal: Journal, machine: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what workers reported by column name, of each the first; it fills cells that are still unknown.

    How cores were enforced is the exception: the worker has seen it, the layout only asked for it.
    """
    found: dict[str, Any] = {}
    # What one host says is no total of several.
    passed_over = TOTALS if row["extended_steps"] or (row["hosts"] or 1) > 1 else ()
    for facts in journal.facts.values():
        for name, value in facts.items():
            if value is not None and name in row and name not in passed_over:
                found.setdefault(name, value)
    found = {name: value for name, value in found.items() if row[name] is None or name == "cores_enforced"}
    if run.settings.command is None:
        found.setdefault("backend", _backend(run.settings.trainer))
    found.setdefault("python_version", machine.get("software", {}).get("python"))
    return found


def _backend(trainer: str) -> str | None:
    try:
        return plugins.load("trainers", trainer).get("BACKEND")  # type: ignore[no-any-return]
    except UserError:  # a plugin that is not installed where the study is read
        return None


def _results(results: Iterable[Result], by_servers: list[Result], *, complete: bool) -> dict[str, Any]:
    """Join the workers' accounts; what is a sum or a largest value over workers needs the account of each.

    What is counted is added up over servers, too.
    """
    found = list(results)
    row = _joined(FIRST, found, lambda values: values[0], needs_all=False)
    if not complete:
        return row
    row |= _joined(LARGEST, found, max, needs_all=False)
    row |= _joined(SUM, [*found, *by_servers], sum, needs_all=True)
    row["workers_agree"] = workers_agree(found)
    if row["workers_agree"] != "exact":
        differences = [result.max_difference for result in found if result.max_difference is not None]
        row["workers_max_difference"] = max(differences, default=None)
    row |= _staleness([*found, *by_servers])
    if "staleness_mean" in row and row["updates"]:
        row["samples_per_update"] = row["samples_seen"] / row["updates"]
        row["updates_per_s"] = row["updates"] / row["train_time_s"] if row["train_time_s"] else None
    steps = sum(result.steps for result in found)
    if all(result.nodes for result in found):
        row["steps"] = steps // len(found)  # where samples are handed out, workers make different numbers
    if row.get("bytes_sent") is not None and steps:
        row["bytes_sent_per_step"] = row["bytes_sent"] / steps
    return row


def _scores(run: RunSpec, results: Iterable[Result]) -> dict[str, float | None]:
    """Return the scores, the same of all workers: of each the first that is known."""
    known = [(name, value) for one in results for name, value in one.scores.items() if value is not None]
    first = dict(reversed(known))
    return {name: first.get(name) for name in (*SCORE_COLUMNS, BEST, *run.metrics)}


def _staleness(results: Iterable[Result]) -> dict[str, Any]:
    """Return mean and maximum over the gradients of all workers."""
    counts = [pair for result in results for pair in result.staleness]
    gradients = sum(number for _, number in counts)
    if not gradients:
        return {}
    return {
        "staleness_mean": sum(stale * number for stale, number in counts) / gradients,
        "staleness_max": max(stale for stale, _ in counts),
    }


def _joined(
    columns: Iterable[str], results: list[Result], join: Callable[[list[Any]], Any], *, needs_all: bool
) -> dict[str, Any]:
    row = {}
    for column in columns:
        values = [getattr(result, column) for result in results]
        known = [value for value in values if value is not None]
        if known and (len(known) == len(values) or not needs_all):
            row[column] = join(known)
    return row


def _window(run: RunSpec, results: Mapping[int, Result], cores: float | None) -> dict[str, Any]:
    window = rates.window(results.values())
    if window is None:
        return {}
    rate = window.samples_per_s
    pieces = [piece for result in results.values() for piece in result.segments]
    return {
        "timed_window_s": window.time_s,
        "timed_steps": window.steps,
        "timed_samples": window.samples,
        "extended_steps": window.extended_steps,
        "samples_per_s": rate,
        "samples_per_s_per_worker": None if rate is None else rate / run.settings.workers,
        "device_utilization": _cpu_utilization(cores, run.settings.workers, pieces, window.time_s),
        "observer_cpu_s": _sum([piece.observer_cpu_s for piece in pieces]),
    }


def _cpu_utilization(cores: float | None, workers: int, pieces: Sequence[Segment], time_s: float) -> float | None:
    cpu_time_s = _sum([piece.cpu_time_s for piece in pieces])
    return cpu_time_s / (workers * time_s * cores) if cores and time_s and cpu_time_s is not None else None


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum, None where a value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _between_steps(results: Mapping[int, Result], steps: Mapping[int, Rows]) -> dict[str, Any]:
    between = rates.between_steps(results.values(), [steps[worker] for worker in results])
    return {} if between is None else {"bookkeeping_time_s": between[0], "closing_wait_s": between[1]}


def _steps(journal: Journal, processes: int) -> dict[str, Any]:
    """Return what is made from step rows; without those of every process nothing is."""
    steps = list(journal.steps.values())
    if len(steps) < processes:
        return {}
    percentiles = rates.step_time_percentiles(steps)
    return {
        "warmup_steps": min(rates.count_steps(rows, "first", "warm-up") for rows in steps),
        "step_time_p50_s": percentiles[0] if percentiles else None,
        "step_time_p95_s": percentiles[1] if percentiles else None,
        "sampled_steps": min(rates.count_steps(rows, "sampled") for rows in steps),
        "peer_wait_s": rates.peer_wait(steps),
        "wire_time_s": rates.wire_time(steps),
    } | {
        name: rates.time_in_window(steps, name)
        for name in ("data_wait_s", "compute_time_s", "communication_time_s", "update_time_s")
    }


def _sensors(journal: Journal, num_hosts: int) -> dict[str, Any]:
    steal = sensors.counted(journal, "host", "cpu_steal_s")
    capacity = sensors.counted(journal, "host", "cpu_capacity_s")
    busy, workers = sensors.counted(journal, "host", "cpu_time_s"), sensors.counted(journal, "cpu", "time_s")
    energy = sensors.counted(journal, "nvml", "energy_j")
    end = max(map(sensors.training_end, journal.steps.values()), default=0.0)
    found = {
        "network_bytes": _of_hosts(journal, "sent_bytes", num_hosts),
        "wire_bytes": _of_hosts(journal, "wire_sent_bytes", num_hosts),
        "energy_j": sensors.counted(journal, "rapl", "energy_j") if energy is None else energy,
        "steal_fraction": steal / capacity if steal is not None and capacity else None,
        "other_cpu_cores": max(0.0, busy - workers) / end
        if busy is not None and workers is not None and end >= LEAST_BUSY_S
        else None,
    }
    utilization = sensors.mean_in_window(journal, "nvml", "utilization")
    return found if utilization is None else found | {"device_utilization": utilization}


def _of_hosts(journal: Journal, quantity: str, num_hosts: int) -> int | None:
    """Return what all hosts of a run counted; None where one of them did not."""
    grown = sensors.counted_by_worker(journal, "network", quantity).values()
    known = [value for value in grown if value is not None]
    return round(sum(known)) if len(known) == len(grown) == num_hosts else None
