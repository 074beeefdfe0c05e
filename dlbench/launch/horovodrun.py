"""`python -m dlbench.launch.horovodrun ARGUMENTS`: Horovod's horovodrun, which keeps values off the command lines.

horovodrun writes every variable of its environment with its value into the command line of each process, which all
users of a host can read, and whose length is limited. On this host the processes inherit the environment anyway.
"""

import sys


def main() -> None:
    """Run horovodrun on `sys.argv`; exits with its code."""
    from horovod.runner.common.util import env
    from horovod.runner.launch import run_commandline

    # Regular expressions of names that are not exported (`horovod/runner/common/util/env.py`).
    env.IGNORE_REGEXES.add(".*")
    sys.exit(run_commandline())


if __name__ == "__main__":
    main()
