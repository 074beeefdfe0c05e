"""Nodes of a strategy, one on each rank, case by case: trains as `tests.simulations` simulates; hands in what was sent.

All cases share one start: those that need fewer ranks come later, when the last ranks are done.
"""

import json
import sys
import time
from itertools import groupby
from types import SimpleNamespace
from typing import Any

from dlbench import plugins
from dlbench.communicators.mpi import MpiCommunicator, connect
from dlbench.strategies._encoded_messages import make_node
from dlbench.worker.train.nodes import NodeProcess
from dlbench.worker.train.schedule import HandedOut
from tests.functional.mpi_programs.launch import hand_in
from tests.simulations import simulation


def main(cases: list[tuple[int, dict[str, Any]]]) -> None:
    """Train every case for which this rank is needed, and hand in what was found.

    Args:
        cases: The number of ranks that each needs, and the case; in descending order.
    """
    from mpi4py import MPI

    world = connect(cases[0][0])
    found, comm = [], world.comm
    for size, of_size in groupby(cases, key=lambda case: case[0]):
        comm = comm.Split(0 if comm.rank < size else MPI.UNDEFINED, comm.rank)
        if comm == MPI.COMM_NULL:
            break
        # What its communicators take for the world.
        mpi = SimpleNamespace(**vars(MPI) | {"COMM_WORLD": comm})
        found += [train(mpi, **case) for _, case in of_size]
    hand_in(world.rank, found)
    ended = world.comm.Ibarrier()
    while not ended.Test():  # a barrier would take a core from ranks that train
        time.sleep(0.01)
    world.close()


def train(mpi: Any, strategy: str, workers: int, **chosen: Any) -> dict[str, Any]:
    """Run this rank's node on a communicator for the case alone; return its parameters and counts."""
    found = simulation(strategy, workers, **chosen)
    world, plugin = found.world, plugins.load("strategies", strategy)
    options, make = plugin.options(**found.run.options_of("strategy")), plugin.get("node")
    communicator = MpiCommunicator(mpi)
    memory = communicator.share(world.parameters, workers) if plugin.get("NEEDS").shares_memory else None
    process, rank = NodeProcess(communicator, memory), communicator.rank
    schedule, hands_out = found.schedule, world.server(0) if world.num_servers else 0
    is_handed_out = isinstance(schedule, HandedOut)
    if is_handed_out and rank == hands_out:
        process.hand_out(schedule)
    node = make_node(make, options, world, *world.role(rank), process)
    if rank < world.num_workers:
        if is_handed_out and rank != hands_out:
            process.ask(hands_out)
        next_ticket = process.next_handed_out if is_handed_out else lambda known: known.next(rank, node)
        process.start(node)
        while (ticket := next_ticket(schedule)) is not None:
            parameters = node.begin()
            with process.computing(node):
                gradient, loss = found.gradient(ticket, parameters)
            process.take_gradient(node, ticket, gradient, loss)
        process.finish(node)
        parameters = node.begin().copy()
    else:
        process.serve(node)
        parameters = node.parameters
    while communicator.is_sending():
        pass
    if memory is not None:
        memory.close()
    communicator.comm.Free()
    return {
        "parameters": parameters.tobytes().hex(),
        "sent": process.sent,
        "received": process.received,
        "bytes_sent": process.bytes_sent,
        "samples": process.samples,
        "staleness": sorted(process.staleness.elements()),
    }


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
