"""What a throughput is: samples of all workers / common time, inside windows that open and close at barriers.

The rows and results here are those of `dlbench.analysis.metrics.warm_up`, which has cut the warm-up off.

Each worker's clock has its own zero (its first step), so moments of different workers are never compared. A
piece of the window opens and closes at a barrier: it took as long as it took for the slowest worker to see it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dlbench.records.columns import FIELD, PHASE
from dlbench.records.result import MIN_TIMED_S, MIN_TIMED_STEPS, Result, Segment
from dlbench.telemetry.journal import Rows

# Share of a worker's window above which what it waited for evaluations of others shows in its steps.
MUCH_WAITED = 0.01
IN_WINDOW = (PHASE["timed"], PHASE["extended"])


def window(results: Collection[Result]) -> dict[str, Any]:
    """Return the timed window of all workers' results by column of `runs.csv`; empty where there is none.

    There is none either where workers saw different pieces. Its time is the sum of the longest that any worker saw of
    each piece. Where workers differ in steps, the fewest count, or of workers that do not wait the mean. The rate is
    None below 50 steps or 5 s, or of unknown samples; a simulator's seconds are exact, however few.
    """
    counts = {len(result.segments) for result in results}
    if len(counts) != 1 or counts == {0}:
        return {}
    pieces = list(zip(*(result.segments for result in results), strict=True))
    every = [seen for piece in pieces for seen in piece]
    of_workers = [sum(seen.steps for seen in result.segments) for result in results]
    steps = sum(of_workers) // len(of_workers) if all(seen.common for seen in every) else min(of_workers)
    samples = sum(seen.samples for seen in every)
    time_s = sum(max(seen.seconds for seen in piece) for piece in pieces)
    is_long = steps >= MIN_TIMED_STEPS and (time_s >= MIN_TIMED_S or all(seen.simulated for seen in every))
    return {
        "timed_window_s": time_s,
        "timed_steps": steps,
        "timed_samples": samples,
        "extended_steps": min(sum(seen.steps for seen in result.segments if seen.extended) for result in results),
        "samples_per_s": samples / time_s if is_long and time_s and samples else None,
    }


def between_steps(results: Collection[Result], steps: Collection[Rows]) -> tuple[float | None, float | None]:
    """Return what no step of the window holds, each mean over workers: time between steps, and at closing barriers.

    Between steps is from a piece's opening to its first step, from the end of one step to the start of the next, and
    from the last one to where the closing barrier begins. None where there is no window, or that moment is unknown.
    """
    if not results or not all(any(piece.steps for piece in result.segments) for result in results):
        return None, None
    parts = []
    for result, rows in zip(results, map(in_window, steps), strict=True):
        pieces = [piece for piece in result.segments if piece.steps]  # a worker that does not wait may have none
        moments = [(piece.opened_at_s, piece.closing_at_s, piece.closed_at_s) for piece in pieces]
        opened, closing, closed = np.array(moments, np.float64).T
        started, ended = rows[:, FIELD["started_at_s"]], ended_at(rows)
        last = last_rows(pieces, rows)
        before = np.concatenate([[np.nan], ended[:-1]])
        before[np.concatenate([[0], last[:-1] + 1])] = opened
        paused_s = sum(piece.paused_s for piece in pieces)
        parts.append(((started - before).sum() + (closing - ended[last]).sum() - paused_s, (closed - closing).sum()))
    between, waiting = np.mean(parts, axis=0)
    return (None, None) if np.isnan(between) else (float(between), float(waiting))


def drift(steps: Collection[Rows]) -> float | None:
    """Return the rate of the window's second half / that of the first half - 1, by samples and times of all workers.

    Halves have equal numbers of steps; of an odd number the middle one is in none. None where a worker has fewer than
    two steps in the window.
    """
    workers = [single_steps(in_window(rows)) for rows in steps]
    if not workers or any(len(worker) < 2 for worker in workers):
        return None
    halves = zip(*((worker[: len(worker) // 2], worker[-(len(worker) // 2) :]) for worker in workers), strict=True)
    (first_s, first), (second_s, second) = (np.concatenate(half).sum(axis=0).tolist() for half in halves)
    return second * first_s / (first * second_s) - 1 if first and second_s else None


def last_rows(pieces: Iterable[Segment], rows: Rows) -> npt.NDArray[np.intp]:
    """Return which row of the window is the last one of each piece: [pieces]."""
    return np.searchsorted(np.cumsum(rows[:, FIELD["num_steps"]]), np.cumsum([piece.steps for piece in pieces]))


def ended_at(rows: Rows) -> Rows:
    """Return when each step ended, in seconds since the worker's first step began."""
    return np.asarray(rows[:, FIELD["started_at_s"]] + rows[:, FIELD["step_time_s"]])


