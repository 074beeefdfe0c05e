"""How an attempt ended: written once, by the launching side, after every process has ended."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from dlbench.errors import printable
from dlbench.records import files
from dlbench.scenario.frozen import Frozen

# By which engines and libraries say that memory has run out.
OUT_OF_MEMORY_SIGNS = (
    "CUDA out of memory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "RESOURCE_EXHAUSTED",
    "OOM when allocating",
    "Out of memory while trying to allocate",
    "std::bad_alloc",
    "Cannot allocate memory",
    "failed to allocate memory",
    "Memory allocation still failed",  # OpenBLAS, which then ends the process with exit code 1
)


class Status(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    DIVERGED = "diverged"
    OUT_OF_MEMORY = "out-of-memory"
    INTERRUPTED = "interrupted"

    @property
    def is_final(self) -> bool:
        """Whether `--resume` leaves it: it ran to an end that a repetition would not change."""
        return self in (Status.COMPLETED, Status.DIVERGED)


class Outcome(Frozen):
    """Status, reason (empty where completed), exit code of the launcher and wall time of one attempt."""

    status: Status
    # What comes from workers and their logs is written to files and shown on terminals.
    reason: Annotated[str, AfterValidator(printable)] = ""
    exit_code: int | None = None
    started_at: str = ""
    wall_time_s: float = 0.0


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Write `outcome.json` atomically into an attempt's folder: from then on the attempt has ended."""
    (folder / files.ROOM).unlink(missing_ok=True)
    files.write_text(folder / files.OUTCOME, outcome.model_dump_json(indent=2) + "\n")


def says_out_of_memory(text: str) -> bool:
    """Whether a text reports that memory ran out, of the host or of a device."""
    return any(sign in text for sign in OUT_OF_MEMORY_SIGNS)
