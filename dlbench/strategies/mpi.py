"""All-reduce of one fused gradient buffer over MPI: the library's own algorithms, or dlbench's own ring.

An MCA parameter is only a request: another component may stand above `tuned` (`han` does, over several hosts), a rules
file may outrank it, and a misspelt name is silently ignored. So a run asks the library which algorithm it selected.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pydantic import Field

from dlbench.plugins import Options
from dlbench.records.mpi import mpi_of
from dlbench.records.software import mpirun_path
from dlbench.scenario.needs import Needs
from dlbench.scenario.settings import Settings
from dlbench.strategies import Array, Communicator, _volume
from dlbench.strategies._ring import CHUNK_BYTES, Ring
from dlbench.strategies._step import Between
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Trainer

NEEDS = Needs(
    collectives=("mpi",),
    communicators=("mpi",),
    algorithms=("auto", "ring", "recursive-doubling", "rabenseifner", "own-ring"),
    as_one_worker={},
    compresses=True,
    changes_batch=True,
)

# dlbench's names, and the names in Open MPI's own enumeration of `coll_tuned_allreduce_algorithm`, which takes names
# as well as numbers: the library maps them, whatever numbers its version gives.
NAMES = {"recursive-doubling": "recursive_doubling", "ring": "ring", "rabenseifner": "rabenseifner"}

DYNAMIC = "coll_tuned_use_dynamic_rules"
ALGORITHM = "coll_tuned_allreduce_algorithm"
RULES_FILE = "coll_tuned_dynamic_rules_filename"

# Makes the library print the component that serves a communicator: levels 1 to 9 give one short line for each.
ASK = {"coll_base_verbose": "9"}

# These stand above the others and pass every call on.
INTERPOSERS = frozenset({"monitoring", "sync", "accelerator", "cuda"})


class MpiOptions(Options):
    """Options of the strategy `mpi`."""

    chunk_bytes: int = Field(
        CHUNK_BYTES, ge=0, description="Longest message of `own-ring`; 0 sends each block whole. Others do not read it."
    )


OPTIONS = MpiOptions


class MpiLibraryCommunicator(Communicator, Protocol):
    """A communicator that reports what the MPI library beneath it does."""

    # Name and version, such as "Open MPI 5.0.11".
    library: str
    # Components that serve the communicator's collectives, the first asked last; empty where the library is silent.
    components: tuple[str, ...]

    def control_variable(self, name: str) -> str | None:
        """Return the effective value of one of the library's control variables, None where it has none."""


def mca(algorithm: str | None) -> dict[str, str]:
    """Return the MCA parameters, by name without prefix, that make Open MPI use an algorithm and report what it uses.

    `tuned` gets a priority above all components that can reduce (`han` 35, `xhc`, `acoll`, `ucc`), rather than
    those being excluded one by one: the list differs between versions and builds.
    """
    if algorithm == "own-ring":
        return {}
    if algorithm not in NAMES:
        return dict(ASK)
    return ASK | {"coll_tuned_priority": "100", DYNAMIC: "1", ALGORITHM: NAMES[algorithm], "coll_han_priority": "0"}


def refuse(options: MpiOptions, settings: Settings) -> str:
    """Return why the mpirun that is here cannot start a run with this algorithm, or ""."""
    if settings.algorithm not in NAMES:
        return ""
    here = mpi_of(str(mpirun_path() or ""))
    if not here.has_hydra:
        return ""
    return (
        f"the algorithm {settings.algorithm} is selected and proven in Open MPI alone; the mpirun here is "
        f"{here.family}'s: use `auto`, its own choice, or `own-ring`"
    )


