"""The hosts of the job of a queue that dlbench runs in: those of Slurm by its variables, others by the option for them.

The forms are those of Slurm's own documents: `SLURM_JOB_NODELIST` (a list of names, numbers in brackets),
`SLURM_TASKS_PER_NODE` and `SLURM_JOB_CPUS_PER_NODE` (`2(x3),1`), see `man sbatch`, OUTPUT ENVIRONMENT VARIABLES.
"""

import contextlib
import math
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

from dlbench.cgroups import usable_cores
from dlbench.errors import UserError, shorten, shown
from dlbench.scenario.cluster import Cluster, Host

NODES, TASKS, PROCESSORS = "SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"
# Of the host that we are on, for all; else as asked for, which is all that is set on a host outside of the job. Of all
# hosts together, where that was asked for.
GPUS, ALL_GPUS = ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"), "SLURM_GPUS"
# Set where a number of tasks was asked for; the host that we are on, if it is one of the job's.
ASKED, OURS = ("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"), "SLURMD_NODENAME"
_HINT = "--hosts a:4,b:4 overrides what Slurm says"
# More hosts than any cluster has.
_MOST = 100_000
# A name: pieces of plain text and of brackets, up to a comma that stands in no brackets.
_NAME = re.compile(r"(?![._-])(?:[A-Za-z0-9._-]|\[[^\[\]]*\])+")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\],]+)")
_RANGE = re.compile(r"([0-9]{1,12})(?:-([0-9]{1,12}))?", re.ASCII)
_TIMES = re.compile(r"([1-9][0-9]{0,5})(?:\(x([1-9][0-9]{0,5})\))?", re.ASCII)
# The variable that names a job's file of hosts, by queue.
_FILES = {
    "PBS": "PBS_NODEFILE",
    "LSF": "LSB_DJOB_HOSTFILE",
    "Grid Engine": "PE_HOSTFILE",
    "Cobalt": "COBALT_NODEFILE",
    "OAR": "OAR_NODEFILE",
    "Fujitsu": "PJM_O_NODEINF",
    "HyperQueue": "HQ_NODE_FILE",
    "LoadLeveler": "LOADL_HOSTFILE",
}
_LSF_PAIRS, _SLURM_COUNT = "LSB_MCPU_HOSTS", "SLURM_JOB_NUM_NODES"
_FLUX, _FLUX_HOSTS = ("FLUX_JOB_ID", "FLUX_URI"), "FLUX_JOB_NNODES"
_HET_GROUP = re.compile(r"SLURM_JOB_NODELIST_HET_GROUP_[0-9]+", re.ASCII)
# How many processes a launcher has started, by launcher; srun may set PMI_SIZE, too.
_SIZES = {
    "mpirun": "OMPI_COMM_WORLD_SIZE", "srun": "SLURM_STEP_NUM_TASKS", "mpiexec": "PMI_SIZE",
    "torchrun": "WORLD_SIZE", "horovodrun": "HOROVOD_SIZE",
}  # fmt: skip


def allocation(environment: Mapping[str, str]) -> Cluster | None:
    """Return the hosts of the Slurm job we are in, as many slots on each as it has tasks, GPUs or else processors.

    None outside of a job, and in a job of the one host that we are on: that is this machine.

    Raises:
        UserError: Slurm's variables have another form, or the job is heterogeneous.
    """
    # A job that is submitted within a heterogeneous one inherits the lists, and has other hosts.
    groups = {name: hosts for name, hosts in sorted(environment.items()) if _HET_GROUP.fullmatch(name)}
    if len(groups) > 1 and environment.get(NODES) in (None, *groups.values()):
        lists = ", ".join(f"{name}={hosts}" for name, hosts in groups.items())
        raise UserError(
            f"this Slurm job has {len(groups)} components ({shorten(lists)}), and dlbench would take the hosts of one",
            hint="--hosts a:4,b:4 names those to use; `scontrol show hostnames LIST` writes a list out",
        )
    if not environment.get(NODES):
        return None
    names = node_names(environment[NODES])
    if names == [environment.get(OURS)]:
        return None
    # Without a requested number of tasks Slurm counts one on each host.
    per_host = GPUS if len(names) > 1 else (*GPUS, ALL_GPUS)
    of_gpus = next((name for name in per_host if environment.get(name) not in (None, "", "0")), PROCESSORS)
    counted = TASKS if environment.keys() & set(ASKED) else of_gpus
    text = environment.get(counted) or "1"
    if counted in per_host or not environment.get(counted):
        text = f"{_total(text)}(x{len(names)})"
    slots = counts_per_node(text, counted)
    gpus = _total(environment.get(ALL_GPUS) or "0")
    if counted != TASKS and gpus not in ("0", str(sum(slots))):
        raise UserError(
            f"Slurm gives {shorten(gpus)} GPUs ({ALL_GPUS}) to {len(names)} hosts, and not how many to each", hint=_HINT
        )
    if len(slots) != len(names):
        raise UserError(f"Slurm names {len(names)} hosts ({NODES}) and counts for {len(slots)} ({counted})", hint=_HINT)
    return Cluster(hosts=tuple(Host(address=name, slots=count) for name, count in zip(names, slots, strict=True)))


