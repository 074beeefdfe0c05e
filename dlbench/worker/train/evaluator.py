"""Scores of epochs while others train: a separate process gets copies of the parameters, and says when to end."""

from collections.abc import Mapping
from time import perf_counter

import numpy as np

from dlbench.communicators._single import SingleCommunicator
from dlbench.errors import UserError
from dlbench.scenario.run_spec import RunSpec
from dlbench.strategies._protocol import Message, Port, World
from dlbench.telemetry.reporter import Reporter
from dlbench.worker.train.evaluation import evaluate, mean_of
from dlbench.worker.train.node_scores import Copy, Replica
from dlbench.worker.training_record import Scores

# Copies of parameters that one process may keep until they are scored.
MOST_KEPT_BYTES = 4 * 2**30


def copy_message(node: int, epoch: int, copy: Copy) -> Message:
    """Return what a node kept of an epoch as a message; `samples` says how many numbers are parameters."""
    dtype = (copy.parameters if copy.parameters.size else copy.statistics).dtype
    body = np.concatenate([part.astype(dtype, copy=False) for part in copy])
    return Message("copy", node, epoch, samples=copy.parameters.size, body=body)


class Evaluator:
    """The node that collects the copies of each epoch, joins and scores them in order, and answers workers.

    Args:
        port: How it answers.
        dispenser: The node that is asked to hand out no more samples when training is to end; None where workers ask
            whether it is.
        world: What nodes there are.
        replica: What it scores with.
        run: Its target may end training.
        reporter: Sends the heartbeat.

    Attributes:
        scores: By epoch.
    """

    def __init__(
        self,
        port: Port,
        dispenser: int | None,
        world: World,
        replica: Replica,
        run: RunSpec,
        reporter: Reporter,
    ) -> None:
        self.scores: dict[int, Scores] = {}
        self._port, self._dispenser = port, dispenser
        self._world, self._replica, self._run, self._reporter = world, replica, run, reporter
        self._num_statistics = replica.trainer.state("statistics")["statistics"].size
        # By epoch, what nodes have sent so far.
        self._copies: dict[int, dict[int, Copy]] = {}
        self._ends = self._has_closed = False
        self._answers: dict[int, bool] = {}
        # Who sends something of each epoch: servers, and workers that hold parameters or statistics.
        servers, workers = map(world.server, range(world.num_servers)), range(world.num_workers)
        self._sources = {*servers, *(workers if self._num_statistics or not world.num_servers else ())}

    def on_message(self, message: Message) -> None:
        """Take what a node has kept of an epoch, or answer a worker whether an epoch was the last.

        Raises:
            UserError: Too much waits for a score.
        """
        if message.type == "is_last":
            # All who ask get the answer that was right when the first one asked.
            is_last = self._answers.setdefault(message.step, self._ends)
            self._port.send(message.worker, Message("answer", message.worker, message.step, samples=int(is_last)))
            return
        assert message.body is not None
        # Another thread may take copies away to score them.
        waiting = [copy for copies in list(self._copies.values()) for copy in list(copies.values())]
        if message.body.nbytes + sum(part.nbytes for copy in waiting for part in copy) > MOST_KEPT_BYTES:
            raise UserError(
                f"copies of the parameters that wait for a score take more than {MOST_KEPT_BYTES / 2**30:.0f} GiB: "
                "epochs end faster than they are scored",
                hint="evaluate less often: evaluate_every",
            )
        copy = Copy(*np.split(message.body, [message.samples]))
        self._copies.setdefault(message.step, {})[message.worker] = copy

    def is_due(self) -> bool:
        """Whether all nodes have sent what they kept of an epoch that is not scored."""
        return any(self._is_whole(epoch) for epoch in list(self._copies))

    def compute(self) -> None:
        """Score the first epoch that is due.

        Raises:
            Diverged: Its loss is not finite.
        """
        # Copies of further epochs may arrive during this, in another thread.
        epoch = min(epoch for epoch in list(self._copies) if self._is_whole(epoch))
        self._reporter.step += 1
        started = perf_counter()
        copies = self._copies.pop(epoch)
        scores = self._evaluate(copies)
        scores.refuse_infinite(f"after epoch {epoch}")
        self.scores[epoch] = scores._replace(seconds=perf_counter() - started)
        self._reporter.epoch, self._reporter.accuracy = epoch, scores.means.get("accuracy")
        self._reporter.phase = "serve"
        target = self._run.target
        if target is not None and target.stop and self._run.reaches_target(scores.cells):
            self._ends = True

    def on_computed(self) -> None:
        """Let no more samples be handed out once training is to end."""
        if self._ends and not self._has_closed and self._dispenser is not None:
            self._has_closed = True
            self._port.send(self._dispenser, Message("close", 0))

    def _is_whole(self, epoch: int) -> bool:
        return self._copies[epoch].keys() >= self._sources

    def _evaluate(self, copies: Mapping[int, Copy]) -> Scores:
        world, (trainer, data) = self._world, self._replica
        workers = range(world.num_workers)
        if world.num_servers:
            shards = range(world.num_servers)
            parameters = np.concatenate([copies[world.server(shard)].parameters for shard in shards])
        else:
            parameters = mean_of([copies[worker].parameters for worker in workers])
        trainer.set_parameters(parameters)
        if self._num_statistics:
            trainer.set_state({"statistics": mean_of([copies[worker].statistics for worker in workers])})
        batch_size = self._run.settings.evaluation_batch_size
        return evaluate(trainer, SingleCommunicator(), data, batch_size, self._reporter)