def in_window(rows: Rows) -> Rows:
    """Return the step rows that lie inside the timed window."""
    return in_phase(rows, "timed", "extended")


def in_phase(rows: Rows, *phases: str) -> Rows:
    """Return the step rows of some phases."""
    return np.asarray(rows[np.isin(rows[:, FIELD["phase"]], [PHASE[phase] for phase in phases])])


def without_waits(results: Mapping[int, Result], steps: Mapping[int, Rows]) -> list[Rows]:
    """Return the step rows of the workers whose steps did not wait for evaluations of others."""

    def has_waited(worker: int) -> bool:
        pieces = results[worker].segments if worker in results else ()
        return sum(piece.waited_s for piece in pieces) > MUCH_WAITED * sum(piece.seconds for piece in pieces)

    return [rows for worker, rows in steps.items() if not has_waited(worker)]


def step_time_percentiles(steps: Iterable[Rows]) -> tuple[float | None, float | None]:
    """Return the 50th and 95th percentile of the time of one step inside the window, all workers' steps together.

    None where a row stands for several steps: how their time was divided was not measured.
    """
    inside = np.concatenate([np.empty((0, len(FIELD))), *map(in_window, steps)])
    if not len(inside) or np.any(inside[:, FIELD["num_steps"]] > 1):
        return None, None
    p50, p95 = np.percentile(inside[:, FIELD["step_time_s"]], [50, 95]).tolist()
    return p50, p95


def time_in_window(steps: Collection[Rows], name: str) -> float | None:
    """Return one part of the steps inside the window, such as `data_wait_s`: its sum, mean over workers.

    None where a worker has no step in the window, or a step in which the part could not be observed.
    """
    parts = [in_window(rows)[:, FIELD[name]] for rows in steps]
    if not parts or any(not len(part) or np.isnan(part).any() for part in parts):
        return None
    return float(np.mean([part.sum() for part in parts]))


def single_steps(rows: Rows) -> Rows:
    """Return the time and the samples of each step: [steps, 2]; of rows that stand for several, as many equal parts."""
    counts = rows[:, FIELD["num_steps"]]
    parts = rows[:, [FIELD["step_time_s"], FIELD["num_samples"]]] / counts[:, np.newaxis]
    return np.repeat(parts, counts.astype(np.int64), axis=0)


def in_marked_steps(steps: Collection[Rows], name: str) -> float | None:
    """Return one part of the marked steps: the median of each worker, mean over workers; None where one has none.

    Of `peer_wait_s` it is the wait for the slowest peer, of `communication_time_s` the all-reduce after all were ready:
    the barrier's wait is no part of a marked step's communication (see `dlbench.worker.step_recorder`).
    """
    parts = [in_phase(rows, "sampled")[:, FIELD[name]] for rows in steps]
    marked = [part[~np.isnan(part)] for part in parts]
    return float(np.mean([np.median(part) for part in marked])) if marked and all(map(len, marked)) else None


def count_steps(rows: Rows, *phases: str) -> int:
    """Return the number of steps in some phases."""
    return int(in_phase(rows, *phases)[:, FIELD["num_steps"]].sum())
