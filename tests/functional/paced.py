"""The NumPy trainer, except that a step, the first step, an evaluation and a late start take times that are known."""

import time
from typing import Any

from pydantic import Field

from dlbench.plugins import Options
from dlbench.trainers import Array, Threads, numpy


class PacedOptions(Options):
    """How long things take, on top of the little that the arithmetic does."""

    step_s: float = Field(0.0, description="Every local gradient.")
    straggler_s: float = Field(0.0, description="More of every local gradient of the second worker.")
    first_s: float = Field(0.0, description="More of the first gradient, as a compilation would take.")
    evaluation_s: float = Field(0.0, description="Every batch that is evaluated.")
    late_s: float = Field(0.0, description="More of the second worker's start.")


def sleep(seconds: float) -> float:
    """Sleep, and return for how long it really was: on a busy machine longer."""
    began = time.perf_counter()
    time.sleep(seconds)
    return time.perf_counter() - began


class Trainer:
    """The NumPy trainer at a pace."""

    OPTIONS = PacedOptions
    BUILDER = numpy.BUILDER
    OPTIMIZERS = numpy.OPTIMIZERS
    PRECISIONS = numpy.PRECISIONS
    BACKEND = numpy.BACKEND

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
            slept_s.append(sleep(options.step_s + options.straggler_s * is_second))
            return gradient(x, y, scale)

        def paced_evaluate(x: Array, y: Array) -> tuple[float, int]:
            time.sleep(options.evaluation_s)
            return evaluate(x, y)

        for name, value in (("gradient", paced_gradient), ("evaluate", paced_evaluate), ("slept_s", slept_s)):
            setattr(trainer, name, value)
        return trainer
