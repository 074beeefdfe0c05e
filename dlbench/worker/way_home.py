"""What a training loop, dlbench's own or a script's, needs of the way home; `dlbench.worker.stream` is one."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class WayHome(Protocol):
    """Takes messages and rows, and tells others what is set on it."""

    phase: str
    step: int
    epoch: int
    loss: float | None
    accuracy: float | None
    samples_per_s: float | None

    def send(self, message: dict[str, Any]) -> None:
        """Queue one journaled message."""

    def send_steps(self, rows: npt.NDArray[np.float64]) -> None:
        """Queue a block of step rows."""

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything queued, and the phase as it is now, is home; return whether it is."""

    def observer_cpu_s(self) -> float:
        """Return the CPU time of dlbench's own threads so far."""
