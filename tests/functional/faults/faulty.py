"""The NumPy trainer, except that a fault may strike in it; every step takes a few milliseconds."""

import atexit
import time
from typing import Any

from dlbench.trainers import Array, numpy
from tests.functional.faults.fault import of_this_process, strike

# Long enough for rows to be in flight when the fault strikes.
PACE_S = 0.005


class Trainer:
    """The NumPy trainer with faults."""

    OPTIONS = numpy.OPTIONS
    BUILDER = numpy.BUILDER
    OPTIMIZERS = numpy.OPTIMIZERS
    PRECISIONS = numpy.PRECISIONS
    BACKEND = numpy.BACKEND

    @staticmethod
    def create(*arguments: Any) -> numpy.NumpyTrainer:
        """Return a NumPy trainer whose steps may be struck."""
        fault = of_this_process()
        strike(fault, "build")
        atexit.register(strike, fault, "exit")
        trainer = numpy.create(*arguments)
        gradient, apply, evaluate, steps = trainer.gradient, trainer.apply, trainer.evaluate, [0]

        def faulty_gradient(x: Array, y: Array, scale: float) -> tuple[Array, float, int]:
            steps[0] += 1
            time.sleep(PACE_S)
            strike(fault, "first")
            strike(fault, "gradient", steps[0])
            return gradient(x, y, scale)

        def faulty_apply(update: Array, learning_rate: float) -> None:
            strike(fault, "update", steps[0])
            apply(update, learning_rate)

        def faulty_evaluate(x: Array, y: Array) -> tuple[float, int]:
            strike(fault, "evaluate", steps[0])
            return evaluate(x, y)

        for name, method in (
            ("gradient", faulty_gradient),
            ("apply", faulty_apply),
            ("evaluate", faulty_evaluate),
        ):
            setattr(trainer, name, method)
        return trainer
