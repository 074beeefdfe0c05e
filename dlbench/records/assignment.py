"""What the launching side hands to every process of a run: one JSON text in the environment, no file needed.

A shared filesystem is not assumed, and an argument list is readable by every user of a host, so the assignment with
its token travels in the environment variable `DLBENCH_ASSIGNMENT`.
"""

from pydantic import Field

from dlbench.scenario.frozen import Frozen
from dlbench.scenario.layout import Layout
from dlbench.scenario.run_spec import RunSpec

VARIABLE = "DLBENCH_ASSIGNMENT"
# Marks every process of one attempt, so that what is left of it is found whoever its parent is by then.
ATTEMPT_VARIABLE = "DLBENCH_ATTEMPT"
# The rank of a process where the launcher is `local`; others set their own (see `dlbench.worker.process.rank`).
RANK_VARIABLE = "DLBENCH_RANK"
# The network interface to other hosts, and this host's address on it: what every process has chosen for all libraries.
INTERFACE_VARIABLE = "DLBENCH_INTERFACE"
ADDRESS_VARIABLE = "DLBENCH_ADDRESS"


class Endpoint(Frozen):
    """Where rows go: address and port of the telemetry server, and the token of the attempt."""

    address: str
    port: int
    token: str


class Assignment(Frozen):
    """One attempt of one run, as every one of its processes receives it.

    Attributes:
        run: The run.
        attempt: 1, 2, ...
        attempt_id: Unique over all attempts anywhere; also in the environment as `DLBENCH_ATTEMPT`.
        layout: Every process of the run.
        endpoint: Where rows go; None in a dry run.
        data_folder: Prepared data set where dlbench was called; empty for a run of the user's own script.
        data_folders: The same on other hosts, by address.
        data_checksum: What `meta.json` in that folder must say.
        data_doubt: Why scores on its validation samples are doubtful; empty where they are not.
        addresses: Host and free port of processes of a user's script, by rank: of those on worker 0's host, or of all.
        log_folder: Folder for `worker-<rank>.log`; each process writes its own.
        checkpoint_folder: Folder of the run's checkpoints, on the host of worker 0; empty where none are made.
    """

    run: RunSpec
    attempt: int
    attempt_id: str
    layout: Layout
    endpoint: Endpoint | None = None
    data_folder: str = ""
    data_folders: dict[str, str] = Field(default_factory=dict)
    data_checksum: str = ""
    data_doubt: str = ""
    addresses: tuple[str, ...] = ()
    log_folder: str = ""
    checkpoint_folder: str = ""

    def data_folder_of(self, rank: int) -> str:
        """Return the prepared data set on the host of a process."""
        return self.data_folders.get(self.layout.places[rank].host, self.data_folder)
