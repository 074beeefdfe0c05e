"""Nodes of a strategy, one on each rank, case by case: trains as `tests.simulations` simulates; hands in what was sent.

Cases that need as many ranks share one start.
"""

import json
import sys
from typing import Any

from dlbench import plugins
from dlbench.communicators.mpi import MpiCommunicator, connect
from dlbench.strategies._encoded_messages import make_node
from dlbench.worker.train.nodes import NodeProcess
from dlbench.worker.train.schedule import HandedOut
from tests.functional.mpi_programs.launch import hand_in
from tests.simulations import simulation


def main(size: int, cases: list[dict[str, Any]]) -> None:
    """Train every case and hand in what was found."""
    world = connect(size)
    hand_in(world.rank, [train(**case) for case in cases])
    world.close()


def train(strategy: str, workers: int, **chosen: Any) -> dict[str, Any]:
    """Run this rank's node on a communicator for the case alone; return its parameters and counts."""
    from mpi4py import MPI

    found = simulation(strategy, workers, **chosen)
    world, plugin = found.world, plugins.load("strategies", strategy)
    options, make = plugin.options(**found.run.options_of("strategy")), plugin.get("node")
    communicator = MpiCommunicator(MPI)
    memory = communicator.share(world.parameters, workers) if plugin.get("NEEDS").shares_memory else None
    process, rank = NodeProcess(communicator, memory), communicator.rank
    schedule, hands_out = found.schedule, world.server(0) if world.num_servers else 0
    is_handed_out = isinstance(schedule, HandedOut)
    if is_handed_out and rank == hands_out:
        process.hand_out(schedule)
    node = make_node(make, options, world, *world.role(rank), process.port)
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
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
