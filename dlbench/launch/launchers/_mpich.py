"""The words and variables of MPICH's mpirun, which is Hydra, and of Intel MPI's, which descends from it; pure.

See `mpiexec -help` and https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md.
"""

import shlex

from dlbench.errors import UserError
from dlbench.launch.environment import HYDRA_AGENT
from dlbench.scenario.layout import Layout

_LAST = ("/usr/bin/env", "DLBENCH_LAST=1")


def argv(mpirun: str, layout: Layout, program: tuple[str, ...], variables: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command; variables are passed on by their names.

    In a job Hydra would ask the queue for hosts: they are named here. It forgets the last variable of its own
    environment (5.0.2), so that one more is put there.
    """
    count = ("-n", str(len(layout.places)))
    passed = ("-genvlist", ",".join(variables))
    return (*_LAST, mpirun, *count, "-rmk", "user", *_hosts(layout), "-bind-to", "none", *passed, *program)


def environment(layout: Layout) -> dict[str, str]:
    """Return how a rank waits: it gives its core away for a moment where ranks share cores, else it polls.

    Two ranks on one core then sum 4 kB in 0.3 ms in place of 1 to 2 (MPICH 5.0.2, which ignores the number of
    `MPIR_CVAR_POLLS_BEFORE_YIELD`).
    """
    return {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1" if "oversubscribed" in layout.emulated else "0"}


def daemons(ssh: str) -> dict[str, str]:
    """Return the variables that set the command that reaches another host: the program, and its arguments.

    Raises:
        UserError: An argument holds a space, at which Hydra would cut it.
    """
    if not ssh:
        return {}
    program, *arguments = shlex.split(ssh)
    odd = next((word for word in arguments if not word or set(word) & set(" \t")), None)
    if odd is not None:
        raise UserError(
            f"MPICH cannot give ssh the argument {odd!r}: it cuts arguments at spaces",
            hint="write a script that calls ssh with it, and name the script in its place",
        )
    values = (program, " ".join(arguments))
    return {name: value for name, value in zip(HYDRA_AGENT, values, strict=True) if value}


def _hosts(layout: Layout) -> tuple[str, ...]:
    """Return the host list `-hosts a:2,b:2`; on this machine alone nothing but that no other is to be reached."""
    if layout.is_here:
        return ("-launcher", "fork")
    # It takes a name, not a network; by default other hosts call this one's name.
    interface = ("-iface", layout.interface) if layout.interface and "/" not in layout.interface else ()
    return ("-launcher", "ssh", *interface, "-hosts", layout.host_list)
