import pytest

from dlbench.drivers._mpi_meeting import complaint, is_complete, likely_cause, short_version

PAIR = [("a", 1), ("a", 2)]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Open MPI v5.0.11, package: Open MPI user@host Distribution, ident: 5.0.11", "Open MPI 5.0.11"),
        ("MPICH Version:      4.2.0\nMPICH Release date: today\n", "MPICH 4.2.0"),
        ("Intel(R) MPI Library 2021.9 for Linux* OS\n", "Intel(R) MPI Library 2021.9 for Linux* OS"),
        ("x" * 100, "x" * 60),
    ],
)
def test_versions_are_short(said: str, expected: str) -> None:
    assert short_version(said) == expected


def test_only_the_right_number_of_distinct_processes_is_complete() -> None:
    assert is_complete(2, 2, PAIR)
    assert not is_complete(2, 1, PAIR[:1])
    assert not is_complete(2, 2, [("a", 1), ("a", 1)])
    assert not is_complete(1, 2, PAIR)
    assert is_complete(2, 2, [("a", 1), ("b", 1)])


def test_the_complaint_says_what_was_found_and_in_which_library() -> None:
    message = complaint(2, [("node7", 42)], "Open MPI 5.0.11 at /opt/libmpi.so", {})
    for part in ("2 MPI ranks were to meet, but 1 did", "process 42 on node7", "Open MPI 5.0.11 at /opt/libmpi.so"):
        assert part in message


@pytest.mark.parametrize(
    ("library", "environ", "expected"),
    [
        ("Open MPI 5", {}, "No mpirun is seen"),
        ("Open MPI 5", {"PMI_RANK": "0", "PMI_SIZE": "2"}, "mpiexec of MPICH"),
        ("Open MPI 5", {"SLURM_PROCID": "0", "PMI_RANK": "0"}, "srun --mpi=pmix"),
        ("Open MPI 5", {"OMPI_COMM_WORLD_SIZE": "3", "PMIX_RANK": "0"}, "started 3 processes: start 2"),
        ("Open MPI 5", {"OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "0"}, "different Open MPI installations"),
        ("MPICH 4.2", {"OMPI_COMM_WORLD_SIZE": "2"}, "use its own mpiexec"),
        ("MPICH 4.2", {}, "start it with `mpiexec -n 2`"),
    ],
)
def test_the_cause_is_read_from_the_marks_of_launchers(library: str, environ: dict[str, str], expected: str) -> None:
    assert expected in likely_cause(2, library, environ)
