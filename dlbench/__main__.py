"""`python -m dlbench` is the command `dlbench`."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working folder, which `-m` has put first
    from dlbench.cli import main

    main()
