"""How an attempt ended: written once, by the launching side, after every process has ended."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


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


class Outcome(BaseModel):
    """Status, reason (empty where completed), exit code of the launcher and wall time of one attempt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: Status
    reason: str = ""
    exit_code: int | None = None
    started_at: str = ""
    wall_time_s: float = 0.0
