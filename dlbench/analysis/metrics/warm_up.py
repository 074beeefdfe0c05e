"""Cuts the warm-up off what an attempt's workers recorded: the rule is that of `dlbench.records.warm_up`.

Workers record all steps after the first as `timed` or `extended`, in pieces between barriers, and `sampled` ones
between pieces. Only here is the truncation found that all workers share, since a user's script cannot ask the others.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dlbench.analysis.metrics import rates
from dlbench.records.columns import FIELD, PHASE
from dlbench.records.result import Result, Segment
from dlbench.records.warm_up import batch_medians, pieces_left_out, truncation
from dlbench.telemetry.journal import Journal, Rows

# Moments are differences of `perf_counter`: what they differ by less than is rounding.
ROUNDING_S = 1e-6


def without_warm_up(journal: Journal) -> tuple[Journal, bool | None]:
    """Return the journal with the warm-up's steps in a phase of their own, and only the window's pieces in results.

    Where the pieces of a worker do not hold its rows, or workers saw different pieces, none are left: no rate can be
    made. Where a worker handed in no result, the truncation is not rounded up to whole pieces.

    Returns:
        The journal, and whether step times had settled; None where there are too few steps to say.
    """
    # A simulator has left the warm-up out itself.
    results = journal.results.values()
    if results and all(any(piece.simulated for piece in result.segments) for result in results):
        return journal, None
    times = [rates.single_steps(rates.in_window(rows))[:, 0] for rows in journal.steps.values()]
    # The steps that all workers made; where the batch has changed, other step times are no sign of a warm-up.
    common = 0 if journal.batch_changes else min(map(len, times), default=0)
    batches = [batch_medians(worker[:common]) for worker in times]
    warm_up = truncation(np.max(batches, axis=0) if batches else np.empty(0))
    if any(piece.common for result in results for piece in result.segments):
        kept, steps = _of_common_pieces(journal, warm_up.steps)
    else:
        pieces = _pieces(journal.results, journal.steps)
        left_out = pieces_left_out(pieces, warm_up.steps)
        warmup_steps = sum(pieces[:left_out]) if pieces else warm_up.steps
        kept = {rank: of_worker.segments[left_out:] if pieces else () for rank, of_worker in journal.results.items()}
        steps = {worker: _relabelled(rows, warmup_steps) for worker, rows in journal.steps.items()}
    left = {rank: of_worker.model_copy(update={"segments": kept[rank]}) for rank, of_worker in journal.results.items()}
    return replace(journal, results=left, steps=steps), warm_up.detected


def _of_common_pieces(journal: Journal, warmup_steps: int) -> tuple[dict[int, tuple[Segment, ...]], dict[int, Rows]]:
    """Return the pieces and rows of workers that do not wait for each other: pieces from where all of them are warm.

    Steps that are not inside the pieces that are left are warm-up, or where they come after, of no window.
    """
    warm_at = max((_warm_at(rows, warmup_steps) for rows in journal.steps.values()), default=0.0)
    kept = {
        rank: tuple(piece for piece in result.segments if piece.opened_at_s >= warm_at - ROUNDING_S)
        for rank, result in journal.results.items()
    }
    left = next(filter(None, kept.values()), ())
    opened, closed = (left[0].opened_at_s, left[-1].closed_at_s) if left else (np.inf, np.inf)
    steps = {worker: _outside(rows, opened, closed) for worker, rows in journal.steps.items()}
    # A step may end within rounding of an update that cuts: it is counted where its row is.
    counted = {rank: _counted(pieces, steps[rank]) if rank in steps else pieces for rank, pieces in kept.items()}
    return counted, steps


def _counted(pieces: tuple[Segment, ...], rows: Rows) -> tuple[Segment, ...]:
    """Return pieces with as many steps as there are rows of the window that ended in each."""
    edges = np.array([*(piece.opened_at_s for piece in pieces), *(piece.closed_at_s for piece in pieces[-1:])])
    counts = np.diff(np.searchsorted(rates.ended_at(rates.in_window(rows)), edges + ROUNDING_S, "right"))
    return tuple(piece.model_copy(update={"steps": int(n)}) for piece, n in zip(pieces, counts, strict=True))


def _warm_at(rows: Rows, warmup_steps: int) -> float:
    """Return when a worker's first step and this many after it were over."""
    inside = rates.in_window(rows)[:warmup_steps]
    return float(rates.ended_at(inside if len(inside) else rows[:1])[-1])


def _outside(rows: Rows, opened: float, closed: float) -> Rows:
    """Return the rows with other phases for steps that ended before a window opened, or after it closed."""
    ended = rates.ended_at(rows)
    is_counted = np.isin(rows[:, FIELD["phase"]], rates.IN_WINDOW)
    labelled = rows.copy()
    labelled[is_counted & (ended <= opened + ROUNDING_S), FIELD["phase"]] = PHASE["warm-up"]
    labelled[is_counted & (ended > closed + ROUNDING_S), FIELD["phase"]] = PHASE["remainder"]
    return labelled


def _pieces(results: Mapping[int, Result], steps: Mapping[int, Rows]) -> list[int]:
    """Return the steps of each piece; none where they are not the same for all workers, or do not hold their rows."""
    counts = [[piece.steps for piece in result.segments] for result in results.values()]
    if not counts or set(results) != set(steps) or any(pieces != counts[0] for pieces in counts):
        return []
    for worker, result in results.items():
        rows = rates.in_window(steps[worker])
        if rates.count_steps(rows, "timed", "extended") != sum(counts[0]):
            return []
        started, ended = rows[:, FIELD["started_at_s"]], rates.ended_at(rows)
        of_pieces = np.diff(rates.last_rows(result.segments, rows), prepend=-1)
        opened = np.repeat([piece.opened_at_s for piece in result.segments], of_pieces)
        closed = np.repeat([piece.closed_at_s for piece in result.segments], of_pieces)
        if not (np.all(started >= opened - ROUNDING_S) and np.all(ended <= closed + ROUNDING_S)):
            return []
    return counts[0]


def _relabelled(rows: Rows, warmup_steps: int) -> Rows:
    """Return the rows with the phase `warm-up` for the first steps of the window and what was sampled among them."""
    phases = rows[:, FIELD["phase"]]
    counted = np.where(np.isin(phases, rates.IN_WINDOW), rows[:, FIELD["num_steps"]], 0)
    before = np.cumsum(counted) - counted
    labelled = rows.copy()
    is_early = (before < warmup_steps) & np.isin(phases, (*rates.IN_WINDOW, PHASE["sampled"]))
    labelled[is_early, FIELD["phase"]] = PHASE["warm-up"]
    return labelled
