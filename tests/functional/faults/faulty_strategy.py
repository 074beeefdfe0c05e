"""The strategies `single` and `mpi`, except that a fault may strike in them: inside a collective, or before it."""

from typing import Any

from dlbench.strategies import Array, mpi, single
from dlbench.strategies._step import Inside
from tests.functional.faults.fault import Fault, of_this_process, strike


class Single:
    """One worker, with faults."""

    OPTIONS = single.OPTIONS
    NEEDS = single.NEEDS

    @staticmethod
    def create(options: Any, communicator: Any, algorithm: str | None) -> Any:
        """Return the strategy `single`, which may be struck."""
        fault = of_this_process()
        strike(fault, "rendezvous")
        strategy = single.create(options, communicator, algorithm)
        count = [0]

        def in_graph(gradients: list[Any]) -> list[Any]:
            count[0] += 1
            strike(fault, "all_reduce", count[0])
            return gradients

        vars(strategy)["bind"] = lambda trainer, reporter: Inside(trainer, reporter, in_graph)
        _break_into(communicator, fault)
        return strategy


class Mpi:
    """All-reduce over MPI, with faults."""

    OPTIONS = mpi.OPTIONS
    NEEDS = mpi.NEEDS
    mca = staticmethod(mpi.mca)

    @staticmethod
    def create(options: Any, communicator: Any, algorithm: str | None) -> Any:
        """Return the strategy `mpi`, which may be struck; `own-ring` between two of its messages."""
        fault = of_this_process()
        strike(fault, "rendezvous")
        strategy = mpi.create(options, communicator, algorithm)
        all_reduce, send, count = strategy.all_reduce, communicator.sendrecv, [0]
        is_ring = algorithm == "own-ring" and communicator.size > 1

        def faulty_all_reduce(gradient: Array) -> Array:
            count[0] += 1
            if not is_ring:
                strike(fault, "all_reduce", count[0])
            return all_reduce(gradient)

        def faulty_send(*arguments: Any) -> None:
            send(*arguments)
            strike(fault, "all_reduce", count[0])

        vars(strategy)["all_reduce"] = faulty_all_reduce
        communicator.sendrecv = faulty_send
        _break_into(communicator, fault)
        return strategy


def _break_into(communicator: Any, fault: Fault | None) -> None:
    """Strike where parameters are broadcast and where the communicator is closed."""
    broadcast, close = communicator.broadcast, communicator.close

    def faulty_broadcast(parameters: Array) -> None:
        strike(fault, "broadcast")
        broadcast(parameters)

    def faulty_close() -> None:
        strike(fault, "finish")
        close()

    communicator.broadcast, communicator.close = faulty_broadcast, faulty_close
