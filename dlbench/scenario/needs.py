"""What a strategy needs of the world, known without importing a framework."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

from dlbench.scenario.frozen import Frozen


class Exchange(StrEnum):
    """How workers exchange what they learn: in lock step by a bound step, or as nodes that send each other messages."""

    # Of flat gradients, between two compiled calls (`dlbench.strategies._step.Between`).
    BETWEEN = "between"
    # By a hook inside the compiled step (`dlbench.strategies._step.Inside`).
    INSIDE = "inside"
    # Inside, too, by the engine itself, which holds the replicas.
    WRAPPED = "wrapped"
    # Of nodes (`dlbench.strategies._protocol`).
    MESSAGES = "messages"


class Role(Frozen):
    """What some of a strategy's processes do beside its workers; they come after these, in the order of roles.

    Attributes:
        name: What a process is called: `server`.
        count: How many there are, or the setting that says it.
        placement: The setting that says where they are (`Placement`); where empty, they are beside workers.
    """

    name: str
    count: int | str = 1
    placement: str = ""


# The role of what trains.
WORKER = "worker"
# Holds a part of the parameters, and trains nothing.
SERVER = Role(name="server", count="servers", placement="server_placement")
# Scores parameters while others train: of any strategy made of nodes, where the setting `evaluator` asks for it.
EVALUATOR = Role(name="evaluator", placement="evaluator")


class Needs(Frozen):
    """What a strategy asks of launcher, layout and trainer; validation and planning read it.

    Attributes:
        exchange: How workers exchange what they learn.
        one_process: Whether one process holds all workers (`mirrored`); else each worker is a process.
        collectives: Libraries that can carry it (`mpi`, `gloo`, `nccl`, `grpc`); empty where it needs none.
        communicators: Communicators that can carry its messages, the default first; empty where it needs none.
        algorithms: Values of `algorithm`, the default first; empty where there is no choice.
        min_workers: Fewest workers.
        max_workers: Most workers, or None.
        trainers: Trainers that can serve it; empty means any.
        jit: Whether the compiled step may be compiled with XLA.
        simulated: Whether it can be simulated (`communicator: simulated`), though it has no communicator.
        roles: What processes there are beside workers, such as `SERVER`.
        hands_out: Whether the next samples go to the worker that asks first; else each worker has its share of a step.
        assigned_by: The role whose node says which batch each worker takes, where one does; "" otherwise.
        compares_losses: Whether it compares losses of the same samples, which then must not differ by chance.
        shares_memory: Whether workers read and write common parameters (`dlbench.strategies._protocol.Memory`).
        agrees: Whether it promises that all workers hold the same parameters at the end.
        as_one_worker: Options with which it promises that N workers equal one on the joined batch; None where there
            are none.
        bounded_by: The option that bounds by how many steps a worker may be ahead of the slowest; "" without one.
        rendezvous: Whether its processes connect by the address of worker 0: any launcher can start them.
        compresses: Whether what its workers send of gradients may be compressed (`compression`).
        changes_batch: Whether the batch may change while it trains (`batch_policy`).
    """

    exchange: Exchange = Exchange.BETWEEN
    one_process: bool = False
    collectives: tuple[str, ...] = ()
    communicators: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    min_workers: int = 1
    max_workers: int | None = None
    trainers: tuple[str, ...] = ()
    jit: bool = True
    simulated: bool = False
    roles: tuple[Role, ...] = ()
    hands_out: bool = False
    assigned_by: str = ""
    compares_losses: bool = False
    shares_memory: bool = False
    agrees: bool = True
    as_one_worker: Mapping[str, Any] | None = None
    bounded_by: str = ""
    rendezvous: bool = False
    compresses: bool = False
    changes_batch: bool = False

    @classmethod
    def of_nodes(cls, *roles: Role, **others: Any) -> Self:
        """Return what a strategy of nodes needs: real processes that MPI connects, or a simulation."""
        communicators = ("mpi", "simulated")
        return cls(exchange=Exchange.MESSAGES, collectives=("mpi",), communicators=communicators, roles=roles, **others)

    @property
    def nodes(self) -> bool:
        """Whether it is made of nodes that send each other messages."""
        return self.exchange is Exchange.MESSAGES
