"""One attempt as a row of `runs.csv`, and its processes as rows of `topology.csv`. None is unknown.

They are made from its specification, its layout and its journal.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from statistics import fmean
from typing import Any

import dlbench
from dlbench import plugins
from dlbench.analysis.arms import quotient
from dlbench.analysis.formatting import duration
from dlbench.analysis.metrics import rates, sensors
from dlbench.analysis.metrics.critical_batch import noise_scale
from dlbench.analysis.metrics.peaks import peak_flops
from dlbench.analysis.metrics.warm_up import without_warm_up
from dlbench.errors import UserError
from dlbench.records.columns import SCHEMA_VERSION, names
from dlbench.records.gpus import REJECTED, THROTTLES
from dlbench.records.outcome import Outcome
from dlbench.records.result import AGREEMENTS, BEST, STOOD_STILL, Result
from dlbench.scenario.check.script_arguments import note_of_batch
from dlbench.scenario.cluster import Cluster, Prices
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.metrics import BUILT_IN, SCORE_COLUMNS
from dlbench.scenario.needs import SERVER
from dlbench.scenario.plugin_settings import num_slots, update_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Augmentation, BatchPolicy
from dlbench.telemetry.journal import Journal

# Columns that a result holds under the same name, and how the workers' values become one. Values that were summed or
# agreed over all workers before they were handed in are the same in all, so the first known one is taken.
FIRST = (
    "learning_rate", "num_parameters", "flops_per_sample", "train_samples", "validation_samples", "samples_dropped",
    "time_to_target_s", "epochs_to_target",
)  # fmt: skip
MOST = ("epochs_completed", "steps")
LARGEST = (
    "first_step_s", "train_time_s", "evaluation_time_s", "checkpoint_time_s", "host_memory_peak_bytes",
    "device_memory_peak_bytes",
)  # fmt: skip
SUM = ("samples_seen", "bytes_sent", "messages", "updates", "gradients_dropped")
# What a worker counts until its end: steps that only lengthen the window are in it and cannot be taken out.
TOTALS = ("energy_j", "network_bytes", "wire_bytes", "steal_fraction")
# What each worker says of itself, and how that becomes one value where all of them say it.
_OF_WORKERS: dict[str, Callable[[list[Any]], Any]] = {
    "host_memory_peak_bytes": max, "device_memory_peak_bytes": max, "device_utilization": fmean,
    **{f"device_{name}": fmean for name in THROTTLES},
}  # fmt: skip
# Columns that are made of a setting, of which a script may not know it.
_DERIVED = {
    "batch_size": ("batch_size", "batch_size_per_worker", "batch_size_global"),
    "learning_rate": ("learning_rate_base", "learning_rate"),
    "epochs": ("epochs", "epochs_per_worker"),
    "seed": (),  # it tells repeats apart
}
# Workers that evaluate the same samples with the same weights differ by less, as a share of the score.
UNLIKE_SCORES = 0.005
# In less time the start of a run itself keeps cores busy.
LEAST_BUSY_S = 1.0


@dataclass(frozen=True)
class AttemptRecords:
    """One launch of a run.

    Attributes:
        study: Name of its study.
        number: Which launch it is.
        outcome: How it ended.
        machine: `machine.json`; fills versions that no worker reported.
        dataset_checksum: Of its data; empty where it ended before they were read.
        prices: Of where it was.
        dataset_doubt: Why scores on its data are doubtful.
    """

    study: str
    number: int
    outcome: Outcome
    machine: Mapping[str, Any]
    dataset_checksum: str = ""
    prices: Prices | None = None
    dataset_doubt: str = ""


def run_row(run: RunSpec, layout: Layout | None, attempt: AttemptRecords, journal: Journal) -> dict[str, Any]:
    """Return the row of one attempt: every column of `runs.csv` and the dotted ones of its plugin options.

    Args:
        run: The specification.
        layout: Who ran where; None where the attempt ended before it was laid out.
        attempt: The attempt.
        journal: What its workers reported.
    """
    places = () if layout is None else layout.places
    servers = [place.rank for place in places if not place.workers]
    processes = run.settings.workers if layout is None else len(places) - len(servers)
    by_servers = [journal.results[rank] for rank in servers if rank in journal.results]
    of_workers = {rank: of_worker for rank, of_worker in journal.results.items() if rank not in servers}
    trained = _trained(of_workers)
    idle = [result for rank, result in of_workers.items() if rank not in trained]
    processes -= len(idle)
    journal, warmup_detected = without_warm_up(replace(journal, results=trained))
    is_complete = len(journal.results) == processes and len(by_servers) == len(servers)
    results = journal.results if is_complete else {}
    row: dict[str, Any] = dict.fromkeys((*names("runs"), *run.metrics))
    row |= specification(run) | _attempt(attempt)
    if layout is not None:
        row |= _layout(run, layout, attempt)
    by_workers = [*journal.results.values(), *idle]
    row |= _results(by_workers, by_servers, run.global_batch_size, complete=bool(results))
    is_partial = idle and results and row["batch_size_global"]
    row |= {"batch_size_global": sum(map(run.local_batch_size, results))} if is_partial else {}
    # What a script states of its time is that of all its processes.
    stated = run.metrics if is_complete else [name for name in run.metrics if name not in BUILT_IN]
    scored = (*SCORE_COLUMNS, BEST, *stated)
    # The scores are the same of all workers: the first that is known counts.
    for result in reversed(of_workers.values()):
        row |= {name: value for name, value in result.scores.items() if name in scored and value is not None}
    unlike = _unlike_scores(run, by_workers, scored)
    row |= dict.fromkeys(unlike)
    if run.settings.is_simulated:
        row |= _simulated(run)
    row["warmup_detected"] = warmup_detected
    row |= _window(run.settings.workers - len(idle), results, row["cores_per_worker"])
    row |= _steps(journal, processes)
    if row["timed_steps"] and journal.steps.keys() >= results.keys():
        steps = [journal.steps[worker] for worker in results]
        row["bookkeeping_time_s"], row["closing_wait_s"] = rates.between_steps(results.values(), steps)
    if row["samples_per_s"] is not None:
        row["rate_drift"] = rates.drift(rates.without_waits(journal.results, journal.steps))
        row["samples_per_s_per_worker"] = row["samples_per_s"] / run.settings.workers
    row |= _sensors(journal, places)
    if run.settings.workers_inside:  # sensors see one of them: the others are no other programs
        row["other_cpu_cores"] = None
    row["startup_time_s"] = startup_time(attempt.outcome, results.values())
    if run.settings.batch_policy is not BatchPolicy.FIXED and (journal.steps or results):
        changes = journal.batch_changes
        row["batch_changes"] = len(changes)
        row["batch_size_last"] = changes[-1].batch_size if changes else run.global_batch_size
    row |= _facts(run, journal, results, attempt.machine, row)
    stood_still_s = max((of_worker.stood_still_s for of_worker in by_workers), default=0.0)
    pause = f"{STOOD_STILL} for {duration(stood_still_s)}: stopped or suspended" if stood_still_s else ""
    notes = (row["script_note"], *unlike.values(), note_of_batch(run.settings.command or ""), pause)
    row["script_note"] = "; ".join(filter(None, dict.fromkeys(notes))) or None
    devices = {journal.facts.get(place.rank, {}).get("device_name") for place in places if place.workers}
    gpus = attempt.machine.get("gpus") or ()
    is_shared = bool(gpus) and (row["workers_per_host"] or 1) > len(gpus)  # of a GPU, none has the whole
    if len(devices) == 1 and not is_shared and row["precision"] and "logical-devices" not in (row["emulated"] or ""):
        row["peak_flops"] = peak_flops(devices.pop() or "", run.settings.precision, tf32=row["tf32"])
    if row["mfu"] is None and all(map(row.get, ("flops_per_sample", "samples_per_s_per_worker", "peak_flops"))):
        row["mfu"] = row["flops_per_sample"] * row["samples_per_s_per_worker"] / row["peak_flops"]
    row |= run.options
    return row


def topology(layout: Layout, cluster: Cluster, journal: Journal) -> Iterator[dict[str, Any]]:
    """Yield a row of `topology.csv` for each process of an attempt: where it was put, and what it reported.

    Args:
        layout: Where it was put.
        cluster: The hosts, which rows name by number.
        journal: What the processes reported.
    """
    # The number of each host in the cluster; of hosts that a queue gave, in the order of their first use.
    addresses = [host.address for host in cluster.hosts]
    if not set(layout.hosts) <= set(addresses):
        addresses = list(layout.hosts)
    sent = sensors.counted_by_worker(journal, "network", "wire_sent_bytes")
    received = sensors.counted_by_worker(journal, "network", "wire_received_bytes")
    for place in layout.places:
        facts = journal.facts.get(place.rank, {})
        yield place.model_dump(include={"rank", "role", "machine", "local_index"}) | {
            "role_index": place.rank if place.workers else place.index,
            "held_workers": ";".join(map(str, place.workers)),
            "host": addresses.index(place.host),
            "cores": ";".join(map(str, place.cores)),
            "device_name": facts.get("device_name"),
            "interface": facts.get("interface"),
            "wire_sent_bytes": sent.get(place.rank),
            "wire_received_bytes": received.get(place.rank),
        }


def startup_time(outcome: Outcome, results: Iterable[Result]) -> float | None:
    """Return the time from the launcher's start until the last worker was ready for its first step.

    None where it is not known, and where clocks of two hosts make it what cannot be: below 0, or longer than the run.
    """
    ready = [math.nan if result.ready_at is None else result.ready_at for result in results]
    if not outcome.started_at or not ready or any(map(math.isnan, ready)):
        return None
    passed = max(ready) - datetime.fromisoformat(outcome.started_at).timestamp()
    return passed if 0 <= passed <= (outcome.wall_time_s or math.inf) else None


def workers_agree(results: Iterable[Result]) -> str | None:
    """Return the worst agreement of all workers, an unknown one above all; where none has one, compare their hashes."""
    all_results = dict(enumerate(results))
    agreements = [result.agreement for result in all_results.values() if result.agreement is not None]
    if agreements:
        return max(agreements, key=lambda name: AGREEMENTS.index(name) if name in AGREEMENTS else len(AGREEMENTS))
    hashes = [result.weights_hash for result in _trained(all_results).values()]
    if len(hashes) < 2 or None in hashes:
        return None
    return "exact" if len(set(hashes)) == 1 else "no"


def _trained(results: dict[int, Result]) -> dict[int, Result]:
    """Leave out workers of a script that made no step, such as a parameter server, unless none made any."""
    idle = {rank for rank, result in results.items() if result.has_hook and not (result.steps or result.nodes)}
    return {rank: result for rank, result in results.items() if rank not in idle} or results


def specification(run: RunSpec) -> dict[str, Any]:
    """Return the columns that are known of a run before it is made, without the options of its plugins."""
    settings, target = run.settings.model_dump(mode="json"), run.target
    # A user's own script has empty names where the scenario says nothing of model, data set or engine.
    row = {name: settings[name] for name in names("runs") if settings.get(name) != "" and name in settings}
    row |= _same(run, "run_id", "scenario", "label", "repeat", "baseline", "epochs_per_worker", "seed")
    row |= {} if target is None else {f"target_{name}": value for name, value in target.model_dump().items()}
    if run.settings.command is None:
        if run.settings.batch_policy is not BatchPolicy.GOODPUT:
            row["batch_policy_steps"] = None
        if run.settings.augmentation is Augmentation.NONE:
            row["augmentation_padding"] = None
        with suppress(UserError):  # the plugin of a user's strategy may be gone
            update = update_of(run)
            if update.share is not None:
                per_sample = update.learning_rate * update.share * run.settings.workers / run.global_batch_size
                row["learning_rate_per_sample"] = per_sample
    else:
        # A command decides itself.
        row |= dict.fromkeys(("remainder", "batch_policy", "batch_policy_steps"))
    row |= {
        "phase": run.phase.value,
        "repeats_rule": run.repeats_rule or None,
        "tuned": ";".join(run.tuned.values) if run.tuned else None,
        "tuned_at_edge": run.tuned.at_edge or None if run.tuned else None,
        "tuned_scattered": run.tuned.scattered if run.tuned else None,
        "batch_size_per_worker": run.global_batch_size / run.settings.workers,
        "batch_size_global": run.global_batch_size,
        "learning_rate_base": run.settings.learning_rate,
        "learning_rate": run.full_learning_rate,
    }
    derived = (_DERIVED.get(key, (key,)) for key in run.unknown)
    return row | dict.fromkeys(chain.from_iterable(derived))


def _same(source: object, *columns: str) -> dict[str, Any]:
    """Return what something holds under the names of columns."""
    return {name: getattr(source, name) for name in columns}


def _attempt(attempt: AttemptRecords) -> dict[str, Any]:
    values = _same(attempt.outcome, "reason", "started_at", "wall_time_s", "code_checksum")
    values |= _same(attempt, "study", "dataset_checksum", "dataset_doubt")
    return {name: value or None for name, value in values.items()} | {
        "attempt": attempt.number,
        "status": attempt.outcome.status.value,
        "exit_code": attempt.outcome.exit_code,
        "schema_version": SCHEMA_VERSION,
        "dlbench_version": dlbench.__version__,
    }


def _layout(run: RunSpec, layout: Layout, attempt: AttemptRecords) -> dict[str, Any]:
    """Return who ran where, and the cost: the time from launch to end on every host and every worker's slot.

    Workers that are not bound could use the cores that the specification says.
    """
    workers = Counter(place.host for place in layout.places for _ in place.workers)
    enforced = "affinity" if all(place.cores for place in layout.places) else "none"
    if any(place.quota is not None for place in layout.places):
        enforced = "quota"
    row = _same(layout, "machines", "link_latency_s", "link_bandwidth_bytes_per_s") | {
        "cores_per_worker": layout.cores_per_worker or run.settings.cores_per_worker,
        "hosts": len(layout.hosts),
        "workers_per_host": max(workers.values(), default=0),
        "processes": len(layout.places),
        "servers": sum(place.role == SERVER.name for place in layout.places),
        "emulated": ";".join(layout.emulated) or None,
        "cores_enforced": enforced,
    }
    if (prices := attempt.prices) is not None and (wall_time_s := attempt.outcome.wall_time_s):
        # Beside the workers there are processes of other roles with slots of their own.
        slots = workers.total() + num_slots(run.settings) - run.settings.workers
        row["cost"] = prices.cost(wall_time_s, len(layout.hosts), slots)
        row["cost_currency"] = prices.currency
    return row


def _unlike_scores(run: RunSpec, results: Sequence[Result], names: Iterable[str]) -> dict[str, str]:
    """Return what to say of each column that a script's workers disagree about: it is not that of the model."""
    unlike = dict[str, str]()
    for name in names if run.settings.command is not None else ():
        reported = [value for result in results if (value := result.scores.get(name)) is not None]
        if reported and max(reported) - min(reported) > UNLIKE_SCORES * max(map(abs, reported)):
            ends = f"{min(reported):.4g} to {max(reported):.4g}"
            unlike[name] = f"workers reported different {name} ({ends}): each is to report that of all"
    if BEST in unlike:
        unlike[BEST] = ""
    if run.target is not None and (text := unlike.get(run.target.metric)):
        unlike |= dict.fromkeys(("time_to_target_s", "epochs_to_target"), text)
    return unlike


