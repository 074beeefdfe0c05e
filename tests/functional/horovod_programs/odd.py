"""Strategies and a trainer that look like Horovod's and are not sound, or are struck by a fault."""

from collections.abc import Callable
from typing import Any

from dlbench.strategies import horovod
from dlbench.trainers import keras_tensorflow
from tests.functional.faults.fault import of_this_process, strike


class Horovod:
    """The strategy `horovod`, for any trainer."""

    OPTIONS = horovod.OPTIONS
    NEEDS = horovod.NEEDS.model_copy(update={"trainers": ()})
    environment = staticmethod(horovod.environment)
    create = staticmethod(horovod.create)


class Unreduced(Horovod):
    """Gradients stay where they are computed."""

    @staticmethod
    def create(options: Any, communicator: Any, algorithm: str | None) -> Any:
        """Return a strategy whose hook in the graph does nothing."""
        strategy = horovod.create(options, communicator, algorithm)
        vars(strategy)["in_graph"] = lambda gradients: [gradient * communicator.size for gradient in gradients]
        return strategy


class QuickAutotuning(Horovod):
    """Autotuning ends after a few steps."""

    @staticmethod
    def environment(options: Any, assignment: Any) -> dict[str, str]:
        """Return Horovod's variables, and those that shorten the search."""
        return horovod.environment(options, assignment) | {
            "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "0",
            "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "1",
            "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "3",
        }


class _Trainer:
    OPTIONS = keras_tensorflow.OPTIONS
    BUILDER = keras_tensorflow.BUILDER
    OPTIMIZERS = keras_tensorflow.OPTIMIZERS
    PRECISIONS = keras_tensorflow.PRECISIONS
    JIT = keras_tensorflow.JIT
    BACKEND = keras_tensorflow.BACKEND
    start = staticmethod(keras_tensorflow.start)


class OwnOptimizer(_Trainer):
    """The Keras trainer with Horovod's own `DistributedOptimizer`: what its documentation says to do."""

    @staticmethod
    def create(*arguments: Any) -> Any:
        """Return a trainer whose optimizer is wrapped; the strategy beside it reduces nothing."""
        import horovod.keras as hvd

        trainer = keras_tensorflow.create(*arguments)
        graph, weights = trainer._graph, trainer._weights
        graph.optimizer = hvd.DistributedOptimizer(graph.optimizer)
        graph.optimizer.build(weights)
        return trainer


class Faulty(_Trainer):
    """The Keras trainer whose compiled step may be struck."""

    @staticmethod
    def create(*arguments: Any) -> Any:
        """Return a trainer that is struck before a step."""
        trainer = keras_tensorflow.create(*arguments)
        fault, step, count = of_this_process(), trainer.step, [0]

        def faulty_step(*values: Any) -> Any:
            count[0] += 1
            strike(fault, "gradient", count[0])
            return step(*values)

        hooked: Callable[..., Any] = faulty_step
        trainer.step = hooked
        return trainer
