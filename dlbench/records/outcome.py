"""How an attempt ended: written once, by the launching side, after every process has ended."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from dlbench.errors import STEERING, printable
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

# What errors of TensorFlow and Keras say before the line that matters, their frames, and what follows it.
_PREFACE = re.compile(
    r"(^|: )(in user code:|Graph execution error:|Exception encountered when calling .+\.)$"
    r"|^(Detected at node|<stack traces|\[\[\{\{node|\d+ root error)"
)
_FRAMES = re.compile(r'^[ \t]*File ".*\n(?:.*\S.*\n)*', re.MULTILINE)
_OPERATION = re.compile(r" *\[Op:\w+\].*")


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
    """Status, reason (empty where completed), exit code of the launcher and wall time of one attempt.

    And the checksum of the user's own code that it executed; empty where it has none, or that is not certain.
    """

    status: Status
    # What comes from workers and their logs is written to files and shown on terminals.
    reason: Annotated[str, AfterValidator(printable)] = ""
    exit_code: int | None = None
    started_at: str = ""
    wall_time_s: float = 0.0
    code_checksum: str = ""


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Write `outcome.json` atomically into an attempt's folder: from then on the attempt has ended."""
    (folder / files.ROOM).unlink(missing_ok=True)
    files.write_text(folder / files.OUTCOME, outcome.model_dump_json(indent=2) + "\n")


def says_out_of_memory(text: str) -> bool:
    """Whether a text reports that memory ran out, of the host or of a device."""
    return any(sign in text for sign in OUT_OF_MEMORY_SIGNS)


def telling_part(text: str) -> str:
    """Return the line of an error (`ValueError: ...`) that says what is wrong: the first unless it only leads there."""
    lines = [line.strip() for line in STEERING.sub("", _FRAMES.sub("", text)).splitlines() if line.strip()]
    first, kind = next(iter(lines), ""), text.partition(":")[0].rpartition(".")[2]
    line = next((line for line in lines if not _PREFACE.search(line)), first)
    return _OPERATION.sub("", line if line is first or line.startswith(kind) else f"{kind}: {line}")
