"""Arms: all runs of one point of the matrix, with what their repeats say together, and whose base line a run is."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from statistics import median
from typing import TYPE_CHECKING, Any

from dlbench.analysis.formatting import counted, one_line, percent
from dlbench.analysis.statistics.intervals import Interval, median_interval, ratio_interval
from dlbench.grouping import by_key
from dlbench.records.columns import names
from dlbench.records.gpus import THROTTLES
from dlbench.records.outcome import Status
from dlbench.records.result import MIN_TIMED_S, MIN_TIMED_STEPS
from dlbench.scenario.metrics import BUILT_IN, MFU, QUALITY, RATE, SCORE_COLUMNS, TIME_TO_TARGET, TRAIN_TIME
from dlbench.scenario.run_spec import Phase, arm_name
from dlbench.scenario.settings import OPTION_PREFIXES, Affects, BatchPolicy, Input, option_prefixes_of, settings_of

if TYPE_CHECKING:
    import pandas as pd

# One run, or one attempt of it, by column; what is unknown is None or absent.
Row = Mapping[str, Any]
# What pairs a run with one of another study: its repeat and seed, or its own name.
Repeat = tuple[str, ...]

METRICS = (TRAIN_TIME.column, *QUALITY, RATE.column, MFU.column)
EFFICIENCY = "efficiency"
WORKER_RATE = "samples_per_s_per_worker"

# No metrics of a script: columns of runs, and headings of tables.
_OWN = {*names("runs"), "placement", "arm", "n", "reached"}
# Of more columns of a script's own none is summed up.
MOST_REPORTED = 12

# An arm is compared with a base line that is its equal in what decides the time of a step on one worker, and in what an
# epoch holds and how batches grow. With one worker there is nothing to divide: `batch_scope` and `divide` may differ.
_OF_A_STEP = (Affects.STEP, Affects.ARITHMETIC)
EQUAL = (
    "dataset_checksum", "epochs", "remainder", "batch_policy", "largest_batch_size", "batch_doubling_epochs",
    *settings_of(*_OF_A_STEP),
)  # fmt: skip
# The command of runs that were measured elsewhere, and what begins the columns that tables of them have besides.
IMPORTED = "imported"
# The column of what a table's rates count, where that is more than samples: rates of unlike things are not compared.
COUNTED = f"{IMPORTED}.counted"
_EQUAL_OPTIONS = (*option_prefixes_of(*_OF_A_STEP), f"{IMPORTED}.")

# A rate that changes by more within the timed window depends on when it was measured.
MOST_DRIFT = 0.05
# Stands behind a rate that depends on when it was measured.
UNSTEADY = " ~"

# More patience would not have brought a run that ended so to its target.
ENDED = (Status.COMPLETED, Status.DIVERGED)


def is_unsteady(row: Row) -> bool:
    """Whether step times had not settled, or the rate changed within the timed window."""
    has_settled, drift = row.get("warmup_detected"), row.get("rate_drift")
    return (drift is not None and abs(drift) > MOST_DRIFT) or (has_settled is not None and not has_settled)


def flags_of(row: Row) -> str:
    """Return what a reader must know of a run's rate, words joined by `;`: it was `extended`, it was `unsteady`."""
    return ";".join(["extended"] * bool(row.get("extended_steps")) + ["unsteady"] * is_unsteady(row))


def held_back(rows: Iterable[Row]) -> str:
    """Say by what the clocks of GPUs were held back, and in how much of the window of the median run.

    Such as `held back by power cap in 62% of the window`, or `not held back`; empty where it is not known.
    """
    watched = [row for row in rows if row.get("device_throttled") is not None]
    if not watched or not (share := median(row["device_throttled"] for row in watched)):
        return "not held back" if watched else ""
    total = {reason: sum(row.get(f"device_{name}") or 0.0 for row in watched) for name, reason in THROTTLES.items()}
    reasons = sorted(filter(None, total), key=total.__getitem__, reverse=True)
    return f"held back by {' and '.join(filter(total.get, reasons))} in {percent(share)} of the window"


def has_fixed_batch(row: Row) -> bool:
    """Whether all steps of the run are of one batch size."""
    return row.get("batch_policy") in (None, BatchPolicy.FIXED)


def can_extend(row: Row) -> bool:
    """Whether `extend_window` is for the run: not for scripts, nodes that send messages, and a batch that changes."""
    return has_fixed_batch(row) and row.get("command") is None and row.get("updates") is None


