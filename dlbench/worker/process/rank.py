"""Which process of which run this one is: the assignment, and the rank that every launcher says in its own way."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from dlbench.errors import UserError
from dlbench.records.assignment import RANK_VARIABLE, VARIABLE, Assignment
from dlbench.scenario.layout import Layout
from dlbench.scenario.source import first_fault


@dataclass(frozen=True)
class RankSource:
    """Who says the rank, and in which variables; an empty name where it does not say."""

    name: str
    rank: str
    local_rank: str = ""
    size: str = ""


# The first source whose rank is set is believed. What is set inside something else comes first: mpirun inside a
# Slurm allocation leaves Slurm's variables of the surrounding step in place.
SOURCES = (
    RankSource("dlbench", RANK_VARIABLE),
    RankSource("Horovod", "HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_SIZE"),
    RankSource("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    RankSource("MPICH", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
    RankSource("PMIx", "PMIX_RANK"),
    RankSource("Slurm", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"),
)


@dataclass(frozen=True)
class Identity:
    """This process: its rank, its index on its host and the number of processes; None where it is unknown."""

    rank: int
    local_rank: int | None = None
    size: int | None = None
    source: str = ""


def read_assignment(environment: Mapping[str, str]) -> Assignment:
    """Return the assignment from the environment.

    Raises:
        UserError: There is none, or it cannot be read.
    """
    text = environment.get(VARIABLE)
    if text is None:
        raise UserError(f"{VARIABLE} is not set: a worker is started by `dlbench run`")
    try:
        return Assignment.model_validate_json(text)
    except ValidationError as error:
        raise UserError(
            f"{VARIABLE} cannot be read: {first_fault(error)}",
            hint="is the same version of dlbench installed on every host?",
        ) from error


def from_environment(environment: Mapping[str, str]) -> Identity | None:
    """Return what the launcher says of this process, or None where no launcher does.

    Raises:
        UserError: A variable that should hold a number does not.
    """
    for source in SOURCES:
        rank = _number(environment, source.rank)
        if rank is not None:
            local_rank, size = _number(environment, source.local_rank), _number(environment, source.size)
            return Identity(rank, local_rank, size, source.name)
    return None


def identify(environment: Mapping[str, str], layout: Layout) -> Identity:
    """Return which process of the layout this one is.

    Raises:
        UserError: The launcher started another number of processes than the run has, or does not say which this is.
    """
    found = from_environment(environment)
    if found is None:
        if len(layout.places) == 1:
            return Identity(0, 0, 1)
        raise UserError(
            f"this run has {len(layout.places)} processes and nothing says which one this is",
            hint="none of these is set: " + ", ".join(source.rank for source in SOURCES),
        )
    check(layout, found.rank, found.size, f"{found.source} says")
    return found


def check(layout: Layout, rank: int, size: int | None, who: str) -> None:
    """Check a rank and a size (None: unknown) against the layout; `who` begins the sentence that refuses them.

    Raises:
        UserError: They do not fit.
    """
    expected = len(layout.places)
    if size is not None and size != expected:
        raise UserError(
            f"{who} there are {size} processes, this run has {expected}",
            hint="the program's MPI library is not that of the launcher, or the program was started without one"
            if size == 1
            else "start as many processes as the run has workers",
        )
    if not 0 <= rank < expected:
        raise UserError(f"{who} this is rank {rank}, this run has ranks 0 to {expected - 1}")


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "") if name else ""
    if not text:
        return None
    if not text.isdecimal():
        raise UserError(f"the environment variable {name} should be a number and is {text!r}")
    return int(text)
