"""The NumPy trainer at a pace, except that a fault may strike in it."""

import atexit
from typing import Any

from dlbench.trainers import Array, numpy
from tests.functional import paced
from tests.functional.faults.fault import of_this_process, strike


class Trainer(paced.Trainer):
    """The paced trainer with faults."""

    @staticmethod
    def create(*arguments: Any) -> numpy.NumpyTrainer:
        """Return a NumPy trainer whose steps may be struck."""
        fault = of_this_process()
        strike(fault, "build")
        atexit.register(strike, fault, "exit")
        trainer = paced.Trainer.create(*arguments)
        gradient, apply, evaluate, steps = trainer.gradient, trainer.apply, trainer.evaluate, [0]

        def faulty_gradient(x: Array, y: Array, scale: float) -> tuple[Array, float, int]:
            steps[0] += 1
            strike(fault, "first")
            strike(fault, "gradient", steps[0])
            return gradient(x, y, scale)

        def faulty_apply(update: Array, learning_rate: float) -> None:
            strike(fault, "update", steps[0])
            apply(update, learning_rate)

        def faulty_evaluate(x: Array, y: Array) -> tuple[float, int]:
            strike(fault, "evaluate", steps[0])
            return evaluate(x, y)

        vars(trainer).update(gradient=faulty_gradient, apply=faulty_apply, evaluate=faulty_evaluate)
        return trainer
