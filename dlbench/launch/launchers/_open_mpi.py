"""Open MPI's words and variables, the same for versions 4 and 5; pure but for who we are."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from dlbench.launch.environment import AGENTS
from dlbench.launch.launchers._placing import host_list, is_here
from dlbench.scenario.layout import Layout

# MPI_Init takes 1.1 s while it probes for fast networks; these transports take 0.07 s and move as many bytes on TCP
# and shared memory. A cluster with InfiniBand sets `launcher.mca` to its own.
_TRANSPORTS = {"pml": "ob1", "btl": "self,sm,tcp"}
# Version 4 fails on the name `sm`: the transport was called so before version 3, and is again since 5.
_TRANSPORTS_OF_4 = {"pml": "ob1", "btl": "self,vader,tcp"}
_LONGEST_SILENCE_S = 86_400
_PROBES = 4


def argv(mpirun: str, layout: Layout, program: tuple[str, ...], variables: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command; each variable is passed on by its name."""
    placing = ("--bind-to", "none", "--map-by", ":OVERSUBSCRIBE")
    passed = [word for name in variables for word in ("-x", name)]
    return (mpirun, "-np", str(len(layout.places)), *_hosts(mpirun, layout), *placing, *passed, *program)


def environment(
    layout: Layout, chosen: Mapping[str, str], asked: Mapping[str, str], version: str = ""
) -> dict[str, str]:
    """Return Open MPI's parameters as variables, and the leave to run as root where we do.

    Open MPI 5 reads some parameters in its libraries (`OMPI_MCA_*`) and others in its launcher (`PRTE_MCA_*`) and
    ignores the wrong kind in silence, so a user's own are set as both.

    Args:
        layout: Who runs where.
        chosen: The user's own parameters, which win.
        asked: What the strategy asks for.
        version: Of the mpirun that is here; "" where it is not known.
    """
    transports = _TRANSPORTS_OF_4 if version.startswith(("3.", "4.")) else _TRANSPORTS
    ours = {**transports, **_waiting(layout), **asked}
    env = {f"OMPI_MCA_{name}": value for name, value in {**ours, **chosen}.items()}
    env |= {f"PRTE_MCA_{name}": value for name, value in chosen.items()}
    if os.geteuid() == 0:
        env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return env


def reaching(command: str) -> dict[str, str]:
    """Return the variables that set the command that reaches another host."""
    return dict.fromkeys(AGENTS, command)


def silence(layout: Layout, longest_s: float) -> dict[str, str]:
    """Return the variables by which mpirun and its daemons on other hosts notice in time that the other is gone.

    A daemon whose host is cut off ends itself, and mpirun ends the run and names the host. The kernel
    probes a connection that has been silent for a third of the time, and then some four times more. By
    default that takes 8 minutes.

    Args:
        layout: Who runs where.
        longest_s: About how long the other may be silent, in seconds.
    """
    if is_here(layout):
        return {}
    total = max(2, min(_LONGEST_SILENCE_S, round(longest_s)))
    idle = max(1, total // 3)
    interval = max(1, round((total - idle) / _PROBES))
    probes = max(1, round((total - idle) / interval))
    found = {"keepalive_time": idle, "keepalive_intvl": interval, "keepalive_probes": probes}
    # Version 5 reads the one, version 4 the other.
    return {f"{kind}_MCA_oob_tcp_{name}": str(value) for kind in ("OMPI", "PRTE") for name, value in found.items()}


def carrying(layout: Layout, variable: str) -> dict[str, str]:
    """Return the variables by which mpirun starts its daemons on other hosts with a variable, `NAME=value`.

    A daemon ends by itself when mpirun is gone, or nearly always: it is then found by this variable.
    """
    if is_here(layout):
        return {}
    # Version 5 reads the one, version 4 the other.
    agents = {"PRTE_MCA_prte_launch_agent": "prted", "OMPI_MCA_orte_launch_agent": "orted"}
    return {name: f"env {variable} {daemon}" for name, daemon in agents.items()}


def _waiting(layout: Layout) -> dict[str, str]:
    """Return how a rank waits: it gives its core away where ranks share cores, else it polls.

    Open MPI would decide by slots, not by cores, and so differently from arm to arm.
    """
    return {"mpi_yield_when_idle": "1" if "oversubscribed" in layout.emulated else "0"}


def _hosts(mpirun: str, layout: Layout) -> tuple[str, ...]:
    """Return the host list `-H a:2,b:2`, and where Open MPI is there; nothing where all are on this machine."""
    if is_here(layout):
        return ()
    prefix = str(Path(mpirun).parents[1]) if Path(mpirun).is_absolute() else sys.prefix
    return (*(("--prefix", prefix) if len(layout.hosts) > 1 else ()), "-H", host_list(layout))
