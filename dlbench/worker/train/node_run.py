"""One process of a run whose strategy is made of nodes: it trains or serves, and in the end scores with the others.

Training does not wait for an evaluation: parameters are copied when an epoch ends, with the moment, and scored after
training, or during it by another process, the evaluator.
"""

import math
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from dlbench.errors import UserError
from dlbench.scenario.layout import Layout
from dlbench.scenario.run_spec import RunSpec
from dlbench.strategies._protocol import OtherNode, WorkerNode
from dlbench.strategies._step import NAN, StepTimestamps
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Array
from dlbench.worker.observer import Observer
from dlbench.worker.step_recorder import StepRecorder
from dlbench.worker.train.evaluator import MOST_KEPT_BYTES, Evaluator, copy_message
from dlbench.worker.train.loop import ANNOUNCE_S
from dlbench.worker.train.node_plan import NodePlan
from dlbench.worker.train.node_scores import Copy, Replica
from dlbench.worker.train.nodes import NodeCommunicator, NodeProcess, meet
from dlbench.worker.train.schedule import Assigned, HandedOut, Ticket
from dlbench.worker.training_record import Epoch

_NOTHING: Array = np.empty(0)


@dataclass
class NodeEpoch(Epoch):
    """One worker's epoch, and what it kept when that ended: None where it is not evaluated."""

    ended_at_s: float = -math.inf
    kept: Copy | None = None


