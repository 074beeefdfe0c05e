"""How workers synchronise gradients or parameters, one strategy in each file.

A strategy file holds a one-line doc, `OPTIONS`, `NEEDS` (`dlbench.scenario.needs.Needs`) and

    def create(options: Options, communicator: Communicator, algorithm: str | None) -> Strategy: ...

and, where the library beneath it is set up by variables, may be missing, or does not support every setting,

    def environment(options: Options, assignment: Assignment) -> dict[str, str]: ...  # pure; in the plan, on all hosts
    def available(settings: Settings) -> str: ...   # "" where it works here, else what is missing
    def refuse(options: Options, settings: Settings) -> str: ...   # "" where the run is possible, else why not

and, where the engine itself holds the replicas, its strategy has a method

    def distribution(self, engine: Any) -> Any: ...  # such as a `tf.distribute.Strategy`, given the module tensorflow

or, where it can be simulated (see `dlbench.strategies._protocol`), and in place of `create` where it is made of nodes
that send messages (`NEEDS = Needs.of_nodes(...)`),

    def node(options: Options, world: World, role: str, index: int, port: Port) -> WorkerNode | OtherNode: ...
                                                                         # of each role that `NEEDS` has, and workers
                                                                         # (`AssignedWorkerNode`s where `assigned_by`)
    def batches_per_update(options: Options, workers: int) -> int: ...   # where it is neither 1 (samples are handed
                                                                         # out) nor all (each has its share of a step)
    def share_of_gradient(options: Options, workers: int) -> float | None: ...  # where samples are handed out, and a
                                                                         # gradient enters with another part than
                                                                         # 1 / batches; None: each with another

A strategy of lock step binds a step to its trainer (`dlbench.strategies._step`): `Between` two compiled calls a flat
gradient is reduced, `Inside` the compiled call a hook reduces. Gradients arrive already scaled by 1 / samples of all
workers in the step, so that their *sum* over workers is the mean over the step, whatever the sizes of the local
batches. In an epoch's last, smaller step a worker may have no samples: its gradient is zero, and it takes part like the
others. A step whose exchange is no sum `takes_local_means`. A strategy that remembers something from step to step,
such as what a compression left out, has besides

    def state(self) -> dict[str, Array]: ...                     # copies, flat vectors by name
    def set_state(self, state: Mapping[str, Array]) -> None: ...

so that checkpoints keep it.
"""

from typing import Any, Protocol

import numpy.typing as npt

from dlbench.scenario.settings import Settings
from dlbench.strategies._step import Step
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Trainer

Array = npt.NDArray[Any]


def is_plain_sgd(settings: Settings) -> bool:
    """Whether the optimizer subtracts rate x gradient and nothing else."""
    return settings.optimizer == "sgd" and not settings.momentum and not settings.weight_decay


class Communicator(Protocol):
    """What carries a strategy's messages, and the worker's own barriers and sums of counts.

    All operations are collective unless they name a peer. Arrays are contiguous and of equal shape everywhere.
    """

    rank: int
    size: int

    def barrier(self) -> None:
        """Wait for every worker."""

    def broadcast(self, array: Array, root: int = 0) -> None:
        """Overwrite `array` with the root's."""

    def all_reduce(self, array: Array, out: Array, operation: str = "sum") -> None:
        """Write the `sum`, `max` or `min` of all workers' `array` to `out`; `out` may be `array` itself."""

    def all_gather(self, value: Any) -> list[Any]:
        """Return every worker's JSON-able value, by rank."""

    def sendrecv(self, send: Array, to: int, receive: Array, source: int) -> None:
        """Send to one peer and receive from one peer at once (point to point)."""

    def close(self) -> None:
        """Disconnect; a collective."""


class GroupCommunicator(Communicator, Protocol):
    """What strategies of sharded models and of groups need besides; the communicator `mpi` has it. All collective."""

    def all_gather_array(self, array: Array, out: Array) -> None:
        """Write all workers' arrays [n] to `out` [size, n], by rank."""

    def reduce_scatter(self, array: Array, out: Array) -> None:
        """Write the sum of all workers' row of this rank of `array` [size, n] to `out` [n]."""

    def all_to_all(self, send: Array, receive: Array) -> None:
        """Send row i of `send` [size, n] to rank i, and write what rank i has sent to row i of `receive` [size, n]."""

    def split(self, color: int) -> "GroupCommunicator":
        """Return the group of all ranks with the same color, such as those of one host."""


class Strategy(Protocol):
    """One worker's side of a synchronisation strategy."""

    @property
    def bytes_sent(self) -> int | None:
        """Bytes this worker has sent in reductions so far; None where it cannot count."""

    def bind(self, trainer: Trainer, reporter: Reporter) -> Step:
        """Return the step of a trainer that holds the common first weights; compiles it."""

    def facts(self) -> dict[str, Any]:
        """Return what is known once, by column name: `collectives`, `mpi_version`, `algorithm_proof`."""
