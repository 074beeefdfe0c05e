"""The result of one node's training: its window, the scores of what it kept in each epoch, and its account."""

import math
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from dlbench.records.result import NodeAccount, Result
from dlbench.scenario.layout import Layout
from dlbench.scenario.run_spec import RunSpec
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Array
from dlbench.worker.step_recorder import StepRecorder
from dlbench.worker.train import common_window
from dlbench.worker.train.agreement import Agreement, compare
from dlbench.worker.train.evaluator import Evaluator
from dlbench.worker.train.node_plan import NodePlan
from dlbench.worker.train.node_scores import Copy, NodeCommunicator, Replica, joined, score
from dlbench.worker.train.nodes import NodeProcess
from dlbench.worker.training_record import Epoch, Scores, TrainingRecord, means_of


@dataclass
class NodeEpoch(Epoch):
    """One worker's epoch, and what it kept when that ended: None where it is not evaluated."""

    ended_at_s: float = -math.inf
    kept: Copy | None = None


@dataclass
class NodeLog:
    """What one node did.

    Attributes:
        epochs: Of the run; the last one takes what is handed out anew in place of gradients that were dropped.
        steps: Steps of a worker.
        step_ends: When each of them ended, on `perf_counter`.
        computed_s: Seconds in which it computed gradients.
        bytes_sent: Bytes in its messages, and those that it moved to and from what worker 0 holds for all.
    """

    epochs: list[NodeEpoch]
    steps: int = 0
    step_ends: list[float] = field(default_factory=list)
    computed_s: float = 0.0
    bytes_sent: int = 0


