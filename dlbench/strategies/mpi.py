"""All-reduce of one fused gradient buffer over MPI: the library's own algorithms, or a ring of dlbench's own."""

from typing import Any, Protocol

from pydantic import Field

from dlbench.errors import UserError, nearest
from dlbench.plugins import Options
from dlbench.records.mpi import mpi_of
from dlbench.records.software import mpirun_path
from dlbench.scenario.needs import Needs
from dlbench.scenario.settings import Settings
from dlbench.strategies import Array, Driver, _selection, _volume
from dlbench.strategies._ring import Ring

NEEDS = Needs(
    collectives=("mpi",),
    drivers=("mpi",),
    algorithms=("auto", "ring", "recursive-doubling", "rabenseifner", "own-ring"),
)


class MpiOptions(Options):
    """Options of the strategy `mpi`."""

    chunk_bytes: int = Field(
        1 << 20, ge=0, description="Longest message of `own-ring`; 0 sends each block whole. Others do not read it."
    )


OPTIONS = MpiOptions


class MpiDriver(Driver, Protocol):
    """A driver that can say what the MPI library beneath it does."""

    # Name and version, such as "Open MPI 5.0.11".
    library: str
    # Components that serve the communicator's collectives, the first asked last; empty where the library is silent.
    components: tuple[str, ...]

    def control_variable(self, name: str) -> str | None:
        """Return the effective value of one of the library's control variables, None where it has none."""


def mca(algorithm: str | None) -> dict[str, str]:
    """Return the MCA parameters, by name without prefix, that a launcher hands to Open MPI for an algorithm."""
    return {} if algorithm == "own-ring" else _selection.parameters(algorithm or NEEDS.algorithms[0])


def refuse(options: MpiOptions, settings: Settings) -> str:
    """Return why the mpirun that is here cannot start a run with this algorithm, or ""."""
    here = mpi_of(str(mpirun_path() or ""))
    if settings.algorithm not in _selection.NAMES or not here.has_hydra:
        return ""
    return (
        f"the algorithm {settings.algorithm} is one that Open MPI is told to take and then says it took; "
        f"the mpirun here is {here.family}'s, which says nothing of the kind: use `auto`, its own choice, or `own-ring`"
    )


class _AllReduce:
    """What both ways of reducing share: start from worker 0's parameters, and say which library carried them."""

    in_graph = None
    in_forward = None

    def __init__(self, driver: MpiDriver) -> None:
        self.driver = driver

    def broadcast(self, parameters: Array) -> None:
        """Overwrite the flat parameters with worker 0's."""
        self.driver.broadcast(parameters)

    def facts(self) -> dict[str, Any]:
        """Return the library's name and version."""
        return {"collectives": "mpi", "mpi_version": self.driver.library}


class LibraryAllReduce(_AllReduce):
    """The library's all-reduce, in place: a second buffer costs a copy of everything (45 MB: 13 ms become 17)."""

    def __init__(self, driver: MpiDriver, algorithm: str) -> None:
        super().__init__(driver)
        self.proof = ""
        if driver.size > 1:
            self.proof = _selection.prove(algorithm, driver.components, driver.control_variable)
        self._volume = _volume.LIBRARY.get(algorithm)
        self.bytes_sent = None if self._volume is None else 0
        self.messages_sent = None if self._volume is None else 0

    def exchange(self, gradient: Array) -> Array:
        """Overwrite the gradient with the sum over all workers and return it."""
        self.driver.all_reduce(gradient, gradient)
        if self._volume is not None:
            sent = self._volume(gradient.size, self.driver.size, self.driver.rank)
            self.bytes_sent = (self.bytes_sent or 0) + sent.elements * gradient.itemsize
            self.messages_sent = (self.messages_sent or 0) + sent.messages
        return gradient

    def facts(self) -> dict[str, Any]:
        """Return the library and its own account of the algorithm."""
        return super().facts() | ({"algorithm_proof": self.proof} if self.proof else {})


class OwnRing(_AllReduce):
    """dlbench's ring; `bytes_sent` and `messages_sent` are counted as they are sent."""

    def __init__(self, driver: MpiDriver, chunk_bytes: int) -> None:
        super().__init__(driver)
        self._ring = Ring(driver, chunk_bytes)

    @property
    def bytes_sent(self) -> int | None:
        """Bytes sent so far."""
        return self._ring.bytes_sent

    @property
    def messages_sent(self) -> int | None:
        """Messages sent so far."""
        return self._ring.messages_sent

    def exchange(self, gradient: Array) -> Array:
        """Overwrite the gradient with the sum over all workers and return it."""
        self._ring.all_reduce(gradient)
        return gradient


def create(options: MpiOptions, driver: MpiDriver, algorithm: str | None) -> LibraryAllReduce | OwnRing:
    """Return one worker's side of the all-reduce.

    Raises:
        UserError: There is no such algorithm.
        RuntimeError: The library does not use the algorithm that was asked for.
    """
    algorithm = algorithm or NEEDS.algorithms[0]
    if algorithm not in NEEDS.algorithms:
        raise UserError(
            f"the strategy `mpi` has no algorithm {algorithm!r}; it has: {', '.join(NEEDS.algorithms)}",
            hint=nearest(algorithm, NEEDS.algorithms),
        )
    if algorithm == "own-ring":
        return OwnRing(driver, options.chunk_bytes)
    return LibraryAllReduce(driver, algorithm)
