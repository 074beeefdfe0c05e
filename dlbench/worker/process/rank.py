"""Which process of which run this one is: the assignment, and the rank that every launcher says in its own way."""

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import ValidationError

from dlbench.errors import UserError
from dlbench.records.assignment import RANK_VARIABLE, VARIABLE, Assignment
from dlbench.scenario.layout import Layout
from dlbench.scenario.source import first_fault


class RankSource(NamedTuple):
    """Who says the rank, and in which variables; `size` is empty where it does not say the number of processes."""

    name: str
    rank: str
    size: str = ""


# The first source whose rank is set is believed. What is set inside something else comes first: mpirun inside a
# Slurm allocation leaves Slurm's variables of the surrounding step in place.
SOURCES = (
    RankSource("dlbench", RANK_VARIABLE),
    RankSource("Horovod", "HOROVOD_RANK", "HOROVOD_SIZE"),
    RankSource("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    RankSource("MPICH", "PMI_RANK", "PMI_SIZE"),
    RankSource("PMIx", "PMIX_RANK"),
    RankSource("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    RankSource("torchrun", "RANK", "WORLD_SIZE"),
)


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


def identify(environment: Mapping[str, str], layout: Layout, *, has_peers_inside: bool = False) -> int:
    """Return the rank of this process in the layout.

    Args:
        environment: Of this process.
        layout: Of the run.
        has_peers_inside: Whether a process of the layout starts its own workers, of which the first alone is meant.

    Raises:
        UserError: The launcher started another number of processes than the run has, does not say which this is, or
            says it with something else than a number.
    """
    # dlbench's own variable is that of the process which has started them.
    for source in SOURCES[1:] if has_peers_inside else SOURCES:
        rank = _number(environment, source.rank)
        if rank is not None:
            size = None if has_peers_inside else _number(environment, source.size)
            check(layout, rank, size, f"{source.name} says")
            return rank
    if len(layout.places) == 1:
        return 0
    raise UserError(
        f"this run has {len(layout.places)} processes and nothing says which one this is",
        hint="none of these is set: " + ", ".join(source.rank for source in SOURCES),
    )


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
            else "start as many processes as the run has workers; `begin` gets rank and size of all of them "
            "(COMM_WORLD), not of a sub-communicator",
        )
    if not 0 <= rank < expected:
        raise UserError(f"{who} this is rank {rank}, this run has ranks 0 to {expected - 1}")


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    if not text:
        return None
    if not text.isdecimal():
        raise UserError(f"the environment variable {name} should be a number and is {text!r}")
    return int(text)
