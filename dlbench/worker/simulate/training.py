"""A run with `communicator: simulated`: its world built from the settings, its records made from simulated time."""

import math
from collections.abc import Iterator
from time import time
from typing import Any

import numpy as np

from dlbench.communicators._single import SingleCommunicator
from dlbench.communicators.simulated import SimulatedOptions
from dlbench.records.result import NodeAccount, Result, Segment
from dlbench.scenario.plugin_settings import nodes_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.strategies import Array
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Trainer
from dlbench.worker.simulate.links import hosts_of
from dlbench.worker.simulate.world import SimulatedWorld
from dlbench.worker.train.agreement import Agreement, Diverged, compare
from dlbench.worker.train.batches import TrainingData
from dlbench.worker.train.evaluation import evaluate, mean_of
from dlbench.worker.train.node_plan import plan_nodes
from dlbench.worker.train.schedule import Ticket
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
        # The gradients of each epoch that is not over: with servers, of the next one those since the last one's end.
        self._epochs: dict[int, Epoch] = {}
        self._asked = self._num_gradients = 0
        # Without servers: the epoch that each worker is in, and what it had when it went on, by epoch and worker.
        self._epoch_of = [1] * settings.workers
        self._kept: dict[int, dict[int, Array]] = {}
        # Shards as they were when an epoch ended, until all of them are there.
        self._snapshot: dict[int, Array] | None = None
        self._wanted_version = 0
        self._is_stopped = self._is_over = False

    def train(self) -> Result:
        """Train all epochs and return the account of all workers together.

        Raises:
            Diverged: A loss is not finite, or workers disagree that are to agree.
            StuckError: Workers wait for ever.
        """
        self.reporter.phase = "compute"
        ready_at = time()
        self.simulated.run(self._between_events)
        self._is_over = True
        if not self.simulated.servers and not self._is_stopped:
            self._end_kept()
            self._asked = self._num_left()
        done = self._record.progress.epoch
        if self._asked > done:  # the last one: shards that lag behind have had their updates by now
            self._end_epochs(self.parameters())
        elif not self._is_stopped and (
            self.simulated.counts.samples > done * self.schedule.samples_per_epoch or not done
        ):
            self._asked += 1
            self._end_epochs(self.parameters())
        return self._account(ready_at)

    def gradient(self, ticket: Ticket, parameters: Array) -> tuple[Array, float | None]:
        """Return mean gradient and loss of a ticket's samples."""
        share, reporter = ticket.share, self.reporter
        number = self._record.progress.epoch + 1 if self.simulated.servers else ticket.epoch
        epoch = self._epochs.setdefault(number, Epoch(dict.fromkeys(self.trainer.scores, 0.0)))
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
        """Note what a worker has when it goes on: without servers an epoch is over once all workers have done so."""
        if self.simulated.servers:
            return
        every, last = self.run.settings.evaluate_every, self.run.epochs_per_worker
        epoch = last + 1 if ticket is None else ticket.epoch
        for number in range(self._epoch_of[worker], min(epoch, last)):
            if number % every == 0:
                self._kept.setdefault(number, {})[worker] = self.simulated.workers[worker].parameters.copy()
        self._epoch_of[worker] = epoch
        # Of the last one what is on its way still counts, such as an average.
        self.simulated.interrupted = min(self._num_left(), last - 1) > self._record.progress.epoch

    def _num_left(self) -> int:
        """Return how many epochs all workers that have not failed have left behind."""
        return min(epoch for worker, epoch in enumerate(self._epoch_of) if self._is_alive(worker)) - 1

    def _is_alive(self, worker: int) -> bool:
        """Whether a worker has not failed, at least not before it had trained on all its samples."""
        simulated = self.simulated
        return worker not in simulated.failed_at_s or simulated.counts.ended_at_s[worker] is not None

    def _end_kept(self) -> None:
        """End the epochs that all workers have left behind, but the last one."""
        last = min(self._num_left(), self.run.epochs_per_worker - 1)
        while self._record.progress.epoch < last and not self._record.is_over:
            self._asked = self._record.progress.epoch + 1
            kept = self._kept.pop(self._asked, {})
            self._end_epochs(mean_of([it for worker, it in sorted(kept.items()) if self._is_alive(worker)]))

    def updated(self) -> None:
        """Note that an epoch of servers is over when all its samples have entered an update."""
        if not self.simulated.servers:
            return
        if self.simulated.counts.samples >= (self._asked + 1) * self.schedule.samples_per_epoch:
            self._asked = self.simulated.counts.samples // self.schedule.samples_per_epoch
            is_last, target = self._asked >= self.run.epochs_per_worker, self.run.target
            if is_last and not (target and target.stop):
                return  # what is on its way still counts, such as a last average
            self._snapshot, self.simulated.interrupted = {}, True
            self._wanted_version = self.simulated.servers[0].version

    def _between_events(self) -> bool:
        """Evaluate where an epoch has ended on all shards; return whether to go on."""
        servers, shards = self.simulated.servers, self._snapshot
        if shards is None:
            self._end_kept()
        else:
            for shard, server in enumerate(servers):
                if shard not in shards and server.version >= self._wanted_version:
                    shards[shard] = server.parameters.copy()
            if len(shards) < len(servers):
                return True
            self._end_epochs(np.concatenate([shards[shard] for shard in range(len(servers))]))
        self._is_stopped = self._record.is_over
        return not self._is_stopped

    def parameters(self) -> Array:
        """Return what is evaluated: what servers hold, or the mean over workers, but those that have failed."""
        world = self.simulated
        if world.servers:
            return np.concatenate([server.parameters for server in world.servers])
        return mean_of([it.parameters for worker, it in enumerate(world.workers) if self._is_alive(worker)])

    def _end_epochs(self, parameters: Array) -> None:
        """Make the row of the epoch that has ended, of several within one update that of the last; evaluate if due."""
        self._snapshot, self.simulated.interrupted = None, False
        settings, progress, now = self.run.settings, self._record.progress, self._train_time_s()
        every, before, last = settings.evaluate_every, progress.epoch, self._asked
        epoch = self._epochs.pop(before + 1, None) or Epoch(dict.fromkeys(self.trainer.scores, 0.0))
        self._num_gradients += epoch.steps
        epoch.number, epoch.learning_rate = last, self.world.rate(last * self.schedule.steps_per_epoch)
        epoch.steps = progress.steps = self._num_gradients // settings.workers
        epoch.train_time_s = epoch.ended_at_s = now
        means = means_of(epoch.sums, epoch.samples)
        if self.simulated.servers:
            epoch.samples = self.simulated.counts.samples - sum(row["samples"] for row in progress.rows)
        progress.epoch = last
        row = epoch.row(means)
        if last // every > before // every or last >= self.run.epochs_per_worker:
            row |= self._evaluate(parameters).cells
            self._record.look_at(row, last, now)
        self._record.add(row)

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
        return simulated.last_update_s if self._is_over and simulated.counts.staleness else simulated.now

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