def updates_of(row: Row) -> int | None:
    """Return how many updates the parameters that a run trains have had, which are its steps in lock step.

    Where servers apply no gradients `updates` sums those of all workers, each of a copy: a copy, or the mean of all,
    has as many as a worker makes steps.
    """
    return row.get("steps" if row.get("samples_per_update") is None else "updates")


def is_ended_by_target(row: Row) -> bool:
    """Whether a completed run trained fewer epochs than it was to, since it reached its target (`stop`)."""
    return bool(row.get("target_stop")) and (row.get("epochs_completed") or 0) < (row.get("epochs_per_worker") or 0)


def reports_no_steps(row: Row) -> bool:
    """Whether the run was a script's that told dlbench nothing of its steps."""
    is_script = row.get("command") is not None and not is_imported(row)
    return is_script and row.get("steps") is None and row.get("timed_window_s") is None


def _would_say(row: Row, metric: str) -> bool:
    """Whether a run that reached its target would have a time to it: its epochs are known, or its script states it."""
    return not reports_no_steps(row) or bool(note_of([row], metric))


def note_of(rows: Iterable[Row], column: str) -> str:
    """Return why a metric was not found in what a script printed or wrote; empty where no run says so."""
    notes = (note for row in rows for note in str(row.get("stated_note") or "").split("; "))
    return next((note for note in notes if note.startswith(f"{column}: ")), "")


def is_imported(row: Row) -> bool:
    """Whether the run was measured elsewhere."""
    return bool(row.get("command") == IMPORTED)


def stated_of(row: Row) -> list[str]:
    """Return the metrics that dlbench has not measured itself: what a script printed or wrote, or a table says."""
    return str(row["stated"]).split(";") if row.get("stated") else []


@dataclass(frozen=True, eq=False)
class Arm:
    """All runs of one point of the matrix of one study, completed or not.

    Attributes:
        name: run_id without the repeat.
        rows: Its runs by column, the last attempt of each; what is unknown is None or absent.
        base_line: The completed runs of one worker alone that its efficiency is measured by; empty where there is
            none, and of a base line itself.
        title: Its name among the arms that it is compared with, in one line.
        attempts: How each attempt of its runs ended that was not interrupted.
    """

    name: str
    rows: tuple[Row, ...] = field(repr=False)
    base_line: tuple[Row, ...] = field(default=(), repr=False)
    title: str = ""
    attempts: tuple[str, ...] = field(default=(), repr=False)

    @cached_property
    def completed(self) -> tuple[Row, ...]:
        """Its completed runs."""
        return tuple(row for row in self.rows if row["status"] == Status.COMPLETED)

    @property
    def first(self) -> Row:
        """The run that says how the arm was set: a completed one, if there is one."""
        return (self.completed or self.rows)[0]

    @property
    def n(self) -> int:
        """Completed repeats."""
        return len(self.completed)

    @property
    def study(self) -> str | None:
        """Name of its study."""
        return self.first.get("study")

    @property
    def label(self) -> str:
        """What distinguishes it from the study's others, in one line."""
        return one_line(self.get("label") or self.name)

    @property
    def workers(self) -> int:
        """Number of replicas."""
        return int(self.first.get("workers") or 1)

    @property
    def slots(self) -> int:
        """How many workers' places it takes: also those of servers and an evaluator with slots of their own."""
        servers = int(self.first.get("servers") or 0) if self.first.get("server_placement") == "own" else 0
        return self.workers + servers + (self.first.get("evaluator") == "own")

    @property
    def baseline(self) -> bool:
        """Whether dlbench added it."""
        return bool(self.first.get("baseline"))

    @property
    def emulated(self) -> str:
        """Reasons why it was not on representative hardware, joined by `;`; unknown for a run that failed early."""
        return self.get("emulated") or ""

    @property
    def is_alone(self) -> bool:
        """Whether it is one worker without any communication library."""
        return is_alone(self.first)

    @property
    def scores_mean_something(self) -> bool:
        """Whether it trained on samples, not on random numbers."""
        return bool(self.first.get("input") != Input.SYNTHETIC)

    @cached_property
    def metrics(self) -> Mapping[str, Interval | None]:
        """Median and interval of METRICS, of what a script reports, of efficiency and of the time to the target.

        None where no completed run has it. The time to the target is infinite where half of the runs never reached it,
        and its interval unknown where one did not.
        """
        columns = (*METRICS, *reported(self.completed))
        medians = {name: median_interval(values) if (values := self.values(name)) else None for name in columns}
        times = [*self.comparable(TIME_TO_TARGET.column).values()]
        medians |= {EFFICIENCY: self.efficiency, TIME_TO_TARGET.column: median_interval(times) if times else None}
        return medians

    @cached_property
    def efficiency(self) -> Interval | None:
        """Rate of one of its workers / rate of its base line; None where there is none to compare with."""
        rates, base = _worker_rates(self.completed), _worker_rates(self.base_line)
        return ratio_interval(rates, base) if rates and base else None

    def values(self, column: str) -> tuple[float, ...]:
        """Return the finite number that each completed run has in a column, without those that have none, or text."""
        return tuple(float(row[column]) for row in self.completed if _is_finite(row.get(column)))

    def comparable(self, metric: str) -> dict[Repeat, float]:
        """Return what the arm's repeats are judged by: a number for each that has one.

        There are no scores where the input was random numbers. Text is no number. A time to a target is infinite where
        a run ended without reaching it; there is none without a target, nor where a script reports no epochs.
        """
        if metric in BUILT_IN and BUILT_IN[metric].is_score and not self.scores_mean_something:
            return {}
        if metric != TIME_TO_TARGET.column:
            return {_repeat(row): float(row[metric]) for row in self.completed if _is_finite(row.get(metric))}
        if self.get("target_value") is None:
            return {}
        rows = [row for row in self.rows if row["status"] in ENDED]
        times = {_repeat(row): time for row in rows if (time := row.get(metric)) is not None or _would_say(row, metric)}
        return {key: math.inf if time is None else float(time) for key, time in times.items()}

    def get(self, column: str) -> Any:
        """Return the first value in a column that a run of the arm has, completed ones before others; or None."""
        return self._known.get(column)

    @cached_property
    def _known(self) -> Row:
        every = (*self.completed, *self.rows)
        return {name: value for row in reversed(every) for name, value in row.items() if value is not None}

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of its runs."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    def efficiency_of(self, row: Row) -> float | None:
        """Return the rate of one worker of a run / the median rate of the base line; None where either is unknown."""
        rate, base = row.get(WORKER_RATE), _worker_rates(self.base_line)
        return rate / median(base) if rate and base and row["status"] == Status.COMPLETED else None

    def having(self, **columns: Callable[[Row], Any]) -> "Arm":
        """Return the arm with further columns, each computed of a row."""
        rows = tuple({**row, **{name: value(row) for name, value in columns.items()}} for row in self.rows)
        return replace(self, rows=rows)