def processors(environment: Mapping[str, str]) -> dict[str, int]:
    """Return how many processors the Slurm job that we are in has on each of its hosts; nothing where that is unknown.

    Which ones they are is not in Slurm's variables, and its own numbers of them are not the kernel's.
    """
    if not (environment.get(NODES) and environment.get(PROCESSORS)):
        return {}
    with contextlib.suppress(UserError, ValueError):  # hosts were named in place of these
        counts = counts_per_node(environment[PROCESSORS], PROCESSORS)
        return dict(zip(node_names(environment[NODES]), counts, strict=True))
    return {}


def refuse_several_of_us(environment: Mapping[str, str]) -> None:
    """Refuse to be one of several dlbench that a launcher has started: each would make the whole study.

    Raises:
        UserError: Says which has, and how many.
    """
    # A job that is submitted within a step inherits the step's variables, and has its own number of tasks. In
    # `srun -n4 --pty bash` the first task alone has a terminal.
    is_step = environment.get("SLURM_NTASKS") == environment.get("SLURM_STEP_NUM_TASKS")
    is_shell = "SLURM_PTY_PORT" in environment and environment.get("SLURM_PROCID") == "0"
    # Other programs than torchrun set WORLD_SIZE, too.
    is_no_size = {
        "srun": is_shell or not is_step, "mpiexec": is_shell, "torchrun": "TORCHELASTIC_RUN_ID" not in environment
    }  # fmt: skip
    for launcher, name in _SIZES.items():
        size = environment.get(name) or "1"
        if size != "1" and not is_no_size.get(launcher):
            raise UserError(
                f"dlbench is one of {shorten(size)} tasks that {launcher} has started; each would make the whole study",
                hint=f"start it once, without {launcher}: it starts the workers itself",
            )


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


def _total(gpus: str) -> str:
    """Return the number of GPUs in a text such as `a100:2,v100:2`; the text itself where it has another form."""
    numbers = [part.rpartition(":")[2] for part in gpus.split(",")]
    return str(sum(map(int, numbers))) if all(map(str.isdecimal, numbers)) else gpus


def _piece(piece: re.Match[str]) -> Iterator[str]:
    """Yield what a piece of a name stands for: itself, or each number in brackets, as many digits as the first has."""
    if piece[1] is None:
        yield piece[2]
        return
    for part in piece[1].split(","):
        ends = _RANGE.fullmatch(part)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if ends is None or last < first:
            raise UserError(f"{NODES}: {shown(piece[0])} is not a list of numbers", hint=_HINT)
        _limit(last - first + 1)
        yield from (f"{number:0{len(ends[1])}d}" for number in range(first, last + 1))


def _limit(count: int) -> None:
    if count > _MOST:
        raise UserError(f"Slurm's variables name more than {_MOST} hosts", hint=_HINT)


def refuse_unnamed_hosts(environment: Mapping[str, str]) -> None:
    """Refuse to take this machine for the hosts of a job that has several.

    Raises:
        UserError: Says which queue's job it is, and the option that names its hosts.
    """
    for queue, variable in _FILES.items():
        if path := environment.get(variable):
            _refuse(queue, _hosts_in(Path(path)), f"{variable}={shorten(path)}", f'--hostfile "${variable}"')
    if not environment.get(_FILES["LSF"]) and (words := environment.get(_LSF_PAIRS, "").split()):
        counts = words[1::2]
        # LSF may list the host first that a job is launched from.
        first = int(counts[:1] == ["1"] and "1" not in counts[1:])
        pairs = ",".join(map(":".join, list(zip(words[::2], counts, strict=False))[first:]))
        where = _LSF_PAIRS + ", whose first host may only launch the job" * first
        _refuse("LSF", len(words) // 2, where, f"--hosts {pairs or 'a:4,b:4'}")
    if not environment.get(NODES) and (number := environment.get(_SLURM_COUNT)):
        _refuse("Slurm", int(number == "1"), f"{_SLURM_COUNT}={shorten(number)} and no {NODES}", "--hosts a:4,b:4")
    if any(map(environment.get, _FLUX)):
        num_hosts = 1 if environment.get(_FLUX_HOSTS) == "1" else 0
        _refuse("Flux", num_hosts, "`flux resource list` shows them", "--hosts a:4,b:4")


def _refuse(queue: str, num_hosts: int, where: str, option: str) -> None:
    """Refuse a job of several hosts; 0 where it is not known how many it has."""
    if num_hosts == 1:
        return
    hosts = f"has {num_hosts} hosts" if num_hosts else "may have several hosts"
    here = f"--hosts localhost:{len(usable_cores())}"
    raise UserError(
        f"this {queue} job {hosts} ({where}), and no option names them",
        hint=f"{option} uses them, and {here} this machine alone",
    )


def _hosts_in(path: Path) -> int:
    """Return how many hosts a queue's file names; 0 if it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    return len({line.split()[0] for line in lines if line.strip()})
