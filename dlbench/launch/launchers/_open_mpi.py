"""Open MPI's words and variables, the same for versions 4 and 5; pure but for who we are."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from dlbench.launch.environment import AGENTS
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
    in_turn = "seq" if layout.returns_to_a_host else ""
    placing = ("--bind-to", "none", "--map-by", f"{in_turn}:OVERSUBSCRIBE")
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


def daemons(layout: Layout, ssh: str, silence_s: float, variable: str) -> dict[str, str]:
    """Return the variables of mpirun's daemons on other hosts; version 5 reads those of PRTE, version 4 those of OMPI.

    A daemon whose host is cut off ends itself, and mpirun ends the run and names the host. The kernel probes a
    connection that has been silent for a third of the time, and then some four times more. By default that takes 8
    minutes. A daemon ends when mpirun is gone, or nearly always: the others are found by the variable.

    Args:
        layout: Who runs where.
        ssh: The command that reaches a host; empty for plain ssh.
        silence_s: About how long the other end may be silent, in seconds.
        variable: What every daemon is started with, `NAME=value`.
    """
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


def _waiting(layout: Layout) -> dict[str, str]:
    """Return how a rank waits: it gives its core away where ranks share cores, else it polls.

    Open MPI would decide by slots, not by cores, and so differently from arm to arm.
    """
    return {"mpi_yield_when_idle": "1" if "oversubscribed" in layout.emulated else "0"}


def _hosts(mpirun: str, layout: Layout) -> tuple[str, ...]:
    """Return the host list `-H a:2,b:2`, and where Open MPI is there; nothing where all are on this machine.

    Mapped one after the other (`seq`), each process has its host named.
    """
    if layout.is_here:
        return ()
    prefix = str(Path(mpirun).parents[1]) if Path(mpirun).is_absolute() else sys.prefix
    listed = ",".join(place.host for place in layout.places) if layout.returns_to_a_host else layout.host_list
    return (*(("--prefix", prefix) if len(layout.hosts) > 1 else ()), "-H", listed)
