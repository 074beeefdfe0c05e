"""`python -m dlbench.launch.doctor.mpi_library`: which MPI library mpi4py loads; MPI is not started."""

import json
import re
from pathlib import Path

_LIBRARY = re.compile(r"(/.*/libmpi[\w-]*\.so[.\d]*)$", re.MULTILINE)


def main() -> None:
    """Print its file and what it says of itself, or why there is none."""
    try:
        import mpi4py

        mpi4py.rc.initialize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        print(json.dumps({"problem": str(error).split("\n")[0]}))  # noqa: T201
        return
    found = _LIBRARY.search(Path("/proc/self/maps").read_text())
    told = {
        "library": found[1] if found else "",
        "library_version": MPI.Get_library_version().split(",")[0].strip("\0 \n"),
    }
    print(json.dumps(told))  # noqa: T201


if __name__ == "__main__":
    main()
