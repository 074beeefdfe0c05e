"""Whether exactly the expected processes are connected, and if not, why not: read from what launchers leave behind."""

import os
import re
import socket
from collections.abc import Mapping, Sequence

from dlbench.strategies import Communicator

_OPEN_MPI = re.compile(r"^Open MPI v(\S+?),")
_MPICH = re.compile(r"^(MVAPICH2?|MPICH) Version\s*:\s*(\S+)")


def check(communicator: Communicator, num_workers: int, library: str) -> None:
    """Make sure that exactly `num_workers` distinct processes are connected; a collective.

    Args:
        communicator: Connects the processes.
        num_workers: Number of processes expected.
        library: Version and file of the MPI library; "" over Gloo.

    Raises:
        RuntimeError: Other processes are connected; says which, and the likely cause.
    """
    processes = [(host, pid) for host, pid in communicator.all_gather([socket.gethostname(), os.getpid()])]
    if not num_workers == len(processes) == len(set(processes)):
        raise RuntimeError(explain(num_workers, processes, library, os.environ))


def explain(num_workers: int, processes: Sequence[tuple[str, int]], library: str, environ: Mapping[str, str]) -> str:
    """Return what was expected, what is connected, through which library, and the likely cause; pure."""
    joined = ", ".join(f"process {pid} on {host}" for host, pid in processes[:8])
    if not library:
        cause = f"No horovodrun started this process: start it with `horovodrun --gloo -np {num_workers}`."
        if "HOROVOD_SIZE" in environ:
            cause = f"horovodrun started {environ['HOROVOD_SIZE']} processes: start {num_workers}."
        return f"{num_workers} workers were expected to connect over Gloo, but {len(processes)} did ({joined}). {cause}"
    return (
        f"{num_workers} MPI ranks were expected to connect, but {len(processes)} did ({joined}). "
        f"The MPI library is {library}. {_cause_over_mpi(num_workers, library, environ)}"
    )


def short_version(text: str) -> str:
    """Return name and version from the text of MPI_Get_library_version, such as "Open MPI 5.0.11"."""
    first = text.strip().split("\n", 1)[0].strip()
    if match := _OPEN_MPI.match(first):
        return f"Open MPI {match[1]}"
    if match := _MPICH.match(first):
        return f"{match[1]} {match[2]}"
    return first[:60]


def _cause_over_mpi(num_workers: int, library: str, environ: Mapping[str, str]) -> str:
    """Return why a process is in another MPI_COMM_WORLD than expected."""
    started, is_open_mpi = environ.get("OMPI_COMM_WORLD_SIZE"), library.startswith("Open MPI")
    if is_open_mpi and "PMIX_RANK" not in environ and started is None:
        if "SLURM_PROCID" in environ:
            advice = "use `srun --mpi=pmix` (`srun --mpi=list` shows what there is), or mpirun"
            return f"srun started it without PMIx: {advice}."
        if "PMI_RANK" in environ:
            return (
                "The mpiexec of MPICH or Intel MPI started it, which Open MPI cannot join: use Open MPI's own mpirun."
            )
        return f"No mpirun started this process: start it with `mpirun -np {num_workers}`."
    if started is None:
        return f"No mpiexec of this library started this process: start it with `mpiexec -n {num_workers}`."
    if not is_open_mpi:
        return f"Open MPI's mpirun started {started} processes, which this library cannot join: use its own mpiexec."
    if started != str(num_workers):
        return f"mpirun started {started} processes: start {num_workers}."
    return "mpirun and library are of different Open MPI installations: look for a foreign PATH or LD_LIBRARY_PATH."
