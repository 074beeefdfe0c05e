"""One worker under Horovod: runs every part and hands in what they found."""

import os
import sys
from pathlib import Path

from dlbench import plugins
from dlbench.communicators import _rendezvous
from dlbench.communicators.horovod import HorovodCommunicator, connect, mpi_library
from dlbench.scenario.settings import Settings
from dlbench.trainers import Threads
from tests.functional.horovod_programs import batch_norm, operations, train
from tests.functional.mpi_programs.launch import hand_in

PARTS = {"operations": operations.failures, "rules": train.cases, "batch_norm": batch_norm.differences}


def main(workers: int) -> None:
    """Connect, run the parts and hand in their results."""
    plugins.load("trainers", "keras_tensorflow").get("start")(Settings(), Threads(1, 1))
    communicator = connect(workers)
    found = {name: part(communicator) for name, part in PARTS.items()}
    others = {"size": communicator.size, "facts": communicator.facts(), "command_lines": command_lines()}
    hand_in(communicator.rank, {**found, **others, "one_too_few": one_too_few(communicator)})
    communicator.close()
    communicator.close()


def one_too_few(communicator: HorovodCommunicator) -> str:
    """Return the error of a rendezvous that expects one more process."""
    try:
        _rendezvous.check(communicator, communicator.size + 1, mpi_library() if communicator.hvd.mpi_enabled() else "")
    except RuntimeError as error:
        return str(error)
    return ""


def command_lines() -> list[str]:
    """Return the command lines of this process and of all above it."""
    found, pid = [], os.getpid()
    while pid > 1:
        found.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]))
