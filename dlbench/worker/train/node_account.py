"""The result of one node's training: its window, the scores of what it kept in each epoch, and its account."""

from time import perf_counter
from typing import Any

import numpy as np

from dlbench.records.result import NodeAccount, Result, Segment
from dlbench.trainers import Array
from dlbench.worker.train import common_window
from dlbench.worker.train.agreement import Agreement, compare
from dlbench.worker.train.node_run import NodeRun
from dlbench.worker.train.node_scores import joined, score
from dlbench.worker.training_record import Scores, TrainingRecord, means_of


def conclude(node: NodeRun, last: Array) -> Result:
    """Bring together what all nodes know, score what they have kept, and make this node's account; a collective.

    Args:
        node: Has trained.
        last: Its last parameters.

    Raises:
        Diverged: A loss is not finite, or workers disagree that are to agree.
    """
    record = TrainingRecord(node.run, node.reporter)
    node.reporter.phase = "barrier"
    segments = _window(node)
    trained_until = _trained_until(node)
    ended, totals = _over_all_nodes(node, trained_until)
    started = perf_counter()
    scores = _scores(node)
    evaluated_s = perf_counter() - started
    if node.layout.evaluator is not None:
        evaluated_s = sum(scored.seconds or 0.0 for scored in scores.values())
    for number, epoch_scores in scores.items():
        epoch_scores.refuse_infinite(f"after epoch {number}")
    if node.plan.needs.agrees:
        record.agree(_agreement(node, last), "at the end")
    if node.replica is None:
        return Result(steps=0, **_counts(node))
    _add_epochs(node, record, ended, totals, scores)
    progress = record.progress
    progress.epoch, progress.steps = len(node.epochs), node.steps
    progress.train_time_s, progress.evaluation_time_s = trained_until, evaluated_s
    trainer, data = node.replica
    return record.result(
        samples_dropped=len(node.epochs) * node.plan.schedule.dropped_per_epoch,
        train_samples=len(data.train),
        validation_samples=len(data.validation),
        num_parameters=trainer.num_parameters,
        flops_per_sample=trainer.flops_per_sample,
        ready_at=node.recorder.ready_at,
        first_step_s=node.recorder.first_step_s,
        segments=segments,
        learning_rate=node.plan.full_rate,
        **_counts(node),
    )


def _window(node: NodeRun) -> tuple[Segment, ...]:
    zero, process = node.recorder.zero, node.process
    no_more = process.found_no_more_at
    return common_window.pieces(
        node.communicator,
        updates_s=np.asarray(process.moments, np.float64) - zero,
        samples=np.asarray(process.samples_of, np.int64),
        steps_s=np.asarray(node.step_ends, np.float64) - zero,
        found_no_more_s=None if no_more is None else no_more - zero,
        counts_for_all=node.communicator.rank == 0,
    )


def _trained_until(node: NodeRun) -> float:
    """Return the training time: until the last update, where servers make them, else until all was over."""
    zero, process = node.recorder.zero, node.process
    is_by_server = node.replica is None and bool(process.moments)
    moments = np.array([process.moments[-1] - zero if is_by_server else -np.inf, process.active_at - zero])
    node.communicator.all_reduce(moments, moments, "max")
    return float(moments[0] if np.isfinite(moments[0]) else moments[1])


def _over_all_nodes(node: NodeRun, trained_until: float) -> tuple[list[float], Array]:
    """Return when each epoch was over on all nodes that hold what is evaluated, and workers' sums and samples."""
    is_scored = node.plan.is_scored(node.communicator.rank)
    ended = np.array([epoch.ended_at_s if is_scored else -np.inf for epoch in node.epochs])
    node.communicator.all_reduce(ended, ended, "max")
    sums = np.array([(*epoch.sums.values(), epoch.samples) for epoch in node.epochs], np.float64)
    node.communicator.all_reduce(sums, sums)
    return np.minimum(ended, trained_until).tolist(), sums


def _scores(node: NodeRun) -> dict[int, Scores]:
    """Return the scores by epoch, the evaluator's or those that all workers make of their copies; a collective."""
    node.reporter.phase = "evaluate"
    evaluator, epochs = node.layout.evaluator, node.epochs
    if evaluator is None:
        kept = {number: epoch.kept for number, epoch in enumerate(epochs, 1) if epoch.kept is not None}
        size, copies = node.run.settings.evaluation_batch_size, list(kept.values())
        plan, replica = node.plan, node.replica

        def begin() -> None:
            node.reporter.step += 1  # a run of many copies is not stalled

        scores = score(copies, plan.scores, plan.world, node.communicator, replica, size, begin)
        return dict(zip(kept, scores, strict=True))
    names = node.plan.scores
    table = np.full((len(epochs), len(names) + 1), np.nan)
    for number, scored in node.scorer.scores.items() if node.scorer is not None else ():
        if number <= len(epochs):
            table[number - 1] = *(scored.means[name] for name in names), scored.seconds
    node.communicator.broadcast(table, evaluator)
    # No sample of them was scored by a worker.
    by_epoch = enumerate(table.tolist(), 1)
    return {
        number: Scores(dict(zip(names, means, strict=True)), 0, own_s)
        for number, (*means, own_s) in by_epoch
        if own_s == own_s  # NaN: it is not scored
    }


def _add_epochs(
    node: NodeRun, record: TrainingRecord, ended: list[float], totals: Array, scores: dict[int, Scores]
) -> None:
    """Record this worker's epochs, with means over all workers, and look at the target."""
    steps = 0
    for epoch, ended_s, (*sums, samples) in zip(node.epochs, ended, totals.tolist(), strict=True):
        steps += epoch.steps
        epoch.steps, epoch.train_time_s, epoch.ended_at_s = steps, ended_s, ended_s
        epoch.learning_rate = node.plan.world.rate(epoch.number * node.plan.schedule.steps_per_epoch)
        row = epoch.row(means_of(dict(zip(epoch.sums, sums, strict=True)), samples))
        if (epoch_scores := scores.get(epoch.number)) is not None:
            row |= epoch_scores.cells
            record.look_at(row, epoch.number, ended_s)
        record.add(row)


def _agreement(node: NodeRun, last: Array) -> Agreement:
    """Compare the last parameters of all nodes; a collective."""
    node.reporter.phase = "agree"
    if node.plan.world.num_servers:
        held = joined(last[np.newaxis], node.plan.world, node.communicator)[0]
    else:
        held = last.copy()
        node.communicator.broadcast(held)
    return compare(held if node.replica is None else last, node.communicator)


def _counts(node: NodeRun) -> dict[str, Any]:
    process, place = node.process, node.layout.places[node.communicator.rank]
    work: dict[str, Any] = {}
    if process.found_no_more_at is not None:
        until = process.found_no_more_at - node.recorder.zero
        work = {
            "steps": node.steps,
            "compute_time_s": node.computed_s,
            "wait_time_s": max(0.0, until - node.computed_s),
            "ended_at_s": until,
        }
    account = NodeAccount(
        role=place.role,
        host=node.layout.hosts.index(place.host),
        messages_sent=process.sent,
        messages_received=process.received,
        bytes_sent=node.bytes_sent,
        bytes_received=process.bytes_received,
        links=tuple((to, *sent) for to, sent in sorted(process.links.items())),
        **work,
    )
    return {
        "samples_seen": process.samples,
        "bytes_sent": node.bytes_sent,
        "messages": process.sent,
        "updates": len(process.moments),
        "gradients_dropped": process.num_dropped,
        "staleness": tuple(sorted(process.staleness.items())),
        "nodes": (account,),
    }
