"""Which MPI an mpirun is of, from what those that there are print."""

from pathlib import Path

import pytest

from dlbench.records.mpi import Mpi, in_one_line, mpi_of, parse_version

OPEN_MPI_4 = "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n"
OPEN_MPI_5 = "mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n"
HYDRA = """\
HYDRA build details:
    Version:                                 4.3.2
    Release Date:                            Mon Oct  6 11:16:14 AM CDT 2025
    CC:                              gcc
    Process Manager:                         pmi
    Launchers available:                     ssh rsh fork slurm ll lsf sge manual persist
"""
INTEL = """\
Intel(R) MPI Library for Linux* OS, Version 2021.14 Build 20241121 (id: e7829d6)
Copyright 2003-2024, Intel Corporation.
"""


@pytest.mark.parametrize(
    ("text", "mpi", "line"),
    [
        (OPEN_MPI_4, Mpi("Open MPI", "4.1.4"), "mpirun (Open MPI) 4.1.4"),
        (OPEN_MPI_5, Mpi("Open MPI", "5.0.11"), "mpirun (Open MPI) 5.0.11"),
        (HYDRA, Mpi("MPICH", "4.3.2"), "MPICH 4.3.2 (Hydra)"),
        (INTEL, Mpi("Intel MPI", "2021.14"), INTEL.partition("\n")[0]),
        ("something\nelse", Mpi(), "something"),
        ("", Mpi(), ""),
    ],
)
def test_what_it_prints(text: str, mpi: Mpi, line: str) -> None:
    assert parse_version(text) == mpi
    assert in_one_line(text) == line
    assert mpi.has_hydra == (mpi.family in ("MPICH", "Intel MPI"))


def test_it_is_asked_once(tmp_path: Path) -> None:
    program = tmp_path / "mpirun"
    program.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/calls"\ncat <<END\n{HYDRA}END\n')
    program.chmod(0o755)
    assert [mpi_of(str(program)) for _ in range(3)] == [Mpi("MPICH", "4.3.2")] * 3
    assert (tmp_path / "calls").read_text() == "--version\n"


def test_nothing_is_known_of_one_that_is_not_there() -> None:
    assert mpi_of("") == mpi_of("/absent/mpirun") == Mpi()
