"""One process of a run whose strategy is made of nodes: it trains or serves, and in the end scores with the others.

Nobody waits for an evaluation: parameters are copied when an epoch ends, with the moment, and scored after training.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from dlbench.errors import UserError
from dlbench.records.result import NodeAccount, Result
from dlbench.scenario.layout import Layout
from dlbench.scenario.run_spec import RunSpec
from dlbench.strategies._protocol import ServerNode, WorkerNode
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Array
from dlbench.worker.observer import Observer
from dlbench.worker.recorder import NAN, StepRecorder, StepTimestamps
from dlbench.worker.train import common_window
from dlbench.worker.train.agreement import Agreement, Diverged, compare
from dlbench.worker.train.loop import ANNOUNCE_S
from dlbench.worker.train.node_plan import NodePlan
from dlbench.worker.train.node_scores import Copy, NodeCommunicator, Replica, joined, score
from dlbench.worker.train.nodes import NodeProcess, meet
from dlbench.worker.train.schedule import HandedOut, Ticket

# Copies of parameters that one process may keep until they are scored.
MOST_KEPT_BYTES = 4 * 2**30
_NOTHING: Array = np.empty(0)


@dataclass
class _Epoch:
    """One worker's sums over an epoch, and what it kept when that ended: None where it is not evaluated."""

    loss_sum: float = 0.0
    correct: float = 0.0
    samples: int = 0
    steps: int = 0
    ended_at: float = -math.inf
    kept: Copy | None = None


