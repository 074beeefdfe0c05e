"""A worker that pushes 2 MB and then computes for two seconds, and a server that takes the time until it has them."""

import time
from typing import Any

import numpy as np

from dlbench.communicators.mpi import connect
from dlbench.strategies._protocol import Message
from dlbench.worker.train.nodes import NodeProcess
from dlbench.worker.train.order import Share
from dlbench.worker.train.schedule import Ticket
from tests.functional.mpi_programs.launch import hand_in

NUMBERS = 500_000


class Pusher:
    """Pushes its first gradient, and waits for nothing."""

    answers = False
    parameters = np.zeros(1)

    def __init__(self, port: Any) -> None:
        self.port = port

    def may_begin(self) -> bool:
        return True

    def begin(self) -> np.ndarray:
        return self.parameters

    def on_gradient(self, gradient: Any) -> None:
        if gradient.step == 1:
            self.port.send(1, Message("push", 0, body=np.ones(NUMBERS, np.float32)))

    def on_message(self, message: Message) -> None:
        raise AssertionError("nobody answers")

    def finish(self) -> None:
        pass


class Clock:
    """Notes when the push has come."""

    parameters = np.zeros(1)
    version = samples = 0
    at = 0.0

    def on_message(self, message: Message) -> None:
        assert message.body is not None
        assert message.body.size == NUMBERS
        self.at = time.perf_counter()


if __name__ == "__main__":
    communicator = connect(2)
    process = NodeProcess(communicator)
    tickets = [Ticket(Share(np.arange(1), (1,), (0,), 1, True), 1, step, 1) for step in (1, 2)]
    communicator.barrier()
    started, clock = time.perf_counter(), Clock()
    if communicator.rank == 0:
        node = Pusher(process)
        process.start(node)
        for ticket, seconds in zip(tickets, (0.0, 2.0), strict=True):
            with process.computing(node):
                time.sleep(seconds)
            process.take_gradient(node, ticket, Pusher.parameters)
        process.finish(node)
    else:
        process.serve(clock)
    communicator.close()
    hand_in(communicator.rank, clock.at - started)