def verify_algorithm(algorithm: str, components: Sequence[str], read: Callable[[str], str | None]) -> str:
    """Return what the library itself reports about the all-reduce it uses; pure.

    Args:
        algorithm: One of `NAMES`, or another name where the choice is the library's.
        components: Components that serve the communicator, the last one first asked, as the library printed them.
        read: Reads the effective value of a control variable (MPI_T).

    Raises:
        RuntimeError: The report contradicts the algorithm, or there is none.
    """
    serving = [name for name in components if name not in INTERPOSERS]
    if algorithm not in NAMES:
        return f"component {serving[-1]}" if serving else ""
    reported = {"component": serving[-1] if serving else None, DYNAMIC: read(DYNAMIC), ALGORITHM: read(ALGORITHM)}
    wanted = {"component": "tuned", DYNAMIC: "true", ALGORITHM: NAMES[algorithm]}
    if reported != wanted or read(RULES_FILE):
        raise RuntimeError(_contradiction(algorithm, reported, read(RULES_FILE)))
    return f"component tuned; {DYNAMIC} = true; {ALGORITHM} = {NAMES[algorithm]}"


def _contradiction(algorithm: str, found: dict[str, str | None], rules_file: str | None) -> str:
    values = [f"{name} = {value or 'unknown'}" for name, value in found.items()]
    if rules_file:
        values.append(f"{RULES_FILE} = {rules_file}, which outranks them")
    options = " ".join(f"--mca {name} {value}" for name, value in mca(algorithm).items())
    return (
        f"the all-reduce should be {algorithm}, but the MPI library reports: {'; '.join(values)}. "
        f"Select it with `mpirun {options}`, or with OMPI_MCA_ variables of these names (Open MPI 4 and 5)"
    )


class _AllReduce(ABC):
    """What both ways of reducing share: the step, and the name of the library."""

    def __init__(self, communicator: MpiLibraryCommunicator) -> None:
        self.communicator = communicator

    @abstractmethod
    def all_reduce(self, gradient: Array) -> Array:
        """Overwrite the gradient with the sum over all workers and return it."""

    def bind(self, trainer: Trainer, reporter: Reporter) -> Between:
        """Return the step: gradients are reduced between two compiled calls."""
        return Between(trainer, reporter, self.communicator.barrier, self.communicator.size, self.all_reduce)

    def facts(self) -> dict[str, Any]:
        """Return the library's name and version."""
        return {"collectives": "mpi", "mpi_version": self.communicator.library}


class LibraryAllReduce(_AllReduce):
    """The library's all-reduce, in place: a second buffer costs a copy of everything (45 MB: 13 ms become 17)."""

    def __init__(self, communicator: MpiLibraryCommunicator, algorithm: str) -> None:
        super().__init__(communicator)
        self.proof = ""
        if communicator.size > 1:
            self.proof = verify_algorithm(algorithm, communicator.components, communicator.control_variable)
        self._volume = _volume.LIBRARY.get(algorithm)
        self.bytes_sent = None if self._volume is None else 0

    def all_reduce(self, gradient: Array) -> Array:
        """Overwrite the gradient with the sum over all workers and return it."""
        self.communicator.all_reduce(gradient, gradient)
        if self._volume is not None:
            elements = self._volume(gradient.size, self.communicator.size, self.communicator.rank)
            self.bytes_sent = (self.bytes_sent or 0) + elements * gradient.itemsize
        return gradient

    def facts(self) -> dict[str, Any]:
        """Return the library and what it reports about the algorithm."""
        return super().facts() | ({"algorithm_proof": self.proof} if self.proof else {})


class OwnRing(_AllReduce):
    """dlbench's ring, which counts its bytes as it sends them."""

    def __init__(self, communicator: MpiLibraryCommunicator, chunk_bytes: int) -> None:
        super().__init__(communicator)
        self._ring = Ring(communicator, chunk_bytes)

    @property
    def bytes_sent(self) -> int | None:
        """Bytes sent so far."""
        return self._ring.bytes_sent

    def all_reduce(self, gradient: Array) -> Array:
        """Overwrite the gradient with the sum over all workers and return it."""
        return self._ring.all_reduce(gradient)


def create(
    options: MpiOptions, communicator: MpiLibraryCommunicator, algorithm: str | None
) -> LibraryAllReduce | OwnRing:
    """Return one worker's side of the all-reduce.

    Raises:
        RuntimeError: The library does not use the algorithm that was asked for.
    """
    algorithm = algorithm or NEEDS.algorithms[0]
    if algorithm == "own-ring":
        return OwnRing(communicator, options.chunk_bytes)
    return LibraryAllReduce(communicator, algorithm)