class NodeRun:
    """One node in its process, from its first barrier to its account.

    Args:
        run: The run.
        layout: Who runs where.
        plan: Makes the nodes.
        communicator: Connects all nodes: workers, then servers.
        reporter: Sends rows and the heartbeat.
        observer: Reads the sensors.
        replica: Of a worker; None for a server.

    Raises:
        UserError: Copies of the parameters would take too much memory until they are scored.
    """

    def __init__(
        self,
        run: RunSpec,
        layout: Layout,
        plan: NodePlan,
        communicator: NodeCommunicator,
        reporter: Reporter,
        observer: Observer,
        replica: Replica | None,
    ) -> None:
        self.run, self.plan, self.communicator, self.reporter, self.observer = (
            run, plan, communicator, reporter, observer,
        )  # fmt: skip
        self._layout, self._replica = layout, replica
        first = plan.world.parameters
        self._memory = communicator.share(first) if plan.shares_memory else None
        self.process = NodeProcess(communicator, first.dtype, self._memory)
        self.recorder = StepRecorder(reporter, run.limits.flush_interval_s)
        # The last one takes what is handed out anew in place of gradients that were dropped.
        self._epochs = [_Epoch() for _ in range(run.epochs_per_worker)]
        self._num_ended = self._steps = 0
        self._step_ends: list[float] = []
        # When the step under way began, had its batch, the parameters, and its gradient; its mean loss.
        self._moments = (0.0, 0.0, 0.0, 0.0)
        self._loss: float | None = None
        self._computed_s = 0.0
        self._refuse_too_many_copies()

    def train(self) -> Result:
        """Train or serve, evaluate, and return this node's account.

        Raises:
            Diverged: A loss is not finite, or workers disagree that are to agree.
        """
        world, rank, process = self.plan.world, self.communicator.rank, self.process
        if isinstance(self.plan.schedule, HandedOut) and rank == self._dispenser:
            process.hand_out(self.plan.schedule)
        self._rehearse()
        self.reporter.phase = "barrier"
        self.reporter.drain(ANNOUNCE_S)
        meet(self.communicator)
        self.observer.baseline()
        meet(self.communicator)
        self.communicator.barrier()  # which all leave at the same moment
        self.recorder.start(self.observer.zero)
        try:
            if self._replica is not None:
                node = self.plan.worker(rank, process.port)
                self._train(node, self._replica)
                last = node.begin()
            else:
                server = self.plan.server(rank - world.num_workers, process.port)
                self._serve(server)
                last = server.parameters
        finally:
            self.recorder.flush()
        self.observer.mark()
        return self._conclude(last)

    @property
    def _dispenser(self) -> int:
        """The node that hands out samples: a server, which is there to answer, or else worker 0."""
        world = self.plan.world
        return world.server(0) if world.num_servers else 0

    @property
    def _is_scored(self) -> bool:
        """Whether what is scored is made of this node's parameters: a server's where there are any, else a worker's."""
        return (self._replica is None) == bool(self.plan.world.num_servers)

    @property
    def _counts_updates(self) -> bool:
        """Whether the updates that this node has made are those of all, or a part of them."""
        return bool(self.process.moments)

    def _train(self, node: WorkerNode, replica: Replica) -> None:
        schedule, process, rank = self.plan.schedule, self.process, self.communicator.rank
        if isinstance(schedule, HandedOut):
            if rank != self._dispenser:
                process.ask(self._dispenser)
            next_ticket: Callable[[], Ticket | None] = lambda: process.next_handed_out(schedule)  # noqa: E731
        else:
            next_ticket = lambda: schedule.next(rank)  # noqa: E731

        def next_in_epoch() -> Ticket | None:
            self._moments = (perf_counter(), NAN, NAN, NAN)
            ticket = next_ticket()
            epoch = len(self._epochs) if ticket is None else min(ticket.epoch, len(self._epochs))
            self._end_epochs(epoch - 1, node)
            if ticket is None:
                self.reporter.phase = "barrier"
            return ticket

        process.train(node, next_in_epoch, self._gradient_with(replica), self._end_step)
        node.begin()  # which takes what has come for it
        self._end_epochs(len(self._epochs), node)

    def _gradient_with(self, replica: Replica) -> Callable[[Ticket, Array], Array]:
        trainer, batches = replica.trainer, replica.data.batches or replica.data.batch

        def gradient(ticket: Ticket, parameters: Array) -> Array:
            share, reporter = ticket.share, self.reporter
            x, y = batches(share, ticket.epoch)
            batch_ready = perf_counter()
            trainer.set_parameters(parameters)
            reporter.phase = "compute"
            taken_over = perf_counter()
            sums = self._epochs[min(ticket.epoch, len(self._epochs)) - 1]
            if len(y):
                found, loss_sum, correct = trainer.gradient(x, y, 1 / len(y))
                values = found.copy()
            else:
                values, loss_sum, correct = np.zeros_like(parameters), 0.0, 0.0
            sums.loss_sum += loss_sum
            sums.correct += correct
            sums.samples += len(y)
            sums.steps += 1
            self._loss = loss_sum / len(y) if len(y) else None
            gradient_ready = perf_counter()
            self._computed_s += gradient_ready - taken_over
            self._moments = (self._moments[0], batch_ready, taken_over, gradient_ready)
            reporter.phase = "all_reduce"
            return values

        return gradient

    def _end_step(self, ticket: Ticket) -> None:
        """Record the step that is over: the next one may begin."""
        started, batch_ready, taken_over, gradient_ready = self._moments
        now = perf_counter()
        # The model takes parameters over before it computes; the row has that as the update, at the end.
        update_s = taken_over - batch_ready
        self._steps += 1
        self._step_ends.append(now)
        # Smaller last steps lie in the window, too: nobody waits at a barrier before them.
        phase = "first" if self._steps == 1 else "timed"
        timestamps = StepTimestamps(started, batch_ready, gradient_ready - update_s, NAN, now - update_s, now)
        epoch = min(ticket.epoch, len(self._epochs))
        self.recorder.add(self._steps, epoch, phase, len(ticket.share.indices), timestamps, self._loss)
        self.reporter.phase = "data"

    def _serve(self, node: ServerNode) -> None:
        """Serve, and copy the parameters when they have had an epoch's samples."""
        per_epoch, reporter = self.plan.schedule.samples_per_epoch, self.reporter
        reporter.phase = "serve"

        def look() -> None:
            reporter.step += 1
            # The last epoch ends when all is over: what was dropped may come late, or never.
            self._end_epochs(min(node.samples // per_epoch, len(self._epochs) - 1), node)

        self.process.serve(node, look)
        self._end_epochs(len(self._epochs), node)

    def _end_epochs(self, last: int, node: WorkerNode | ServerNode) -> None:
        """Note that all epochs up to one are over, and keep what is to be scored of them."""
        every, epochs = self.run.settings.evaluate_every, len(self._epochs)
        while self._num_ended < last:
            ended = self._epochs[self._num_ended]
            self._num_ended += 1
            ended.ended_at = perf_counter()
            if self._num_ended % every == 0 or self._num_ended == epochs:
                statistics = np.empty(0) if self._replica is None else self._replica.trainer.statistics()
                ended.kept = Copy(node.parameters.copy() if self._is_scored else _NOTHING, statistics)

    def _rehearse(self) -> None:
        """Let the trainer compile for the sizes of batches that only end an epoch: it would delay others later."""
        rehearse = None if self._replica is None else getattr(self._replica.trainer, "rehearse", None)
        if self._replica is None or rehearse is None:
            return
        self.reporter.phase = "compile"
        batches = self._replica.data.batches or self._replica.data.batch
        for share in self.plan.schedule.remainders(self.communicator.rank):
            rehearse(*batches(share, 1), 1 / len(share.indices))

    def _conclude(self, last: Array) -> Result:
        """Bring together what all nodes know, score what they have kept, and make this node's account; a collective."""
        self.reporter.phase = "barrier"
        segments = self._window()
        trained_until = self._trained_until()
        ended, losses = self._over_all_nodes(trained_until)
        started = perf_counter()
        rows = self._rows(ended, losses)
        evaluated_s = perf_counter() - started
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
            common_window.relative(self._step_ends, zero),
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
        """Return when each epoch was over on all nodes that hold what is evaluated, and sums [epochs, 3] of workers."""
        zero = self.recorder.zero
        ended = np.array([one.ended_at - zero if self._is_scored else -np.inf for one in self._epochs])
        self.communicator.all_reduce(ended, ended, "max")
        sums = np.array([(one.loss_sum, one.correct, one.samples) for one in self._epochs], np.float64)
        self.communicator.all_reduce(sums, sums)
        return np.minimum(ended, trained_until).tolist(), sums

    def _rows(self, ended: list[float], sums: Array) -> list[dict[str, Any]]:
        """Return this worker's rows of `epochs.csv`, with the scores of what was kept; a collective."""
        self.reporter.phase = "evaluate"
        kept = [one.kept for one in self._epochs if one.kept is not None]
        size = self.run.settings.evaluation_batch_size
        scores = iter(score(kept, self.plan.world, self.communicator, self._replica, size, self._scored))
        rows, steps = [], 0
        for number, (one, ended_s, (loss_sum, correct, samples)) in enumerate(
            zip(self._epochs, ended, sums.tolist(), strict=True), 1
        ):
            steps += one.steps
            row: dict[str, Any] = {
                "epoch": number,
                "steps": steps,
                "samples": one.samples,
                "learning_rate": self.plan.world.rate(number * self.plan.schedule.steps_per_epoch),
                "train_time_s": ended_s,
                "ended_at_s": ended_s,
                "train_loss": loss_sum / samples if samples else None,
                "train_accuracy": correct / samples if samples else None,
            }
            if one.kept is not None:
                scored = next(scores)
                row |= {
                    "validation_loss": scored.loss,
                    "validation_accuracy": scored.accuracy,
                    "evaluated_samples": scored.own_samples,
                    "evaluation_time_s": scored.own_s,
                }
            rows.append(row)
        return rows

    def _scored(self) -> None:
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
        held = joined(last[np.newaxis], self.plan.world, self.communicator)[0] if self.plan.world.num_servers else last
        found = compare(held if self._replica is None else last, self.communicator)
        if found.verdict == "no":
            raise Diverged(
                f"workers disagree at the end: their weights differ by up to {found.max_difference:.3g}; the strategy "
                "does not synchronise them"
            )
        return found

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
            "bytes_sent": self._bytes_sent,
            "messages": process.sent,
            "updates": len(process.moments),
            "gradients_dropped": process.num_dropped,
            "staleness": tuple(sorted(process.staleness.items())),
            "nodes": (self._node_account(),),
        }
        if self._replica is None:
            return Result(steps=0, **counts)
        trainer, data = self._replica
        scored = [row for row in rows if "validation_loss" in row]
        target = self.run.target
        reached = next((row for row in scored if target and target.is_reached(row[target.metric])), None)
        return Result(
            steps=self._steps,
            epochs_completed=len(self._epochs),
            samples_dropped=len(self._epochs) * plan.schedule.dropped_per_epoch,
            train_samples=len(data.train),
            validation_samples=len(data.validation),
            num_parameters=trainer.num_parameters,
            flops_per_sample=trainer.flops_per_sample,
            ready_at=self.recorder.ready_at,
            first_step_s=self.recorder.first_step_s,
            train_time_s=trained_until,
            evaluation_time_s=evaluated_s,
            segments=segments,
            train_loss=rows[-1]["train_loss"],
            train_accuracy=rows[-1]["train_accuracy"],
            validation_loss=scored[-1]["validation_loss"],
            validation_accuracy=scored[-1]["validation_accuracy"],
            best_validation_accuracy=max(row["validation_accuracy"] for row in scored),
            time_to_target_s=reached and reached["train_time_s"],
            epochs_to_target=reached and reached["epoch"],
            learning_rate=plan.full_rate,
            agreement=agreement and agreement.verdict,
            max_difference=agreement and agreement.max_difference,
            weights_hash=agreement and agreement.weights_hash,
            **counts,
        )

    @property
    def _bytes_sent(self) -> int:
        """Bytes in this node's messages, and those that it has moved to and from what workers share on another host."""
        return self.process.bytes_sent + (0 if self._memory is None else self._memory.bytes_moved)

    def _node_account(self) -> NodeAccount:
        process, place = self.process, self._layout.places[self.communicator.rank]
        own: dict[str, Any] = {}
        if process.found_no_more_at is not None:
            until = process.found_no_more_at - self.recorder.zero
            own = {
                "steps": self._steps,
                "compute_time_s": self._computed_s,
                "wait_time_s": max(0.0, until - self._computed_s),
                "ended_at_s": until,
            }
        return NodeAccount(
            role=place.role,
            host=self._layout.hosts.index(place.host),
            messages_sent=process.sent,
            messages_received=process.received,
            bytes_sent=self._bytes_sent,
            bytes_received=process.bytes_received,
            **own,
        )

    def _refuse_too_many_copies(self) -> None:
        settings, epochs = self.run.settings, self.run.epochs_per_worker
        copies = -(-epochs // settings.evaluate_every)
        needed = copies * self.plan.world.parameters.nbytes // max(1, self.plan.world.num_servers)
        if needed > MOST_KEPT_BYTES:
            raise UserError(
                f"{copies} copies of the parameters, one for each evaluation, would take {needed / 2**30:.1f} GiB in "
                f"each process, of {MOST_KEPT_BYTES / 2**30:.0f}: they are scored after training",
                hint="evaluate less often: evaluate_every",
            )