def _simulated(run: RunSpec) -> dict[str, Any]:
    """Return where the workers would be that one process simulated."""
    workers, per_host = run.settings.workers, run.options["communicator.workers_per_host"]
    return {
        "hosts": -(-workers // per_host),
        "workers_per_host": min(workers, per_host),
        "servers": run.settings.servers or 0,
    }


def _facts(
    run: RunSpec, journal: Journal, workers: Iterable[int], machine: Mapping[str, Any], row: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what workers reported by column name, of each the first or what it is of all; it fills unknown cells.

    How cores were enforced is the exception: the worker has seen it, the layout only asked for it.
    """
    columns: dict[str, Any] = {}
    wanted = {"cores_enforced", *(name for name in row if row[name] is None)}
    if row["extended_steps"] or (row["hosts"] or 1) > 1:
        # What one host says is no total of several.
        wanted -= set(TOTALS)
    if _on_gpus(journal):
        wanted.discard("energy_j")  # nor what one worker does
    for facts in reversed(journal.facts.values()):
        columns |= {name: value for name, value in facts.items() if name in wanted and value is not None}
    for name in wanted & _OF_WORKERS.keys():
        values = [journal.facts.get(worker, {}).get(name) for worker in workers]
        columns[name] = _OF_WORKERS[name](values) if values and None not in values else None
    if run.settings.command is None:
        with suppress(UserError):  # of a plugin that is not installed where the study is read
            columns.setdefault("backend", plugins.load("trainers", run.settings.trainer).get("BACKEND"))
    columns.setdefault("python_version", machine.get("software", {}).get("python"))
    return columns


def _results(by_workers: list[Result], by_servers: list[Result], batch: int, *, complete: bool) -> dict[str, Any]:
    """Join the workers' accounts; what is a sum or a largest value over workers needs the account of each.

    What is counted is added up over servers, too.
    """
    if not all(result.has_hook for result in by_workers):
        return {"host_memory_peak_bytes": max(result.host_memory_peak_bytes or 0 for result in by_workers) or None}
    columns = (*FIRST, *MOST, *LARGEST, "max_difference")
    values = {
        name: [value for of_worker in by_workers if (value := getattr(of_worker, name)) is not None] for name in columns
    }
    row = {name: values[name][0] for name in FIRST if values[name]}
    row |= {name: max(values[name]) for name in MOST if values[name]}
    if not complete:
        return row
    row |= {name: max(values[name]) for name in LARGEST if values[name]}
    row |= {name: sensors.total([getattr(of_worker, name) for of_worker in (*by_workers, *by_servers)]) for name in SUM}
    row["gradient_noise_scale"] = noise_scale([of_worker.gradient_norms for of_worker in by_workers], batch)
    row["workers_agree"] = workers_agree(by_workers)
    if row["workers_agree"] != "exact":
        row["workers_max_difference"] = max(values["max_difference"], default=None)
    counts = [pair for result in (*by_workers, *by_servers) for pair in result.staleness]
    if gradients := sum(number for _, number in counts):
        row["staleness_mean"] = sum(stale * number for stale, number in counts) / gradients
        row["staleness_max"] = max(stale for stale, _ in counts)
    if gradients and row["updates"]:
        row["samples_per_update"] = row["samples_seen"] / row["updates"]
        row["updates_per_s"] = quotient(row["updates"], row.get("train_time_s"))
    steps = sum(result.steps for result in by_workers)
    if all(result.nodes for result in by_workers):
        row["steps"] = steps // len(by_workers)  # where samples are handed out, workers make different numbers
        steps = sum(account.steps or 0 for result in by_workers for account in result.nodes)
    return row | {"bytes_sent_per_step": quotient(row["bytes_sent"], steps)}


def _window(workers: int, results: Mapping[int, Result], cores: float | None) -> dict[str, Any]:
    window = rates.window(results.values())
    if not window:
        return {}
    pieces = [piece for result in results.values() for piece in result.segments]
    used = sensors.total([piece.cpu_time_s for piece in pieces])
    available = workers * window["timed_window_s"] * (cores or 0.0)
    return window | {
        "device_utilization": quotient(used, available),
        "observer_cpu_s": sensors.total([piece.observer_cpu_s for piece in pieces]),
    }


def _steps(journal: Journal, processes: int) -> dict[str, Any]:
    """Return what is made from step rows; without those of every process nothing is."""
    steps = list(journal.steps.values())
    if len(steps) < processes:
        return {}
    unhindered = rates.without_waits(journal.results, journal.steps)
    p50, p95 = rates.step_time_percentiles(unhindered)
    parts = ("data_wait", "compute_time", "communication_time", "update_time", "encoding_time", "decoding_time")
    return {
        "warmup_steps": min(rates.count_steps(rows, "first", "warm-up") for rows in steps),
        "step_time_p50_s": p50,
        "step_time_p95_s": p95,
        "sampled_steps": min(rates.count_steps(rows, "sampled") for rows in steps),
        "peer_wait_s": rates.in_marked_steps(steps, "peer_wait_s"),
        "wire_time_s": rates.in_marked_steps(steps, "communication_time_s"),
        **{f"{name}_s": rates.time_in_window(unhindered, f"{name}_s") for name in parts},
    }


def _sensors(journal: Journal, places: Sequence[Place]) -> dict[str, Any]:
    num_hosts = len({place.host for place in places}) or 1
    steal, capacity, busy = (_of_machines(journal, f"cpu_{of}_s", places) for of in ("steal", "capacity", "time"))
    workers = sensors.counted(journal, "cpu", "time_s")
    on_gpus = _on_gpus(journal)
    # A counter that did not move has counted nothing.
    energy = sensors.counted(journal, "nvml" if on_gpus else "rapl", "energy_j") or None
    # A GPU without such a counter uses energy, too.
    by_quantity = {name: sensors.readers(journal, "nvml", name) for name in ("power_w", "energy_j")}
    energy = energy if by_quantity["power_w"] <= by_quantity["energy_j"] else None
    end = max(map(sensors.training_end, journal.steps.values()), default=0.0)
    others = max(0.0, busy - workers) if busy is not None and workers is not None else None
    seen = Counter(reading.quantity for reading in journal.sensors if reading.sensor == "nvml")
    rejected = {name.removeprefix(REJECTED): count for name, count in seen.items() if name.startswith(REJECTED)}
    texts = (f"{name} {count} of {count + seen[name]}" for name, count in sorted(rejected.items()))
    means = {name: sensors.mean_in_window(journal, "nvml", name) for name in ("utilization", *THROTTLES)}
    return {
        "network_bytes": _of_hosts(journal, "sent_bytes", num_hosts),
        "wire_bytes": _of_hosts(journal, "wire_sent_bytes", num_hosts),
        "energy_j": energy,
        "steal_fraction": quotient(steal, capacity),
        "other_cpu_cores": others / end if others is not None and end >= LEAST_BUSY_S else None,
        "device_rejected": "; ".join(texts) or None,
        **({f"device_{name}": mean for name, mean in means.items()} if on_gpus else {}),
    }


def _on_gpus(journal: Journal) -> bool:
    return any(reading.sensor == "nvml" for reading in journal.sensors)


def _of_machines(journal: Journal, quantity: str, places: Sequence[Place]) -> float | None:
    """Return what a counter of the kernel grew by on all machines: hosts that are one machine read the same counter."""
    machines = {place.rank: place.host if place.machine is None else place.machine for place in places}
    grown = sensors.counted_by_worker(journal, "host", quantity)
    return sensors.total({machines.get(rank, rank): value for rank, value in grown.items()}.values())


def _of_hosts(journal: Journal, quantity: str, num_hosts: int) -> int | None:
    """Return what all hosts of a run counted; None where one of them did not."""
    grown = sensors.counted_by_worker(journal, "network", quantity).values()
    total = sensors.total(grown) if len(grown) == num_hosts else None
    return None if total is None else round(total)
