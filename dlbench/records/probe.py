"""What a trial of one batch size answers: both sides of `python -m dlbench.worker.probe <bytes>`.

The process has an assignment in its environment as a worker has. The last line that it prints is its answer; one that
ends without an answer could not even report its failure.
"""

from pydantic import BaseModel, ConfigDict

from dlbench.search_path import program

PROGRAM = program("dlbench.worker.probe")
ANSWER = "dlbench-probe-answer: "


class ProbeResult(BaseModel):
    """What a trial found.

    Attributes:
        fits: Whether the steps could be made in the memory given; else it ran out of it.
        reason: Why not: the first line of the error.
        train_samples: Training samples that the run has.
        device_name: Processor or accelerator.
        on_accelerator: Whether the device's own memory was the limit, not the host's.
        resident_peak_bytes: Largest resident memory of the process on its host.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fits: bool
    reason: str = ""
    train_samples: int
    device_name: str
    on_accelerator: bool
    resident_peak_bytes: int
