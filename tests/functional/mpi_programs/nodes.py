"""One node of a strategy on each rank: trains as `tests.simulations` simulates, and hands in parameters and counts."""

import json
import sys

from dlbench import plugins
from dlbench.communicators.mpi import connect
from dlbench.worker.train.nodes import NodeProcess
from dlbench.worker.train.schedule import HandedOut
from tests.functional.mpi_programs.launch import hand_in
from tests.simulations import simulation

if __name__ == "__main__":
    chosen = json.loads(sys.argv[1])
    strategy, workers = chosen.pop("strategy"), chosen.pop("workers")
    found = simulation(strategy, workers, **chosen)
    world, plugin = found.world, plugins.load("strategies", strategy)
    options, make = plugin.options(**found.run.options_of("strategy")), plugin.get("node")
    communicator = connect(world.num_nodes)
    memory = communicator.share(world.parameters, workers) if plugin.get("NEEDS").shares_memory else None
    process, rank = NodeProcess(communicator, memory), communicator.rank
    schedule, hands_out = found.schedule, world.server(0) if world.num_servers else 0
    is_handed_out = isinstance(schedule, HandedOut)
    if is_handed_out and rank == hands_out:
        process.hand_out(schedule)
    node = make(options, world, *world.role(rank), process.port)
    if rank < world.num_workers:
        if is_handed_out and rank != hands_out:
            process.ask(hands_out)
        next_ticket = process.next_handed_out if is_handed_out else lambda known: known.next(rank)
        process.start(node)
        while (ticket := next_ticket(schedule)) is not None:
            parameters = node.begin()
            with process.computing(node):
                gradient = found.gradient(ticket, parameters)
            process.take_gradient(node, ticket, gradient)
        process.finish(node)
        parameters = node.begin().copy()
    else:
        process.serve(node)
        parameters = node.parameters
    communicator.close()
    hand_in(
        rank,
        {
            "parameters": parameters.tobytes().hex(),
            "sent": process.sent,
            "received": process.received,
            "bytes_sent": process.bytes_sent,
            "updates": len(process.moments),
            "samples": process.samples,
            "dropped": process.num_dropped,
            "staleness": sorted(process.staleness.elements()),
        },
    )