def arms(rows: Iterable[Row]) -> list[Arm]:
    """Return all arms of one or several studies in the order of their first runs, from the rows of `runs.csv`."""
    rows = list(rows)
    attempts = by_key((_key(row), row["status"]) for row in rows if row["status"] != Status.INTERRUPTED)
    # A simulation is the same on every device.
    lasts = [{**row, "device_name": None} if is_simulated(row) else row for row in last_attempts(rows)]
    columns = equal_columns(dict.fromkeys(name for row in lasts for name in row))
    alone = (row for row in lasts if is_alone(row) and row["status"] == Status.COMPLETED)
    base_lines = by_key((base_line_key(row, columns), row) for row in alone)
    grouped = by_key((_key(row), row) for row in lasts)
    grouped_arms = (
        Arm(key[1], tuple(members), attempts=tuple(attempts.get(key, ()))) for key, members in grouped.items()
    )
    # With `goodput` each run has batches that follow its own times: rates of two arms are those of different batches.
    return [
        arm
        if arm.is_alone or arm.first.get("batch_policy") == BatchPolicy.GOODPUT
        else replace(arm, base_line=tuple(base_lines.get(base_line_key(arm.first, columns), ())))
        for arm in grouped_arms
    ]


def measured(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of results: those of a search, or of fresh seeds, are none."""
    return [row for row in rows if row.get("phase") in (None, Phase.MEASURE)]


def last_attempts(rows: Iterable[Row]) -> list[Row]:
    """Return the row of each run's last attempt, in the order of the runs' first ones, with lists as text.

    Each has its `placement`, too: its mode, or how many workers a host had, or of a table on how many hosts they were.
    """
    last: dict[tuple[Any, str], dict[str, Any]] = {}
    for row in rows:
        run, hosted = (row.get("study"), row["run_id"]), row.get("workers_per_host")
        if run not in last or row["attempt"] > last[run]["attempt"]:
            values = {name: repr(value) if isinstance(value, list | dict) else value for name, value in row.items()}
            on_hosts = counted(row["hosts"], "host") if is_imported(row) and row.get("hosts") else None
            last[run] = values | {"placement": row.get("mode") or (f"{hosted} per host" if hosted else on_hosts)}
    return list(last.values())


def is_alone(row: Row) -> bool:
    """Whether a run is one worker without any communication library: what efficiency is measured by."""
    return bool(row.get("strategy") == "single" and row.get("workers") == 1)


def is_simulated(row: Row) -> bool:
    """Whether a run's times are those of a simulator: exact, however short, and the same on every machine."""
    return row.get("communicator") == "simulated"


def window_needed(rows: Iterable[Row]) -> str:
    """Say how long the timed window of some runs must be for a rate that counts."""
    return f"{MIN_TIMED_STEPS} steps" + f" and {MIN_TIMED_S:g} s" * (not all(map(is_simulated, rows)))


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _worker_rates(rows: Iterable[Row]) -> list[float]:
    return [float(row[WORKER_RATE]) for row in rows if row.get(WORKER_RATE)]


def _key(row: Row) -> tuple[str | None, str]:
    return row.get("study"), arm_name(row["run_id"])


def _repeat(row: Row) -> Repeat:
    if row.get("repeat") is None:
        return (str(row["run_id"]),)
    return f"{row['repeat']:06}", str(row.get("seed"))


def quotient(value: float | None, *divisors: float | None) -> float | None:
    """Return a value of a run / others; None where one is unknown, or zero below."""
    numbers = list(filter(None, divisors))
    return value / math.prod(numbers) if value is not None and len(numbers) == len(divisors) else None


def emulation(texts: Iterable[str | None]) -> str:
    """Return all reasons in cells of `emulated`, each once, joined by `;`; empty where none is."""
    return ";".join(sorted({reason for text in texts for reason in (text or "").split(";") if reason}))


def option_columns(columns: Iterable[str]) -> list[str]:
    """Return those of the columns that hold options of plugins."""
    return [name for name in columns if name.startswith(tuple(f"{prefix}." for prefix in (*OPTION_PREFIXES, IMPORTED)))]


def equal_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """Return those of the columns in which an arm and its base line are equal."""
    return tuple(name for name in columns if name in EQUAL or name.startswith(_EQUAL_OPTIONS))


def base_line_key(row: Row, columns: Sequence[str]) -> Hashable:
    """Return what a run shares with its base line: the study, `equal_columns`, and whether it is emulated.

    A base line is one worker alone with the same key. Emulated and real runs are never compared. A table from elsewhere
    may hold several kinds of hardware.
    """
    device = row.get("device_name") if is_imported(row) else None
    return row.get("study"), bool(row.get("emulated")), device, *map(row.get, columns)


def are_numbers(values: Iterable[object]) -> bool:
    """Whether all known values are numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values if value is not None)


def reported(rows: Sequence[Row]) -> list[str]:
    """Return the columns of what a script reports: numbers that are neither dlbench's nor options; not of too many.

    Scores of training are among them where there are none of validation.
    """
    is_validated = any(row.get(name) is not None for row in rows for name in QUALITY)
    hidden = _OWN if is_validated else _OWN.difference(SCORE_COLUMNS)
    columns = dict.fromkeys(name for row in rows for name in row if name not in hidden and "." not in name)
    values = {name: [row[name] for row in rows if row.get(name) is not None] for name in columns}
    numeric = [name for name, cells in values.items() if cells and are_numbers(cells)]
    return numeric if len(numeric) <= MOST_REPORTED else []


def distinct(rows: Iterable[Row], column: str) -> set[Any]:
    """Return the values that some runs have in a column."""
    return {row.get(column) for row in rows} - {None}


def columns_of(some_arms: Iterable[Arm]) -> tuple[str, ...]:
    """Return the columns of the runs of some arms."""
    return tuple(dict.fromkeys(name for arm in some_arms for name in arm.columns))


def records(runs: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return the rows of a table by column name, unknown values as None; columns without any value are left out."""
    unknown = runs.isna().to_numpy()
    columns: dict[str, list[Any]] = {}
    for index, name in enumerate(runs.columns):
        if not unknown[:, index].all():
            cells = zip(runs.iloc[:, index].tolist(), unknown[:, index].tolist(), strict=True)
            columns[name] = [None if is_unknown else value for value, is_unknown in cells]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