class NodeRun:
    """One node in its process, from its first barrier until all is over.

    Attributes:
        process: The node's messages and updates.
        recorder: Its steps.
        replica: Of a worker; None for others.
        scorer: Of the evaluator; None for others.
        epochs: Of the run; the last one takes what is handed out anew in place of gradients that were dropped.
        steps: Steps of a worker.
        step_ends: When each of them ended, on `perf_counter`.
        computed_s: Seconds in which it computed gradients.
        bytes_sent: Bytes in its messages, and those that it moved to and from what worker 0 holds for all.

    Args:
        run: The run.
        layout: Who runs where.
        plan: Makes the nodes.
        communicator: Connects all nodes: workers, then those of other roles, then the evaluator.
        reporter: Sends rows and the heartbeat.
        observer: Reads the sensors.
        replica: Of a worker, and of the evaluator; None for others.

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
        self.layout, self._evaluator = layout, layout.evaluator
        is_evaluator = communicator.rank == self._evaluator
        self.replica = None if is_evaluator else replica
        first = plan.world.parameters
        self._memory = communicator.share(first, plan.world.num_workers) if plan.needs.shares_memory else None
        # Bytes moved one-sidedly: in training, and for copies that are scored.
        self._moved = self._moved_for_copies = 0
        self.process = NodeProcess(communicator, self._memory)
        self.recorder = StepRecorder(reporter, run.limits.flush_interval_s)
        self.epochs = [
            NodeEpoch(dict.fromkeys(plan.scores, 0.0), number) for number in range(1, run.epochs_per_worker + 1)
        ]
        self.steps, self.step_ends, self.computed_s, self.bytes_sent = 0, list[float](), 0.0, 0
        self._num_ended = 0
        # Of workers in lock step: the epoch before which they last asked whether to go on, and the last one to train.
        self._asked, self._stopped_after = 1, len(self.epochs)
        self.scorer: Evaluator | None = None
        if is_evaluator:
            assert replica is not None
            self.scorer = Evaluator(self.process, plan.dispenser, plan.world, replica, run, reporter)
        # When the step under way began, had its batch, the parameters, and its gradient; its mean loss.
        self._moments = (0.0, 0.0, 0.0, 0.0)
        self._loss: float | None = None
        self._refuse_too_many_copies()

    def train(self) -> Array:
        """Train, serve or evaluate until all is over; return the node's last parameters.

        Raises:
            Diverged: A loss is not finite.
        """
        process = self.process
        if isinstance(self.plan.schedule, HandedOut) and self.communicator.rank == self.plan.dispenser:
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
            last = self._take_part()
        finally:
            self.recorder.flush()
        self.observer.mark()
        self.bytes_sent = process.bytes_sent + self._moved
        return last

    def _take_part(self) -> Array:
        """Train, serve or evaluate; a collective."""
        process = self.process
        node: WorkerNode | OtherNode | None = None
        # What the evaluator has, and a node that holds no parameters.
        last = np.zeros_like(self.plan.world.parameters)
        served: OtherNode | None = None
        if self.replica is not None:
            worker = node = self.plan.worker(self.communicator.rank, process)
            self._train(worker, self.replica)
            self._moved = self._bytes_moved - self._moved_for_copies
            last = worker.begin()  # which takes what has come for it
        elif self.scorer is not None:
            self.reporter.phase = "serve"
            process.serve_and_compute(self.scorer)
        else:
            served = node = self.plan.other(self.communicator.rank, process)
            self._serve(served)
            last = served.parameters if self.plan.is_scored(self.communicator.rank) else last
        epochs = self._whole_epochs(served)
        del self.epochs[epochs:]
        if node is not None:
            self._end_epochs(epochs, node)
        if self._evaluator is not None:
            process.deliver_all()
            while self.scorer is not None and self.scorer.is_due():
                self.scorer.compute()
            meet(self.communicator)
        return last

    @property
    def _bytes_moved(self) -> int:
        return 0 if self._memory is None else self._memory.bytes_moved

    def _whole_epochs(self, server: OtherNode | None) -> int:
        """Return how many epochs count: all of the run, unless the evaluator has ended training; a collective.

        Of workers in lock step each knows; of those that are handed samples, who hands them out.

        Args:
            server: The node, where it is one.
        """
        everyone = len(self.epochs)
        if self._evaluator is None:
            return everyone
        whole = 0 if self.replica is None else self._stopped_after
        if isinstance(self.plan.schedule, HandedOut):
            whole = 0
            if self.communicator.rank == self.plan.dispenser:
                closed_after = self.process.closed_after
                whole = everyone if closed_after is None else closed_after
                if closed_after is not None and server is not None:
                    # Of what was handed out some gradients may have been dropped.
                    whole = min(whole, server.samples // self.plan.schedule.samples_per_epoch)
        elif isinstance(self.plan.schedule, Assigned):
            whole = 0 if server is None else server.samples // self.plan.schedule.samples_per_epoch
        largest = np.array([whole])
        self.communicator.all_reduce(largest, largest, "max")
        return min(everyone, int(largest[0]))

    def _train(self, node: WorkerNode, replica: Replica) -> None:
        """Train a worker until there are no more samples for it, and take part until all have ended; a collective."""
        process = self.process
        dispenser = self.plan.dispenser
        if isinstance(self.plan.schedule, HandedOut) and dispenser is not None and dispenser != self.communicator.rank:
            process.ask(dispenser)
        process.start(node)
        while (ticket := self._next_ticket(node)) is not None:
            parameters = node.begin()
            with process.computing(node):
                gradient = self._gradient(replica, ticket, parameters)
            process.take_gradient(node, ticket, gradient, self._loss)
            self._end_step(ticket)
        process.finish(node)

    def _next_ticket(self, node: WorkerNode) -> Ticket | None:
        """Return the worker's next samples, None at the end; the epochs before them are over."""
        schedule, process = self.plan.schedule, self.process
        self._moments = (perf_counter(), NAN, NAN, NAN)
        if isinstance(schedule, HandedOut):
            ticket = process.next_handed_out(schedule)
        else:
            ticket = schedule.next(self.communicator.rank, node)
        if ticket is None or self._is_over_before(ticket):
            self.reporter.phase = "barrier"
            return None
        # Of an epoch that is over no more samples count.
        ticket = ticket._replace(completes=min(max(ticket.completes, self._num_ended + 1), len(self.epochs)))
        self._end_epochs(ticket.completes - 1, node)
        return ticket

    def _is_over_before(self, ticket: Ticket) -> bool:
        """Whether the evaluator has ended training with the epoch before: workers in lock step ask, once an epoch."""
        target = self.run.target
        asks = self._evaluator is not None and target is not None and target.stop
        if not asks or self.plan.dispenser is not None or ticket.epoch <= self._asked:
            return False
        assert self._evaluator is not None
        self._asked = ticket.epoch
        is_over = self.process.is_last(ticket.epoch - 1, self._evaluator)
        if is_over:
            self._stopped_after = ticket.epoch - 1
        return is_over

    def _gradient(self, replica: Replica, ticket: Ticket, parameters: Array) -> Array:
        """Return the mean gradient of a ticket's samples at some parameters."""
        trainer, reporter = replica.trainer, self.reporter
        batches = replica.data.batches or replica.data.batch
        x, y = batches(ticket.share, ticket.epoch)
        batch_ready = perf_counter()
        trainer.set_parameters(parameters)
        reporter.phase = "compute"
        taken_over = perf_counter()
        epoch = self.epochs[ticket.completes - 1]
        if len(y):
            values_of_batch, sums = trainer.gradient(x, y, 1 / len(y))
            values, self._loss = values_of_batch.copy(), sums["loss"] / len(y)
            epoch.add(sums, len(y))
        else:
            values, self._loss = np.zeros_like(parameters), None
        epoch.steps += 1
        gradient_ready = perf_counter()
        self.computed_s += gradient_ready - taken_over
        self._moments = (self._moments[0], batch_ready, taken_over, gradient_ready)
        reporter.phase = "all_reduce"
        return values

    def _end_step(self, ticket: Ticket) -> None:
        """Record the step that is over: the next one may begin."""
        started, batch_ready, taken_over, gradient_ready = self._moments
        now = perf_counter()
        # The model takes parameters over before it computes; the row has that at the end, with the node's update. What
        # a worker writes to the memory of another host is a message.
        taking_s = taken_over - batch_ready
        update_s = taking_s + (0.0 if self._bytes_moved else self.process.update_time_s)
        self.steps += 1
        self.step_ends.append(now)
        # Smaller last steps lie in the window, too: no barrier is before them.
        phase = "first" if self.steps == 1 else "timed"
        timestamps = StepTimestamps(started, batch_ready, gradient_ready - taking_s, NAN, now - update_s, now)
        self.recorder.add(self.steps, ticket.completes, phase, len(ticket.share.indices), timestamps, self._loss)
        self.reporter.phase = "data"

    def _serve(self, node: OtherNode) -> None:
        """Serve, and copy the parameters when they have had an epoch's samples."""
        per_epoch, reporter = self.plan.schedule.samples_per_epoch, self.reporter
        reporter.phase = "serve"

        def look() -> None:
            reporter.step += 1
            # The last epoch ends when all is over: what was dropped may come late, or never.
            self._end_epochs(min(node.samples // per_epoch, len(self.epochs) - 1), node)

        self.process.serve(node, look)

    def _end_epochs(self, last: int, node: WorkerNode | OtherNode) -> None:
        """Note that all epochs up to one are over, and keep what is to be scored of them."""
        every, epochs = self.run.settings.evaluate_every, len(self.epochs)
        while self._num_ended < last:
            ended = self.epochs[self._num_ended]
            self._num_ended += 1
            ended.ended_at_s = perf_counter() - self.recorder.zero
            if self._num_ended % every == 0 or self._num_ended == epochs:
                state = {} if self.replica is None else self.replica.trainer.state("statistics")
                statistics = state.get("statistics", _NOTHING)
                is_scored, moved = self.plan.is_scored(self.communicator.rank), self._bytes_moved
                copy = Copy(node.parameters.copy() if is_scored else _NOTHING, statistics)
                self._moved_for_copies += self._bytes_moved - moved
                if self._evaluator is None:
                    ended.kept = copy
                elif is_scored or statistics.size:
                    self.process.send(self._evaluator, copy_message(self.communicator.rank, self._num_ended, copy))

    def _rehearse(self) -> None:
        """Let the trainer compile for the sizes of batches that only end an epoch: it would delay others later."""
        rehearse = None if self.replica is None else getattr(self.replica.trainer, "rehearse", None)
        if self.replica is None or rehearse is None:
            return
        self.reporter.phase = "compile"
        batches = self.replica.data.batches or self.replica.data.batch
        for share in self.plan.schedule.remainders(self.communicator.rank):
            rehearse(*batches(share, 1), 1 / len(share.indices))

    def _refuse_too_many_copies(self) -> None:
        settings, epochs = self.run.settings, self.run.epochs_per_worker
        copies = -(-epochs // settings.evaluate_every)
        needed = copies * self.plan.world.parameters.nbytes // max(1, self.plan.world.num_servers)
        if needed > MOST_KEPT_BYTES and self._evaluator is None:
            raise UserError(
                f"{copies} copies of the parameters, one for each evaluation, would take {needed / 2**30:.1f} GiB in "
                f"each process, of {MOST_KEPT_BYTES / 2**30:.0f}: they are scored after training",
                hint="evaluate less often: evaluate_every",
            )
