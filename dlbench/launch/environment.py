"""The environment of a launcher process, made from an explicit base: leaking variables removed, thread pools set."""

import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from dlbench.records.assignment import (
    ADDRESS_VARIABLE,
    ATTEMPT_VARIABLE,
    INTERFACE_VARIABLE,
    RANK_VARIABLE,
    VARIABLE,
)
from dlbench.records.variables import TUNING
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.layout import Layout
from dlbench.search_path import PATH_VARIABLE, relative_entries

# Set by launchers, schedulers and earlier jobs around us; inside a job they would make it another one.
_LEAKING_PREFIXES = (
    "OMPI_", "PMIX_", "PMI_", "PRTE_", "HYDRA_", "HYDI_", "MPICH_", "MPIR_", "MPI_LOCAL", "HOROVOD_", "OMP_", "MKL_",
    "OPENBLAS_", "KMP_", "GOMP_", "TORCHELASTIC_", "PET_",
)  # fmt: skip
_LEAKING = frozenset({
    VARIABLE, ATTEMPT_VARIABLE, RANK_VARIABLE, INTERFACE_VARIABLE, ADDRESS_VARIABLE, "RANK", "WORLD_SIZE",
    # What a shell happens to set, the hosts of a run would not all have.
    "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TF_CONFIG", "TF_XLA_FLAGS", "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS", "GOTO_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONDEVMODE", "PYTHONTRACEMALLOC", "PYTHONPROFILEIMPORTTIME",
    "PYTHONASYNCIODEBUG", "PYTHONMALLOC",
})  # fmt: skip
# The program with which Open MPI 5 and 4 start theirs on other hosts.
AGENTS = ("PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent")
# The same for MPICH: the program, and its arguments.
HYDRA_AGENT = ("HYDRA_LAUNCHER_EXEC", "HYDRA_LAUNCHER_EXTRA_ARGS")
# Variables that hold paths of this machine: a run needs them, a published record does not.
LOCAL_VARIABLES = frozenset({"PATH", PATH_VARIABLE, "LD_LIBRARY_PATH", "HOROVOD_AUTOTUNE_LOG", *AGENTS, *HYDRA_AGENT})
# Python dumps its stacks and flushes its output, and TensorFlow's notes are silenced.
LOGGING_VARIABLES = {"PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
# Not set to tune a worker: how MPI starts processes and where it is, as queues and modules set it, what mpirun sets for
# its own tasks (Open MPI 5, and 4), and what importing scikit-learn sets.
_NOT_BY_USERS = re.compile(
    r"OMPI_MCA_(PREFIXES|cpu_type|initial_wdir|num_procs|ess\w*|pmix|shmem_RUNTIME_QUERY_hint)"
    r"|(OMPI|PRTE)_MCA_(orte|plm|prte|ras)_\w+|PMIX_MCA_\w+|I_MPI_(HYDRA_\w+|PMI_LIBRARY|ROOT)|FI_PROVIDER_PATH"
    r"|MPICH_(DIR|INTERFACE_HOSTNAME|VERSION)|KMP_INIT_AT_FORK|KMP_DUPLICATE_LIB_OK"
)


def agent(cluster: Cluster, base: Mapping[str, str]) -> str:
    """Return the command that reaches another host, as the cluster or an MPI's own variables say it; "" for ssh."""
    of_open_mpi = next((base[name] for name in AGENTS if base.get(name)), "")
    program, arguments = (base.get(name, "") for name in HYDRA_AGENT)
    return cluster.ssh or of_open_mpi or (f"{shlex.quote(program)} {arguments}".strip() if program else "")


def cleaned(base: Mapping[str, str], *, keep_slurm: bool) -> dict[str, str]:
    """Return the base environment without what leaks into a job and changes it."""
    prefixes = _LEAKING_PREFIXES if keep_slurm else (*_LEAKING_PREFIXES, "SLURM_")
    return {name: value for name, value in base.items() if name not in _LEAKING and not name.startswith(prefixes)}


def not_passed_on(base: Mapping[str, str], cluster: Cluster, launchers: Collection[str]) -> str:
    """Return a line that names the variables set here for libraries that workers do not get; empty if there are none.

    Args:
        base: The environment that dlbench was started in.
        cluster: Where runs are made; its own variables reach every worker.
        launchers: The launchers of the runs; only srun and ray hand the whole environment to other hosts.
    """
    kept = {} if not cluster.is_here and set(launchers) - {"srun", "ray"} else cleaned(base, keep_slurm=True)
    names = [
        name for name in sorted(base)
        if TUNING.fullmatch(name) and not _NOT_BY_USERS.fullmatch(name) and name not in {*kept, *cluster.environment}
    ]  # fmt: skip
    relative = [repr(entry) for entry in relative_entries(base)]
    parts = [
        f"{', '.join(names)}; a cluster file (--cluster) sets variables of workers: `environment`" * bool(names),
        "threads follow the setting `cores_per_worker`" * any("_NUM_" in name and "THREADS" in name for name in names),
        "TF_CONFIG: dlbench itself says where workers are" * ("TF_CONFIG" in base.keys() - cluster.environment.keys()),
        "Horovod's settings are options of its strategy" * any(name.startswith("HOROVOD_") for name in names),
        f"entries of PYTHONPATH that are not absolute ({', '.join(relative)})" * bool(relative),
    ]
    text = "; ".join(filter(None, parts))
    where = "" if cluster.is_here else " on all hosts"
    return f"not passed on to workers{where}: {text}" if text else ""


def thread_variables(layout: Layout) -> dict[str, str]:
    """Return the variables that set every thread pool to the layout's number of threads."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
    intra = dict.fromkeys(names, str(layout.intra_op_threads))
    return intra | {"TF_NUM_INTEROP_THREADS": str(layout.inter_op_threads)}


def search_paths(base: Mapping[str, str], python: str) -> dict[str, str]:
    """Return PATH and, where the user has set it, LD_LIBRARY_PATH, with this Python's environment in front.

    A user's LD_LIBRARY_PATH that names another Open MPI would put its libraries under our `mpirun`, which then fails
    with undefined symbols.
    """
    folder = Path(python).parent
    paths = {"PATH": _in_front(base.get("PATH", ""), str(folder))}
    if base.get("LD_LIBRARY_PATH"):
        libraries = folder.parent / "lib"
        paths["LD_LIBRARY_PATH"] = _in_front(base["LD_LIBRARY_PATH"], str(libraries), str(libraries / "openmpi"))
    return paths


def _in_front(path: str, *folders: str) -> str:
    behind = [folder for folder in path.split(":") if folder and folder not in folders]
    return ":".join([*folders, *behind])
