"""The NumPy trainer at a pace; it slows down, or fills its memory, while the file of that order lies beside this one.

It is copied beside a scenario, as a module of a user's own, because hosts import it from there.
"""

import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from dlbench.trainers import Array, numpy

# Long enough for rows to be in flight when something strikes.
PACE_S = 0.01
SLOW_PACE_S = 0.04
FILL_MEMORY, SLOW_DOWN = (
    Path(__file__).with_name(f"{order}-{os.uname().nodename}") for order in ("fill-memory", "slow-down")
)


class Trainer:
    """The NumPy trainer, struck from outside."""

    OPTIONS = numpy.OPTIONS
    BUILDER = numpy.BUILDER
    OPTIMIZERS = numpy.OPTIMIZERS
    PRECISIONS = numpy.PRECISIONS
    BACKEND = numpy.BACKEND

    @staticmethod
    def create(*arguments: Any) -> numpy.NumpyTrainer:
        """Return a NumPy trainer whose every gradient takes a while."""
        trainer = numpy.create(*arguments)
        gradient = trainer.gradient

        def paced(x: Array, y: Array, scale: float) -> tuple[Array, float, int]:
            time.sleep(SLOW_PACE_S if SLOW_DOWN.exists() else PACE_S)
            if FILL_MEMORY.exists():
                fill_memory()
            return gradient(x, y, scale)

        vars(trainer)["gradient"] = paced
        return trainer


def fill_memory() -> None:
    """Fill the memory that this process may have."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20), resource.RLIM_INFINITY))
    held: list[object] = []
    while True:
        held.append(np.ones(1 << 20))
