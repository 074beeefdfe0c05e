"""A run with `communicator: simulated`: its world built from the settings, its records made from simulated time."""

import math
from collections.abc import Iterator, Mapping, Sequence
from time import time
from typing import Any

import numpy as np

from dlbench.communicators._single import SingleCommunicator
from dlbench.communicators.simulated import SimulatedOptions
from dlbench.records.result import NodeAccount, Result, Segment
from dlbench.scenario.plugin_settings import nodes_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.strategies import Array
from dlbench.strategies._protocol import OtherNode, WorkerNode
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Trainer
from dlbench.worker.simulate.links import hosts_of
from dlbench.worker.simulate.world import SimulatedWorld
from dlbench.worker.train.agreement import Agreement, Diverged, compare
from dlbench.worker.train.batches import TrainingData
from dlbench.worker.train.evaluation import evaluate, mean_of
from dlbench.worker.train.node_plan import plan_nodes
from dlbench.worker.train.schedule import HandedOut, Ticket
from dlbench.worker.training_record import Epoch, Scores, TrainingRecord, means_of

# Links that are listed of a run.
_MOST_LINKS = 100_000


class Simulation:
    """Trains all workers of a run in one process.

    Args:
        run: The run.
        trainer: Computes the gradients of all workers, one at a time.
        data: What they train and evaluate on.
        reporter: Sends rows and the heartbeat.
    """

    def __init__(self, run: RunSpec, trainer: Trainer, data: TrainingData, reporter: Reporter) -> None:
        self.run, self.trainer, self.data, self.reporter = run, trainer, data, reporter
        settings = run.settings
        machines = SimulatedOptions(**run.options_of("communicator"))
        self._plan = plan_nodes(run, len(data.train), trainer.parameters(), trainer.scores)
        self.world, self.schedule = self._plan.world, self._plan.schedule
        self._batches = data.batches or data.batch
        self._hosts = hosts_of(settings.workers, nodes_of(settings), machines.workers_per_host)
        self.simulated = SimulatedWorld(self._plan, machines, self._hosts, self)
        self._record = TrainingRecord(run, reporter)
        self._epochs = [
            Epoch(dict.fromkeys(trainer.scores, 0.0), number) for number in range(1, run.epochs_per_worker + 1)
        ]
        # Epochs that are over and of which not every gradient has been computed, with their scores.
        self._ended: list[tuple[Epoch, dict[str, Any]]] = []
        self._ended_at_s = 0.0
        self._began = [1] * settings.workers
        # What is scored: the epoch that each shard or worker is in, and what it had when it went on, by epoch and node.
        self._epoch_of = {node: 1 for node in range(self.world.num_nodes) if self._plan.is_scored(node)}
        self._kept: dict[int, dict[int, Array]] = {}
        self._is_stopped = self._is_over = False

    def train(self) -> Result:
        """Train all epochs and return the account of all workers together.

        Raises:
            Diverged: A loss is not finite, or workers disagree that are to agree.
            StuckError: Workers wait for ever.
        """
        self.reporter.phase = "compute"
        ready_at = time()
        try:
            self.simulated.run(self._between_events)
        finally:
            self._is_over = True
            self._add_rows()
        self._end_kept()
        # Those left: shards that lag behind have had their updates by now.
        while self._record.progress.epoch < len(self._epochs) and not self._record.is_over:
            self._end_epoch(self._held())
        self._add_rows()
        return self._account(ready_at)

    def gradient(self, ticket: Ticket, parameters: Array) -> tuple[Array, float | None]:
        """Return mean gradient and loss of a ticket's samples."""
        share, reporter = ticket.share, self.reporter
        epoch = self._epochs[min(self._epoch_begun(ticket), len(self._epochs)) - 1]
        epoch.steps += 1
        if not len(share.indices):
            return np.zeros_like(parameters), None
        x, y = self._batches(share, ticket.epoch)
        self.trainer.set_parameters(parameters)
        values, sums = self.trainer.gradient(x, y, 1 / len(share.indices))
        loss = sums["loss"] / len(y)
        if not math.isfinite(loss):
            raise Diverged(f"the loss is {loss} in step {ticket.step} (epoch {ticket.epoch})")
        epoch.add(sums, len(y))
        reporter.step, reporter.epoch, reporter.loss = ticket.step, ticket.epoch, loss
        return values.copy(), loss

    def begins(self, worker: int, ticket: Ticket | None) -> None:
        """Note the epoch that a worker goes on to."""
        self._began[worker] = self._epoch_begun(ticket)
        if not self.simulated.servers:
            self._go_on(worker, self.simulated.workers[worker], self._began[worker])

    def _epoch_begun(self, ticket: Ticket | None) -> int:
        """Return the epoch that a ticket's samples help to complete; one more than there are without a ticket."""
        if ticket is None:
            return len(self._epochs) + 1
        if not isinstance(self.schedule, HandedOut):
            return ticket.epoch
        # Of one whose row is made no more samples count.
        open_one = self._ended[0][0].number if self._ended else self._record.progress.epoch + 1
        return max(self.schedule.epoch_of(ticket.step), open_one)

    def served(self, node: int) -> None:
        """Note the epoch that a server's part goes on to, by the samples that it has had."""
        if node in self._epoch_of:
            server = self.simulated.servers[self.world.role(node)[1]]
            epoch = server.samples // self.schedule.samples_per_epoch + 1
            if epoch > self._epoch_of[node]:
                self._go_on(node, server, epoch)

    def _go_on(self, node: int, held: WorkerNode | OtherNode, epoch: int) -> None:
        """Keep what a node holds for the epochs that it leaves; one is over once all nodes have left it."""
        last = len(self._epochs)
        for number in range(self._epoch_of[node], min(epoch, last)):
            if self._is_evaluated(number):
                self._kept.setdefault(number, {})[node] = held.parameters.copy()
        self._epoch_of[node] = epoch
        # Of the last one what is on its way still counts, such as an average.
        self.simulated.interrupted = min(self._num_left(), last - 1) > self._record.progress.epoch

    def _num_left(self) -> int:
        """Return how many epochs all nodes that are scored, but workers that have failed, have left behind."""
        return min(epoch for node, epoch in self._epoch_of.items() if self._is_alive(node)) - 1

    def _is_alive(self, node: int) -> bool:
        """Whether a node is no worker that failed before it had trained on all its samples."""
        failed, ended_at_s = self.simulated.failed_at_s, self.simulated.counts.ended_at_s
        return node not in failed or node >= len(ended_at_s) or ended_at_s[node] is not None

    def _is_evaluated(self, number: int) -> bool:
        return number % self.run.settings.evaluate_every == 0 or number == len(self._epochs)

    def _end_kept(self) -> None:
        """End the epochs that all nodes have left behind, but the last one."""
        last = min(self._num_left(), len(self._epochs) - 1)
        while self._record.progress.epoch < last and not self._record.is_over:
            self._end_epoch(self._kept.pop(self._record.progress.epoch + 1, {}))

    def _between_events(self) -> bool:
        """End the epochs that are over; return whether to go on."""
        self._end_kept()
        self.simulated.interrupted = False
        self._is_stopped = self._record.is_over
        return not self._is_stopped

    def parameters(self) -> Array:
        """Return what is evaluated: what servers hold, or the mean over workers, but those that have failed."""
        return self._joined(self._held())

    def _held(self) -> dict[int, Array]:
        nodes: Sequence[WorkerNode | OtherNode] = self.simulated.servers or self.simulated.workers
        return {number: node.parameters for number, node in zip(self._epoch_of, nodes, strict=True)}

    def _joined(self, held: Mapping[int, Array]) -> Array:
        parts = [parameters for node, parameters in sorted(held.items()) if self._is_alive(node)]
        return np.concatenate(parts) if self.simulated.servers else mean_of(parts)

    def _end_epoch(self, held: Mapping[int, Array]) -> None:
        """End the next epoch; evaluate what nodes held then, if that is due."""
        progress, now = self._record.progress, self._train_time_s()
        progress.epoch += 1
        epoch, scores = self._epochs[progress.epoch - 1], dict[str, Any]()
        epoch.learning_rate = self.world.rate(progress.epoch * self.schedule.steps_per_epoch)
        epoch.train_time_s = epoch.ended_at_s = self._ended_at_s = now
        if self._is_evaluated(progress.epoch):
            scores = self._evaluate(self._joined(held)).cells
            self._record.look_at(self._row(epoch) | scores, progress.epoch, now)
        self._ended.append((epoch, scores))
        self._add_rows()

    def _add_rows(self) -> None:
        """Make the rows of epochs that are over: once all samples are in, or all workers have begun a later one."""
        while self._ended:
            epoch, scores = self._ended[0]
            is_complete = epoch.samples >= self.schedule.samples_per_epoch
            are_later = (it > epoch.number for rank, it in enumerate(self._began) if self._is_alive(rank))
            if not (self._is_over or is_complete or all(are_later)):
                return
            self._record.add(self._row(epoch) | scores)
            del self._ended[0]

    def _row(self, epoch: Epoch) -> dict[str, Any]:
        steps = sum(it.steps for it in self._epochs[: epoch.number]) // self.run.settings.workers
        return epoch.row(means_of(epoch.sums, epoch.samples)) | {"steps": steps}

    def _evaluate(self, parameters: Array) -> Scores:
        """Return the scores over the validation set; takes no simulated time."""
        self.trainer.set_parameters(parameters)
        batch_size = self.run.settings.evaluation_batch_size
        scores = evaluate(self.trainer, SingleCommunicator(), self.data, batch_size, self.reporter)
        self.reporter.phase = "compute"
        scores.refuse_infinite(f"after epoch {self._record.progress.epoch}")
        return scores

    def _train_time_s(self) -> float:
        """Return the time of training so far: until the last update, where servers make them, else until now."""
        simulated = self.simulated
        if not self._is_over or not simulated.counts.staleness:
            return simulated.now
        return max(simulated.last_update_s, self._ended_at_s)

    def _account(self, ready_at: float) -> Result:
        counts, progress = self.simulated.counts, self._record.progress
        if self._plan.needs.agrees and not self._is_stopped:
            self._record.agree(self._agreement(), "at the end of the simulation")
        progress.steps, progress.train_time_s = sum(counts.steps) // self.run.settings.workers, self._train_time_s()
        return self._record.result(
            samples_seen=counts.samples,
            samples_dropped=progress.epoch * self.schedule.dropped_per_epoch,
            train_samples=len(self.data.train),
            validation_samples=len(self.data.validation),
            num_parameters=self.trainer.num_parameters,
            flops_per_sample=self.trainer.flops_per_sample,
            ready_at=ready_at,
            segments=self._segments(),
            learning_rate=self._plan.full_rate,
            bytes_sent=sum(num_bytes for _, num_bytes in counts.links.values()),
            messages=sum(messages for messages, _ in counts.links.values()),
            updates=counts.updates,
            gradients_dropped=counts.dropped,
            staleness=tuple(sorted(counts.staleness.items())),
            nodes=tuple(self._nodes()),
        )

    def _nodes(self) -> Iterator[NodeAccount]:
        """Yield what each node did."""
        simulated, counts = self.simulated, self.simulated.counts
        sent: list[list[tuple[int, int, int]]] = [[] for _ in self._hosts]
        received = [[0, 0] for _ in self._hosts]
        for (source, to), (messages, num_bytes) in sorted(counts.links.items()):
            sent[source].append((to, messages, num_bytes))
            received[to][0] += messages
            received[to][1] += num_bytes
        for node, host in enumerate(self._hosts):
            work: dict[str, Any] = {}
            if node < self.world.num_workers:
                computed_s, ended_at_s = counts.compute_time_s[node], counts.ended_at_s[node]
                until = simulated.failed_at_s.get(node, simulated.now if ended_at_s is None else ended_at_s)
                work = {
                    "steps": counts.steps[node],
                    "compute_time_s": computed_s,
                    "wait_time_s": max(0.0, until - computed_s),
                    "ended_at_s": ended_at_s,
                }
            yield NodeAccount(
                role=self.world.role(node)[0],
                host=host,
                messages_sent=sum(messages for _, messages, _ in sent[node]),
                messages_received=received[node][0],
                bytes_sent=sum(num_bytes for _, _, num_bytes in sent[node]),
                bytes_received=received[node][1],
                links=tuple(sent[node]) if len(counts.links) <= _MOST_LINKS else (),
                **work,
            )

    def _segments(self) -> tuple[Segment, ...]:
        """Return the window: from the first update after every worker's first step, while all workers had samples."""
        counts = self.simulated.counts
        if counts.opened is None or counts.closed is None or counts.closed[0] <= counts.opened[0]:
            return ()
        samples = counts.closed[1] - counts.opened[1]
        return (
            Segment(
                opened_at_s=counts.opened[0],
                closing_at_s=counts.closed[0],
                closed_at_s=counts.closed[0],
                steps=samples // self.run.global_batch_size,
                samples=samples,
                simulated=True,
            ),
        )

    def _agreement(self) -> Agreement:
        """Compare the last parameters of the workers that have not failed: simulated sums are the same bit for bit."""
        failed = self.simulated.failed_at_s
        last = [worker.begin() for rank, worker in enumerate(self.simulated.workers) if rank not in failed]
        agreement = compare(last[0], SingleCommunicator(), last[1:])
        return agreement if agreement.verdict == "exact" else agreement._replace(verdict="no")
