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
from dlbench.trainers import Array, Sums
from dlbench.worker.recorder import StepRecorder
from dlbench.worker.train import common_window
from dlbench.worker.train.agreement import Agreement, Diverged, compare
from dlbench.worker.train.evaluation import Scores, last_scores
from dlbench.worker.train.evaluator import Evaluator
from dlbench.worker.train.node_plan import NodePlan
from dlbench.worker.train.node_scores import Copy, NodeCommunicator, Replica, joined, score
from dlbench.worker.train.nodes import NodeProcess


@dataclass
class NodeEpoch:
    """One worker's sums over an epoch, and what it kept when that ended: None where it is not evaluated."""

    sums: Sums
    samples: int = 0
    steps: int = 0
    ended_at: float = -math.inf
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
        ended, losses = self._over_all_nodes(trained_until)
        started = perf_counter()
        scores = self._scores()
        evaluated_s = perf_counter() - started
        if self._layout.evaluator is not None:
            evaluated_s = sum(scored.seconds or 0.0 for scored in scores.values())
        rows = self._rows(ended, losses, scores)
        agreement = self._agree(last)
        for row in rows if self._replica is not None else ():
            self.reporter.send_epoch(row)
        return self._account(rows, segments, trained_until, evaluated_s, agreement)

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
        zero = self.recorder.zero
        ended = np.array(
            [
                epoch.ended_at - zero if self.plan.is_scored(self.communicator.rank) else -np.inf
                for epoch in self._log.epochs
            ]
        )
        self.communicator.all_reduce(ended, ended, "max")
        sums = np.array([(*epoch.sums.values(), epoch.samples) for epoch in self._log.epochs], np.float64)
        self.communicator.all_reduce(sums, sums)
        return np.minimum(ended, trained_until).tolist(), sums

    def _scores(self) -> dict[int, Scores]:
        """Return the scores by epoch: the evaluator's, or those that all workers make of what was kept; a collective.

        Raises:
            Diverged: A loss is not finite.
        """
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

    def _rows(self, ended: list[float], sums: Array, scores: dict[int, Scores]) -> list[dict[str, Any]]:
        """Return this worker's rows of `epochs.csv`."""
        rows, steps = [], 0
        for number, (epoch, ended_s, (*totals, samples)) in enumerate(
            zip(self._log.epochs, ended, sums.tolist(), strict=True), 1
        ):
            steps += epoch.steps
            row: dict[str, Any] = {
                "epoch": number,
                "steps": steps,
                "samples": epoch.samples,
                "learning_rate": self.plan.world.rate(number * self.plan.schedule.steps_per_epoch),
                "train_time_s": ended_s,
                "ended_at_s": ended_s,
                **{
                    f"train_{name}": total / samples if samples else None
                    for name, total in zip(epoch.sums, totals, strict=True)
                },
            }
            if (scored := scores.get(number)) is not None:
                row |= scored.cells
            rows.append(row)
        return rows

    def _begin_score(self) -> None:
        """Say that the next copy is being scored: a run of many is not stalled."""
        self.reporter.step += 1

    def _agree(self, last: Array) -> Agreement | None:
        """Compare the last parameters of all nodes, where the strategy promises that they are the same; a collective.

        Raises:
            Diverged: They are not.
        """
        if not self.plan.agrees:
            return None
        self.reporter.phase = "agree"
        if self.plan.world.num_servers:
            held = joined(last[np.newaxis], self.plan.world, self.communicator)[0]
        else:
            held = last.copy()
            self.communicator.broadcast(held)
        agreement = compare(held if self._replica is None else last, self.communicator)
        if agreement.verdict == "no":
            raise Diverged(
                f"workers disagree at the end: their weights differ by up to {agreement.max_difference:.3g}; the "
                "strategy does not synchronise them"
            )
        return agreement

    def _account(
        self,
        rows: list[dict[str, Any]],
        segments: tuple[Any, ...],
        trained_until: float,
        evaluated_s: float,
        agreement: Agreement | None,
    ) -> Result:
        process, plan = self.process, self.plan
        counts: dict[str, Any] = {
            "samples_seen": process.samples,
            "bytes_sent": self._log.bytes_sent,
            "messages": process.sent,
            "updates": len(process.moments),
            "gradients_dropped": process.num_dropped,
            "staleness": tuple(sorted(process.staleness.items())),
            "nodes": (self._node_account(),),
        }
        if self._replica is None:
            return Result(steps=0, **counts)
        trainer, data = self._replica
        reached = next((row for row in rows if "validation_loss" in row and self.run.reaches_target(row)), None)
        return Result(
            steps=self._log.steps,
            epochs_completed=len(self._log.epochs),
            samples_dropped=len(self._log.epochs) * plan.schedule.dropped_per_epoch,
            train_samples=len(data.train),
            validation_samples=len(data.validation),
            num_parameters=trainer.num_parameters,
            flops_per_sample=trainer.flops_per_sample,
            ready_at=self.recorder.ready_at,
            first_step_s=self.recorder.first_step_s,
            train_time_s=trained_until,
            evaluation_time_s=evaluated_s,
            segments=segments,
            scores=last_scores(rows),
            time_to_target_s=reached and reached["train_time_s"],
            epochs_to_target=reached and reached["epoch"],
            learning_rate=plan.full_rate,
            agreement=agreement and agreement.verdict,
            max_difference=agreement and agreement.max_difference,
            weights_hash=agreement and agreement.weights_hash,
            **counts,
        )

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
