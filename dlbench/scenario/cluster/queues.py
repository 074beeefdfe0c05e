"""Jobs of queues whose hosts dlbench does not find on its own: which option names them."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from dlbench.cgroups import usable_cores
from dlbench.errors import UserError, shorten
from dlbench.scenario.cluster.allocation import NODES

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
_LSF_PAIRS, _LSF_NAMES = "LSB_MCPU_HOSTS", "LSB_HOSTS"
_FLUX, _FLUX_HOSTS = ("FLUX_JOB_ID", "FLUX_URI"), "FLUX_JOB_NNODES"
_OLD_SLURM = "SLURM_NODELIST"
# Outside of a job the second is an option of srun.
_SLURM_JOB, _SLURM_COUNTS = ("SLURM_JOB_ID", "SLURM_JOBID"), ("SLURM_JOB_NUM_NODES", "SLURM_NNODES")


def refuse_unnamed_hosts(environment: Mapping[str, str]) -> None:
    """Refuse to take this machine for the hosts of a job that has several.

    Raises:
        UserError: Says which queue's job it is, and the option that names its hosts.
    """
    for queue, variable in _FILES.items():
        if path := environment.get(variable):
            _refuse(queue, _hosts_in(Path(path)), f"{variable}={shorten(path)}", f'--hostfile "${variable}"')
    if not environment.get(_FILES["LSF"]):
        _refuse_lists_of_lsf(environment)
    if not environment.get(NODES):
        _refuse_slurm_without_list(environment)
    if any(map(environment.get, _FLUX)):
        num_hosts = 1 if environment.get(_FLUX_HOSTS) == "1" else 0
        _refuse("Flux", num_hosts, "`flux resource list` shows them", "--hosts a:4,b:4")


def _refuse_lists_of_lsf(environment: Mapping[str, str]) -> None:
    words = environment.get(_LSF_PAIRS, "").split()
    slots: Mapping[str, str | int]
    if words and len(words) % 2 == 0:
        slots, variable = dict(zip(words[::2], words[1::2], strict=True)), _LSF_PAIRS
    else:
        slots, variable = Counter(environment.get(_LSF_NAMES, "").split()), _LSF_NAMES
    if slots:
        listed = ",".join(f"{name}:{count}" for name, count in slots.items())
        _refuse("LSF", len(slots), variable, f"--hosts {listed}")


def _refuse_slurm_without_list(environment: Mapping[str, str]) -> None:
    names = (_OLD_SLURM, *(_SLURM_COUNTS if any(map(environment.get, _SLURM_JOB)) else ()))
    if variable := next(filter(environment.get, names), ""):
        value = environment[variable]
        is_one = value == "1" if variable in _SLURM_COUNTS else not set(value) & set(",[")
        _refuse("Slurm", int(is_one), f"{variable}={shorten(value)} and no {NODES}", "--hosts a:4,b:4")


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
