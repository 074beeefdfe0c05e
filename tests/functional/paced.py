"""The NumPy trainer, except that a step, the first step, an evaluation and a late start take times that are known.

A step takes longer, or fills the memory, while a file beside this one orders that on its host. Tests copy this file
beside a scenario, as a module of a user's own, where hosts import it from there.
"""

import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from dlbench.plugins import Options
from dlbench.trainers import Array, Threads, numpy
from dlbench.worker.train.batches import TrainingData

SLOW_STEP_S = 0.04
FILL_MEMORY, SLOW_DOWN = (
    Path(__file__).with_name(f"{order}-{os.uname().nodename}") for order in ("fill-memory", "slow-down")
)


class PacedOptions(Options):
    """How long things take, on top of the little that the arithmetic does."""

    step_s: float = Field(0.0, description="Every local gradient.")
    straggler_s: float = Field(0.0, description="More of every local gradient of the second worker.")
    shared_input_s: float = Field(0.0, description="Every batch that is read where several workers read.")
    first_s: float = Field(0.0, description="More of the first gradient, as a compilation would take.")
    evaluation_s: float = Field(0.0, description="Every batch that is evaluated.")
    late_s: float = Field(0.0, description="More of the second worker's start.")


def sleep(seconds: float) -> float:
    """Sleep, and return for how long it really was: on a busy machine longer."""
    began = time.perf_counter()
    time.sleep(seconds)
    return time.perf_counter() - began


def obey() -> None:
    """Do what the files beside this one order."""
    if SLOW_DOWN.exists():
        time.sleep(SLOW_STEP_S)
    if FILL_MEMORY.exists():
        fill_memory()


def fill_memory() -> None:
    """Fill the memory that this process may have, until Python raises `MemoryError`."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20), resource.RLIM_INFINITY))
    held: list[object] = []
    while True:
        held.append(np.ones(1 << 20))


class Trainer:
    """The NumPy trainer at a pace."""

    OPTIONS = PacedOptions
    BUILDER = numpy.BUILDER
    OPTIMIZERS = numpy.OPTIMIZERS
    PRECISIONS = numpy.PRECISIONS
    BACKEND = numpy.BACKEND
    FLAT_OPTIMIZERS = numpy.FLAT_OPTIMIZERS
    make_flat_optimizer = staticmethod(numpy.make_flat_optimizer)

    @staticmethod
    def create(
        settings: Any, plugin: Any, model_options: Any, options: PacedOptions, problem: Any, seed: int, threads: Threads
    ) -> numpy.NumpyTrainer:
        """Return a NumPy trainer that sleeps, and notes for how long in each local gradient (`slept_s`).

        The second worker is known by its place on the host.
        """
        trainer = numpy.create(settings, plugin, model_options, options, problem, seed, threads)
        is_second = threads.device_index == 1
        gradient, evaluate, waits = trainer.gradient, trainer.evaluate, [options.first_s]
        slept_s: list[float] = []
        time.sleep(options.late_s * is_second)

        def paced_gradient(x: Array, y: Array, scale: float) -> tuple[Array, float, int]:
            time.sleep(waits.pop() if waits else 0.0)
            obey()
            slept_s.append(sleep(options.step_s + options.straggler_s * is_second))
            return gradient(x, y, scale)

        def paced_evaluate(x: Array, y: Array) -> tuple[float, int]:
            time.sleep(options.evaluation_s)
            return evaluate(x, y)

        if options.shared_input_s and int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1")) > 1:
            read = TrainingData.batch

            def paced_batch(self: TrainingData, indices: Array, epoch: int = 0) -> tuple[Array, Array]:
                time.sleep(options.shared_input_s)
                return read(self, indices, epoch)

            TrainingData.batch = paced_batch  # type: ignore[method-assign]

        for name, value in (("gradient", paced_gradient), ("evaluate", paced_evaluate), ("slept_s", slept_s)):
            setattr(trainer, name, value)
        return trainer
