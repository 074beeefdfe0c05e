"""What to say when the workers did not meet: what was found, which library it was, and the likely cause; pure."""

import re
from collections.abc import Mapping, Sequence

_OPEN_MPI = re.compile(r"^Open MPI v(\S+?),")
_MPICH = re.compile(r"^(MVAPICH2?|MPICH) Version\s*:\s*(\S+)")


def short_version(text: str) -> str:
    """Return the name and version in what MPI_Get_library_version says, such as "Open MPI 5.0.11"."""
    first = text.strip().split("\n", 1)[0].strip()
    if found := _OPEN_MPI.match(first):
        return f"Open MPI {found[1]}"
    if found := _MPICH.match(first):
        return f"{found[1]} {found[2]}"
    return first[:60]


def is_complete(num_workers: int, size: int, processes: Sequence[tuple[str, int]]) -> bool:
    """Whether exactly `num_workers` distinct processes (host, process number) are there."""
    return size == num_workers == len(processes) == len(set(processes))


def complaint(num_workers: int, processes: Sequence[tuple[str, int]], library: str, environ: Mapping[str, str]) -> str:
    """Return the message for a meeting of other processes than expected."""
    found = ", ".join(f"process {number} on {host}" for host, number in processes[:8])
    return (
        f"{num_workers} MPI ranks were to meet, but {len(processes)} did ({found}). "
        f"The MPI library is {library}. {likely_cause(num_workers, library, environ)}"
    )


def likely_cause(num_workers: int, library: str, environ: Mapping[str, str]) -> str:
    """Say why a process finds itself in another world than expected, from the marks that launchers leave."""
    started = environ.get("OMPI_COMM_WORLD_SIZE")
    if library.startswith("Open MPI") and "PMIX_RANK" not in environ and started is None:
        cause = _foreign_launcher(environ)
        return cause or f"No mpirun is seen above this process: start it with `mpirun -np {num_workers}`."
    if started is None:
        return f"No mpiexec of this library is seen above this process: start it with `mpiexec -n {num_workers}`."
    if not library.startswith("Open MPI"):
        return f"Open MPI's mpirun started {started} processes, which this library cannot join: use its own mpiexec."
    if started != str(num_workers):
        return f"mpirun started {started} processes: start {num_workers}."
    return "mpirun and library are of different Open MPI installations: look for a foreign PATH or LD_LIBRARY_PATH."


def _foreign_launcher(environ: Mapping[str, str]) -> str:
    """Name a launcher that speaks another protocol than Open MPI's PMIx; empty where none is seen."""
    if "SLURM_PROCID" in environ:
        return "srun started it without PMIx: use `srun --mpi=pmix` (`srun --mpi=list` shows what there is), or mpirun."
    if "PMI_RANK" in environ:
        return "The mpiexec of MPICH or Intel MPI started it, which Open MPI cannot join: use Open MPI's own mpirun."
    return ""
