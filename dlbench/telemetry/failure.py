"""The report of an exception that ended a worker: one line, its traceback, and whether memory was the reason."""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from dlbench.errors import UserError, on_one_line
from dlbench.records.outcome import Status, says_out_of_memory, telling_part

LONGEST_REASON = 500
OUT_OF_MEMORY_TYPES = {"ResourceExhaustedError", "OutOfMemoryError", "CUDAOutOfMemoryError"}


@dataclass(frozen=True)
class WorkerError:
    """An error that a worker has reported before it ended; `at` is when it arrived (monotonic), where that is known."""

    worker: int
    error: str
    traceback: str = ""
    out_of_memory: bool = False
    status: str = ""
    at: float = 0.0

    @classmethod
    def of(cls, worker: int, message: Mapping[str, Any], at: float = 0.0) -> Self:
        """Return the error of a message of kind `error`, whatever its fields hold."""
        error, traceback, status = (str(message.get(name) or "") for name in ("error", "traceback", "status"))
        return cls(worker, error, traceback, message.get("out_of_memory") is True, status, at)


def describe(exception: BaseException) -> dict[str, Any]:
    """Return the message of kind `error` for an exception.

    `status` is there where the exception names one itself, such as `diverged`.
    """
    message = {
        "kind": "error",
        "error": one_line(exception),
        "traceback": "".join(traceback.format_exception(exception)),
        "out_of_memory": is_out_of_memory(exception),
    }
    status = getattr(exception, "status", None)
    if isinstance(status, str) and status in set(Status):
        message["status"] = str(status)
    return message


def one_line(exception: BaseException) -> str:
    """Return the exception as one line of at most LONGEST_REASON characters, that of the memory asked for if any."""
    if isinstance(exception, SystemExit):
        code = 0 if exception.code is None else exception.code
        return " ".join(f"exited early with code {code}".split())[:LONGEST_REASON]
    if isinstance(exception, UserError):
        return on_one_line(exception)[:LONGEST_REASON]
    kind, text = type(exception).__name__, str(exception).strip()
    memory = next((line.strip() for line in text.splitlines() if says_out_of_memory(line)), "")
    return telling_part(f"{kind}: {memory or text}")[:LONGEST_REASON] if text else kind


def is_out_of_memory(exception: BaseException) -> bool:
    """Whether the exception, or one it came from, says that memory ran out, of the host or of a device."""
    seen: set[int] = set()
    link: BaseException | None = exception
    while link is not None and id(link) not in seen:
        is_of_memory = isinstance(link, MemoryError) or type(link).__name__ in OUT_OF_MEMORY_TYPES
        if is_of_memory or says_out_of_memory(str(link)):
            return True
        seen.add(id(link))
        link = link.__cause__ or link.__context__
    return False
