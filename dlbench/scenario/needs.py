"""What a strategy needs of the world, known without importing a framework."""

from typing import Self

from pydantic import BaseModel, ConfigDict


class Role(BaseModel):
    """What some of a strategy's processes do beside its workers; they come after these, in the order of roles.

    Attributes:
        name: What a process is called: `server`.
        count: How many there are, or the setting that says it.
        placement: The setting that says where they are (`Placement`); where empty, they are beside workers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    count: int | str = 1
    placement: str = ""


# Holds a part of the parameters, and trains nothing.
SERVER = Role(name="server", count="servers", placement="server_placement")
# Scores parameters while others train: of any strategy made of nodes, where the setting `evaluator` asks for it.
EVALUATOR = Role(name="evaluator", placement="evaluator")


class Needs(BaseModel):
    """What a strategy asks of launcher, layout and trainer; validation and planning read it.

    Attributes:
        one_process: Whether one process holds all workers (`mirrored`); else each worker is a process.
        collectives: Libraries that can carry it (`mpi`, `gloo`, `nccl`, `grpc`); empty where it needs none.
        communicators: Communicators that can carry its messages, the default first; empty where it needs none.
        algorithms: Values of `algorithm`, the default first; empty where there is no choice.
        min_workers: Fewest workers.
        max_workers: Most workers, or None.
        trainers: Trainers that can serve it; empty means any.
        reduces_in_step: Whether it reduces inside the compiled step (`in_graph`), and so can also average batch
            statistics over workers in the forward pass (`in_forward`).
        jit: Whether the compiled step may be compiled with XLA.
        nodes: Whether it is made of nodes that send each other messages (`dlbench.strategies._protocol`).
        simulated: Whether it can be simulated (`communicator: simulated`), though it has no communicator.
        roles: What processes there are beside workers, such as `SERVER`.
        hands_out: Whether the next samples go to the worker that asks first; else each worker has its share of a step.
        shares_memory: Whether workers read and write common parameters (`dlbench.strategies._protocol.Memory`).
        agrees: Whether all workers hold the same parameters at the end.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    one_process: bool = False
    collectives: tuple[str, ...] = ()
    communicators: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    min_workers: int = 1
    max_workers: int | None = None
    trainers: tuple[str, ...] = ()
    reduces_in_step: bool = False
    jit: bool = True
    nodes: bool = False
    simulated: bool = False
    roles: tuple[Role, ...] = ()
    hands_out: bool = False
    shares_memory: bool = False
    agrees: bool = True

    @classmethod
    def of_nodes(cls, *roles: Role, hands_out: bool = False, shares_memory: bool = False, agrees: bool = True) -> Self:
        """Return what a strategy of nodes needs: real processes that MPI connects, or a simulation."""
        return cls(
            collectives=("mpi",),
            communicators=("mpi", "simulated"),
            nodes=True,
            roles=roles,
            hands_out=hands_out,
            shares_memory=shares_memory,
            agrees=agrees,
        )
