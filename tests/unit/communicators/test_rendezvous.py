"""Which processes are connected, and the likely cause where they are others than expected."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from dlbench.communicators._rendezvous import check, explain, short_version

OPEN_MPI, MPICH, GLOO = "Open MPI 5.0.11 at /opt/libmpi.so", "MPICH 4.2 at /opt/libmpich.so", ""
# Library, variables, what the cause names.
CAUSES: list[tuple[str, dict[str, str], str]] = [
    (OPEN_MPI, {}, "`mpirun -np 2`"),
    (OPEN_MPI, {"PMI_RANK": "0", "PMI_SIZE": "2"}, "mpiexec of MPICH"),
    (OPEN_MPI, {"SLURM_PROCID": "0", "PMI_RANK": "0"}, "srun --mpi=pmix"),
    (OPEN_MPI, {"OMPI_COMM_WORLD_SIZE": "3", "PMIX_RANK": "0"}, "started 3 processes: start 2"),
    (OPEN_MPI, {"OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "0"}, "different Open MPI installations"),
    (MPICH, {"OMPI_COMM_WORLD_SIZE": "2"}, "use its own mpiexec"),
    (MPICH, {}, "`mpiexec -n 2`"),
    (GLOO, {}, "`horovodrun --gloo -np 2`"),
    (GLOO, {"HOROVOD_SIZE": "3"}, "started 3 processes: start 2"),
]


def test_the_cause_is_read_from_what_launchers_leave_behind() -> None:
    for library, environ, cause in CAUSES:
        text = explain(2, [("node7", 42)], library, environ)
        assert cause in text, (library, environ)
        assert "process 42 on node7" in text
        assert (library or "Gloo") in text


def test_only_the_right_number_of_distinct_processes_is_complete() -> None:
    for num_workers, processes, is_complete in (
        (2, [("a", 1), ("a", 2)], True),
        (2, [("a", 1), ("b", 1)], True),
        (2, [("a", 1)], False),
        (2, [("a", 1), ("a", 1)], False),
        (1, [("a", 1), ("a", 2)], False),
    ):
        communicator: Any = SimpleNamespace(all_gather=lambda _, processes=processes: processes)
        with nullcontext() if is_complete else pytest.raises(RuntimeError, match="expected to connect"):
            check(communicator, num_workers, OPEN_MPI)


def test_versions_are_short() -> None:
    for text, short in (
        ("Open MPI v5.0.11, package: Open MPI user@host Distribution, ident: 5.0.11", "Open MPI 5.0.11"),
        ("MPICH Version:      4.2.0\nMPICH Release date: today\n", "MPICH 4.2.0"),
        ("Intel(R) MPI Library 2021.9 for Linux* OS\n", "Intel(R) MPI Library 2021.9 for Linux* OS"),
        ("x" * 100, "x" * 60),
    ):
        assert short_version(text) == short
