"""Under mpirun: how long messages of a worker to a server and back take, and how long the server handles one.

Both are nodes as in a run, with its pauses between two looks for messages. The worker computes on its own core, and the
server shares both cores, as beside two workers.
"""

import json
import os
import sys
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from dlbench.communicators.mpi import connect
from dlbench.strategies import parameter_server
from dlbench.strategies._protocol import Message, World
from dlbench.trainers._flat_optimizers import Sgd
from dlbench.worker.train.nodes import NodeProcess, keep_memory
from dlbench.worker.train.order import Share
from dlbench.worker.train.schedule import Ticket

MESSAGES, COMPUTE_S, SKIPPED = 100, 0.05, 10


class Caller:
    """Pushes an empty message, or a gradient, in turns, and waits for its answer."""

    answers = False

    def __init__(self, port: Any, gradient: np.ndarray) -> None:
        self.parameters, self._port, self._waits = gradient, port, False

    def may_begin(self) -> bool:
        return not self._waits

    def begin(self) -> np.ndarray:
        return self.parameters

    def on_gradient(self, gradient: Any) -> None:
        self._waits = True
        body = gradient.values if gradient.step % 2 else gradient.values[:0]
        self._port.send(1, Message("push", 0, gradient.step, 0, 0, 1, body))

    def on_message(self, message: Message) -> None:
        self._waits = False

    def finish(self) -> None:
        pass


class Answerer:
    """Answers with what came, and then updates a shard; that is timed by itself."""

    def __init__(self, world: World, port: Any) -> None:
        self._port, self.handled = port, []
        self._shard = parameter_server.node(parameter_server.Options(), world, "server", 0, self)
        self.parameters, self.version, self.samples = self._shard.parameters, 0, 0

    def on_message(self, message: Message) -> None:
        assert message.body is not None
        self._port.send(0, message)
        if message.body.size:
            started = perf_counter()
            self._shard.on_message(message._replace(version=self._shard.version))
            self.handled.append(perf_counter() - started)

    def send(self, to: int, message: Message) -> None:
        """Send nothing of the shard's own."""

    def updated(self, staleness: Any, samples: int) -> None:
        """Count nothing."""


def main() -> None:
    """Print one JSON line from the worker: the seconds of each."""
    keep_memory()
    communicator = connect(2)
    gradient = np.random.default_rng(0).normal(size=int(sys.argv[1])).astype(np.float32)
    world = World(1, {"server": 1}, np.zeros_like(gradient), lambda step: 0.01, lambda parameters: Sgd(parameters, 0.0))
    process = NodeProcess(communicator)
    if communicator.rank == 1:
        server = Answerer(world, process.port)
        process.serve(server)
        communicator.all_gather(median(server.handled[SKIPPED:]))
        communicator.close()
        return
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    found: dict[int, list[float]] = {0: [], 1: []}
    node = Caller(process.port, gradient)
    process.start(node)
    for step in range(1, 2 * MESSAGES + 1):
        with process.computing(node):
            until, block = perf_counter() + COMPUTE_S, np.ones((256, 256), np.float32)
            while perf_counter() < until:
                block @ block
        ready = perf_counter()
        process.take_gradient(node, Ticket(Share(np.arange(1), (1,), (0,), 1, True), 1, step, 1), gradient)
        found[step % 2].append(perf_counter() - ready)
    process.finish(node)
    handled = communicator.all_gather(0.0)[1]
    empty, full = (median(found[kind][SKIPPED:]) for kind in (0, 1))
    communicator.close()
    print(json.dumps({"empty_s": empty, "full_s": full, "handled_s": handled, "bytes": gradient.nbytes}))


if __name__ == "__main__":
    main()
