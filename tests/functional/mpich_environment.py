"""An environment in which mpi4py finds MPICH: its own `mpich` and `mpi4py`, all else is that of the tests."""

import subprocess
import sys
import sysconfig
from pathlib import Path

# Proven with these. They are no part of what the tests install, for two MPIs in one environment spoil each other.
PACKAGES = ("mpich==5.0.2", "mpi4py==4.1.2")
# Looked through after the environment's own packages.
_ALL_ELSE = "import site; site.addsitedir({packages!r})\n"


def make_environment(folder: Path) -> Path:
    """Make it, which takes some seconds and loads a few megabytes, and return its interpreter.

    Args:
        folder: Where; must not exist.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    options = ("--disable-pip-version-check", "--quiet", "--no-deps", "--only-binary", ":all:")
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), "install", *options, *PACKAGES], check=True)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (own / "all_else.pth").write_text(_ALL_ELSE.format(packages=sysconfig.get_path("purelib")))
    return python
