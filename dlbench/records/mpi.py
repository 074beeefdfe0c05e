"""Which MPI an `mpirun` belongs to, by its version text; each is asked once in a process."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

OPEN_MPI, MPICH, INTEL_MPI = "Open MPI", "MPICH", "Intel MPI"

_VERSIONS = {
    OPEN_MPI: re.compile(r"\(Open MPI\) (\S+)"),
    INTEL_MPI: re.compile(r"Intel\(R\) MPI Library.*? Version (\S+)"),
    MPICH: re.compile(r"^HYDRA build details:.*?^\s*Version:\s+(\S+)", re.DOTALL | re.MULTILINE),
}
_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Mpi:
    """An MPI by its family and version; both empty where they are unknown.

    MVAPICH, which has MPICH's own launcher, is MPICH here.
    """

    family: str = ""
    version: str = ""

    @property
    def has_hydra(self) -> bool:
        """Whether its mpirun is Hydra, MPICH's launcher, or descends from it."""
        return self.family in (MPICH, INTEL_MPI)


def parse_version(text: str) -> Mpi:
    """Return the MPI of an mpirun from what `mpirun --version` prints."""
    matches = ((family, pattern.search(text)) for family, pattern in _VERSIONS.items())
    return next((Mpi(family, match[1]) for family, match in matches if match), Mpi())


def in_one_line(text: str) -> str:
    """Return what `mpirun --version` prints as one line: its first line, which Hydra's lacks."""
    mpi = parse_version(text)
    return f"{MPICH} {mpi.version} (Hydra)" if mpi.family == MPICH else text.strip().split("\n", 1)[0]


@cache
def version_text(mpirun: str, timeout_s: float = _PATIENCE_S) -> str:
    """Return what `mpirun --version` prints; empty for one that is not there or does not answer.

    Args:
        mpirun: Its path, or "".
        timeout_s: How long it may take to answer.
    """
    # Intel's is a script that looks for its programs on PATH.
    path = os.pathsep.join([str(Path(mpirun).parent), os.environ.get("PATH", os.defpath)])
    return printed([mpirun, "--version"], timeout_s, PATH=path)


def printed(argv: Sequence[str], timeout_s: float, **environment: str) -> str:
    """Return what a program prints, in English, however it ends; empty where it is absent or slow."""
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            env={**os.environ, "LC_ALL": "C", **environment}, timeout=timeout_s, check=False,
        ).stdout  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""


def mpi_of(mpirun: str) -> Mpi:
    """Return which MPI an mpirun is of; see `version_text`."""
    return parse_version(version_text(mpirun))
