"""`python -m dlbench.launch.horovodrun ARGUMENTS`: Horovod's horovodrun, which keeps values off the command lines.

horovodrun writes every variable of its environment with its value into the command line of each process, which all
users of a host can read, and whose length is limited. On this host the processes inherit the environment anyway.

Before it starts any, horovodrun loads the engine, for seconds, to ask whether Horovod was built with the library that
was asked for. Workers find out as well: they are then not connected.
"""

import sys


def main() -> None:
    """Run horovodrun on `sys.argv`; exits with its code."""
    from horovod.runner import launch
    from horovod.runner.common.util import env

    # Regular expressions of names that are not exported (`horovod/runner/common/util/env.py`).
    env.IGNORE_REGEXES.add(".*")
    launch.gloo_built = launch.mpi_built = lambda verbose=False: True
    sys.exit(launch.run_commandline())


if __name__ == "__main__":
    main()
