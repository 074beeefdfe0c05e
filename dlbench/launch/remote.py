"""A program of dlbench's, run on another host: in the folder dlbench was called in, with the same interpreter.

Hosts are reached as Open MPI will reach them, by ssh or by what the cluster file or Open MPI's parameter says.
"""

import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from dlbench.errors import shorten
from dlbench.launch.environment import agent
from dlbench.scenario.cluster import Cluster, Host

# A folder that is not there leaves the program where ssh begins.
_SHELL = ("sh", "-c", 'cd "$1" 2>/dev/null; shift; exec "$@"', "sh")

# A host that is down is known to be so after this; one that is up answers in a second.
_CONNECT_S = 10
_SSH_FAILED, _NO_COMMAND = 255, (126, 127)


# ssh to more hosts at once would be more processes than some machines start.
_MOST_AT_ONCE = 64
_Found = TypeVar("_Found")


class RemoteError(Exception):
    """Another host could not be asked; the text says why, without the host's name."""


def elsewhere(cluster: Cluster) -> list[Host]:
    """Return the hosts that are not this machine by any of its names."""
    own_names = {socket.gethostname(), socket.getfqdn()}
    return [host for host in cluster.hosts if not host.is_here and host.address not in own_names]


def command(cluster: Cluster, environment: Mapping[str, str]) -> list[str]:
    """Return the command that reaches a host whose address follows it; ssh never asks anybody for a password.

    Args:
        cluster: May say it.
        environment: May say it as Open MPI has it, where the cluster does not.
    """
    words = shlex.split(agent(cluster, environment).partition(" : ")[0]) or ["ssh"]
    if Path(words[0]).name != "ssh":
        return words
    return [*words, "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_S}"]


def argv(
    cluster: Cluster, host: Host, words: Sequence[str], environment: Mapping[str, str], python: str = sys.executable
) -> list[str]:
    """Return the command that runs `python WORDS` on a host.

    Args:
        cluster: Says how it is reached.
        host: The host.
        words: What the interpreter is given, such as `-m dlbench.launch.introduce`.
        environment: Says how it is reached, where the cluster does not.
        python: The interpreter, here and there.
    """
    asked = shlex.join([*_SHELL, str(Path.cwd()), python, *words])
    return [*command(cluster, environment), host.address.strip("[]"), asked]


def run(
    cluster: Cluster,
    host: Host,
    words: Sequence[str],
    environment: Mapping[str, str],
    timeout_s: float,
    python: str = sys.executable,
) -> str:
    """Run a program on a host to its end, and return what it printed.

    Args:
        cluster: Says how it is reached.
        host: The host.
        words: What the interpreter is given.
        environment: Says how it is reached, where the cluster does not.
        timeout_s: The longest time it may take.
        python: The interpreter, here and there.

    Raises:
        RemoteError: The host cannot be reached, or the program fails or takes too long.
    """
    made = argv(cluster, host, words, environment, python)
    try:
        done = subprocess.run(
            made, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout_s,
            start_new_session=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise RemoteError(f"no answer within {timeout_s:g} s") from error
    except OSError as error:
        raise RemoteError(f"{made[0]} cannot be started: {error.strerror or error}") from error
    if done.returncode:
        raise RemoteError(problem_of(done.returncode, done.stderr, python))
    return done.stdout


def at_once(ask: Callable[[Host], _Found], hosts: Sequence[Host]) -> list[_Found]:
    """Return what `ask` finds of each host, in order; all are asked at once, as far as that goes."""
    with ThreadPoolExecutor(min(len(hosts), _MOST_AT_ONCE) or 1) as threads:
        return list(threads.map(ask, hosts))


def answer(printed: str, mark: str) -> dict[str, Any] | None:
    """Return the JSON behind the mark of a program in what it printed; a shell that logs in may print anything.

    None where there is none.
    """
    told = next((line.partition(mark)[2] for line in printed.splitlines() if mark in line), "")
    try:
        found = json.loads(told)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def problem_of(exit_code: int, stderr: str, python: str) -> str:
    """Return why a program of dlbench's that was started on another host has not answered."""
    said = shorten(next((line for line in reversed(stderr.splitlines()) if line.strip()), "it says nothing"))
    if exit_code == _SSH_FAILED:
        return f"cannot be reached: {said}"
    if exit_code in _NO_COMMAND:
        return f"has no {python}: the environment must be at the same place on every host ({said})"
    return f"dlbench does not work there (exit code {exit_code}): {said}"
