"""The command `dlbench`, which is also `python -m dlbench`."""

import os
import sys


def main() -> None:
    """Run `dlbench`, with the working folder out of this interpreter's path before any library is imported."""
    entries = os.environ["PYTHONPATH"].split(os.pathsep) if os.environ.get("PYTHONPATH") else []
    # As `site` has made them absolute.
    relative = {os.path.abspath(entry) for entry in entries if not entry.startswith("/")}  # noqa: PTH100
    sys.path[:] = [folder for folder in sys.path if folder in entries or folder not in relative]
    try:
        from dlbench.cli import main as run

        run()
    except KeyboardInterrupt:  # before there is a command that ends in order
        sys.stderr.write("dlbench: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working folder, which `-m` has put first
    main()
