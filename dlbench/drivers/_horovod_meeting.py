"""What to say when Horovod's workers did not meet; pure."""

from collections.abc import Mapping, Sequence

from dlbench.drivers import _mpi_meeting


def complaint(
    num_workers: int, processes: Sequence[tuple[str, int]], mpi_library: str, environ: Mapping[str, str]
) -> str:
    """Return the message for a meeting of other processes than expected; `mpi_library` is empty over Gloo."""
    if mpi_library:
        return _mpi_meeting.complaint(num_workers, processes, mpi_library, environ)
    found = ", ".join(f"process {number} on {host}" for host, number in processes[:8])
    return (
        f"{num_workers} workers were to meet over Gloo, but {len(processes)} did ({found}). "
        f"{_likely_cause(num_workers, environ)}"
    )


def _likely_cause(num_workers: int, environ: Mapping[str, str]) -> str:
    started = environ.get("HOROVOD_SIZE")
    if started is None:
        return f"No horovodrun is seen above this process: start it with `horovodrun --gloo -np {num_workers}`."
    return f"horovodrun started {started} processes: start {num_workers}."