class NodeConclusion:
    """Makes the account of one node, together with all others.

    Args:
        run: The run.
        layout: Who runs where.
        plan: What all nodes have in common.
        communicator: Connects them.
        reporter: Sends rows and the heartbeat.
        replica: Of a worker; None for others.
        process: The node's messages and updates.
        recorder: Its steps.
        log: What else it did.
        scorer: Of the evaluator; None for others.
    """

    def __init__(
        self,
        run: RunSpec,
        layout: Layout,
        plan: NodePlan,
        communicator: NodeCommunicator,
        reporter: Reporter,
        replica: Replica | None,
        process: NodeProcess,
        recorder: StepRecorder,
        log: NodeLog,
        scorer: Evaluator | None,
    ) -> None:
        self.run, self.plan, self.communicator, self.reporter = run, plan, communicator, reporter
        self.process, self.recorder = process, recorder
        self._layout, self._replica, self._log, self._scorer = layout, replica, log, scorer
        self._record = TrainingRecord(run, reporter)

    def result(self, last: Array) -> Result:
        """Bring together what all nodes know, score what they have kept, and make this node's account; a collective.

        Args:
            last: The node's last parameters.

        Raises:
            Diverged: A loss is not finite, or workers disagree that are to agree.
        """
        self.reporter.phase = "barrier"
        segments = self._window()
        trained_until = self._trained_until()
        ended, totals = self._over_all_nodes(trained_until)
        started = perf_counter()
        scores = self._scores()
        evaluated_s = perf_counter() - started
        if self._layout.evaluator is not None:
            evaluated_s = sum(scored.seconds or 0.0 for scored in scores.values())
        for number, epoch_scores in scores.items():
            epoch_scores.refuse_infinite(f"after epoch {number}")
        if self.plan.agrees:
            self._record.agree(self._agreement(last), "at the end")
        if self._replica is None:
            return Result(steps=0, **self._counts())
        self._add_epochs(ended, totals, scores)
        progress = self._record.progress
        progress.epoch, progress.steps = len(self._log.epochs), self._log.steps
        progress.train_time_s, progress.evaluation_time_s = trained_until, evaluated_s
        return self._account(self._replica, segments)

    def _window(self) -> tuple[Any, ...]:
        zero, process = self.recorder.zero, self.process
        no_more = process.found_no_more_at
        seen = common_window.Seen(
            common_window.relative(process.moments, zero),
            np.asarray(process.samples_of, np.int64),
            common_window.relative(self._log.step_ends, zero),
            None if no_more is None else no_more - zero,
        )
        return common_window.pieces(seen, self.communicator, counts_for_all=self.communicator.rank == 0)

    def _trained_until(self) -> float:
        """Return the training time: until the last update, where servers make them, else until all was over."""
        zero, process = self.recorder.zero, self.process
        is_by_server = self._replica is None and self._counts_updates
        moments = np.array([process.moments[-1] - zero if is_by_server else -np.inf, process.active_at - zero])
        self.communicator.all_reduce(moments, moments, "max")
        return float(moments[0] if np.isfinite(moments[0]) else moments[1])

    def _over_all_nodes(self, trained_until: float) -> tuple[list[float], Array]:
        """Return when each epoch was over on all nodes that hold what is evaluated, and workers' sums and samples."""
        is_scored = self.plan.is_scored(self.communicator.rank)
        ended = np.array([epoch.ended_at_s if is_scored else -np.inf for epoch in self._log.epochs])
        self.communicator.all_reduce(ended, ended, "max")
        sums = np.array([(*epoch.sums.values(), epoch.samples) for epoch in self._log.epochs], np.float64)
        self.communicator.all_reduce(sums, sums)
        return np.minimum(ended, trained_until).tolist(), sums

    def _scores(self) -> dict[int, Scores]:
        """Return the scores by epoch, the evaluator's or those that all workers make of their copies; a collective."""
        self.reporter.phase = "evaluate"
        evaluator, epochs = self._layout.evaluator, self._log.epochs
        if evaluator is None:
            kept = {number: epoch.kept for number, epoch in enumerate(epochs, 1) if epoch.kept is not None}
            size, copies = self.run.settings.evaluation_batch_size, list(kept.values())
            plan, replica = self.plan, self._replica
            scores = score(copies, plan.scores, plan.world, self.communicator, replica, size, self._begin_score)
            return dict(zip(kept, scores, strict=True))
        names = self.plan.scores
        table = np.full((len(epochs), len(names) + 1), np.nan)
        for number, scored in self._scorer.scores.items() if self._scorer is not None else ():
            if number <= len(epochs):
                table[number - 1] = *(scored.means[name] for name in names), scored.seconds
        self.communicator.broadcast(table, evaluator)
        # No sample of them was scored by a worker.
        by_epoch = enumerate(table.tolist(), 1)
        return {
            number: Scores(dict(zip(names, means, strict=True)), 0, own_s)
            for number, (*means, own_s) in by_epoch
            if own_s == own_s  # NaN: it is not scored
        }

    def _add_epochs(self, ended: list[float], totals: Array, scores: dict[int, Scores]) -> None:
        """Record this worker's epochs, with means over all workers, and look at the target."""
        steps = 0
        for epoch, ended_s, (*sums, samples) in zip(self._log.epochs, ended, totals.tolist(), strict=True):
            steps += epoch.steps
            epoch.steps, epoch.train_time_s, epoch.ended_at_s = steps, ended_s, ended_s
            epoch.learning_rate = self.plan.world.rate(epoch.number * self.plan.schedule.steps_per_epoch)
            row = epoch.row(means_of(dict(zip(epoch.sums, sums, strict=True)), samples))
            if (epoch_scores := scores.get(epoch.number)) is not None:
                row |= epoch_scores.cells
                self._record.look_at(row, epoch.number, ended_s)
            self._record.add(row)

    def _begin_score(self) -> None:
        """Say that the next copy is being scored: a run of many is not stalled."""
        self.reporter.step += 1

    def _agreement(self, last: Array) -> Agreement:
        """Compare the last parameters of all nodes; a collective."""
        self.reporter.phase = "agree"
        if self.plan.world.num_servers:
            held = joined(last[np.newaxis], self.plan.world, self.communicator)[0]
        else:
            held = last.copy()
            self.communicator.broadcast(held)
        return compare(held if self._replica is None else last, self.communicator)

    def _account(self, replica: Replica, segments: tuple[Any, ...]) -> Result:
        trainer, data = replica
        return self._record.result(
            samples_dropped=len(self._log.epochs) * self.plan.schedule.dropped_per_epoch,
            train_samples=len(data.train),
            validation_samples=len(data.validation),
            num_parameters=trainer.num_parameters,
            flops_per_sample=trainer.flops_per_sample,
            ready_at=self.recorder.ready_at,
            first_step_s=self.recorder.first_step_s,
            segments=segments,
            learning_rate=self.plan.full_rate,
            **self._counts(),
        )

    def _counts(self) -> dict[str, Any]:
        process = self.process
        return {
            "samples_seen": process.samples,
            "bytes_sent": self._log.bytes_sent,
            "messages": process.sent,
            "updates": len(process.moments),
            "gradients_dropped": process.num_dropped,
            "staleness": tuple(sorted(process.staleness.items())),
            "nodes": (self._node_account(),),
        }

    def _node_account(self) -> NodeAccount:
        process, place = self.process, self._layout.places[self.communicator.rank]
        counts: dict[str, Any] = {}
        if process.found_no_more_at is not None:
            until = process.found_no_more_at - self.recorder.zero
            counts = {
                "steps": self._log.steps,
                "compute_time_s": self._log.computed_s,
                "wait_time_s": max(0.0, until - self._log.computed_s),
                "ended_at_s": until,
            }
        return NodeAccount(
            role=place.role,
            host=self._layout.hosts.index(place.host),
            messages_sent=process.sent,
            messages_received=process.received,
            bytes_sent=self._log.bytes_sent,
            bytes_received=process.bytes_received,
            links=tuple((to, *sent) for to, sent in sorted(process.links.items())),
            **counts,
        )

    @property
    def _counts_updates(self) -> bool:
        """Whether the updates that this node has made are those of all, or a part of them."""
        return bool(self.process.moments)
