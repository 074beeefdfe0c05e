"""The hosts that Slurm has given to the job dlbench runs in, as Slurm's variables say.

The forms are those of Slurm's own documents: `SLURM_JOB_NODELIST` (a list of names, numbers in brackets),
`SLURM_TASKS_PER_NODE` and `SLURM_JOB_CPUS_PER_NODE` (`2(x3),1`), see `man sbatch`, OUTPUT ENVIRONMENT VARIABLES.
"""

import math
import re
from collections.abc import Iterator, Mapping
from itertools import product

from dlbench.errors import UserError, shown
from dlbench.scenario.cluster import Cluster, Host

NODES, TASKS, PROCESSORS = "SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"
# Set where a number of tasks was asked for; the host that we are on, if it is one of the job's.
ASKED, OURS = ("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"), "SLURMD_NODENAME"
_HINT = "--hosts a:4,b:4 overrides what Slurm says"
# More hosts than any cluster has.
_MOST = 100_000
# A name: pieces of plain text and of brackets, up to a comma that stands in no brackets.
_NAME = re.compile(r"(?:[^\[\],]|\[[^\[\]]*\])+")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\],]+)")
_RANGE = re.compile(r"([0-9]{1,12})(?:-([0-9]{1,12}))?", re.ASCII)
_TIMES = re.compile(r"([1-9][0-9]{0,5})(?:\(x([1-9][0-9]{0,5})\))?", re.ASCII)


def allocation(environment: Mapping[str, str]) -> Cluster | None:
    """Return the hosts of the Slurm job we are in, as many slots on each as it has tasks there, else processors.

    None outside of a job, and in a job of the one host that we are on: that is this machine.

    Raises:
        UserError: Slurm's variables have another form.
    """
    if not environment.get(NODES):
        return None
    names = node_names(environment[NODES])
    if names == [environment.get(OURS)]:
        return None
    # Without a requested number of tasks Slurm counts one on each host.
    counted = TASKS if environment.keys() & set(ASKED) else PROCESSORS
    slots = counts_per_node(environment.get(counted) or f"1(x{len(names)})", counted)
    if len(slots) != len(names):
        raise UserError(f"Slurm names {len(names)} hosts ({NODES}) and counts for {len(slots)} ({counted})", hint=_HINT)
    return Cluster(hosts=tuple(Host(address=name, slots=count) for name, count in zip(names, slots, strict=True)))


def node_names(text: str) -> list[str]:
    """Return the names in a list such as `gpu[01-03,7],login`: gpu01 gpu02 gpu03 gpu7 login.

    Raises:
        UserError: It has another form, or more names than any cluster.
    """
    names: list[str] = []
    place = 0
    for match in _NAME.finditer(text):
        if text[place : match.start()] != ("," if names else ""):
            break
        place = match.end()
        pieces = [list(_piece(piece)) for piece in _PIECE.finditer(match[0])]
        _limit(len(names) + math.prod(map(len, pieces)))
        names += ["".join(parts) for parts in product(*pieces)]
    if not names or place != len(text) or len(set(names)) != len(names):
        raise UserError(f"{NODES}={shown(text)} is not a list of hosts", hint=_HINT)
    return names


def counts_per_node(text: str, name: str) -> list[int]:
    """Return the number for each host in a list such as `2(x3),1`: 2 2 2 1.

    Args:
        text: The list.
        name: The variable it is from, for messages.

    Raises:
        UserError: It has another form.
    """
    counts: list[int] = []
    for part in text.split(","):
        match = _TIMES.fullmatch(part)
        if match is None:
            raise UserError(f"{name}={shown(text)} is not a list of numbers for each host", hint=_HINT)
        counts += [int(match[1])] * int(match[2] or 1)
        _limit(len(counts))
    return counts


def _piece(found: re.Match[str]) -> Iterator[str]:
    """Yield what a piece of a name stands for: itself, or each number in brackets, as many digits as the first has."""
    if found[1] is None:
        yield found[2]
        return
    for part in found[1].split(","):
        ends = _RANGE.fullmatch(part)
        if ends is None:
            raise UserError(f"{NODES}: {shown(found[0])} is not a list of numbers", hint=_HINT)
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last < first:
            raise UserError(f"{NODES}: {shown(found[0])} is not a list of numbers", hint=_HINT)
        _limit(last - first + 1)
        yield from (f"{number:0{len(ends[1])}d}" for number in range(first, last + 1))


def _limit(count: int) -> None:
    if count > _MOST:
        raise UserError(f"Slurm's variables name more than {_MOST} hosts", hint=_HINT)
