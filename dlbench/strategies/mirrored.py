"""Keras's scale-up: one process holds a replica on each of its devices, and the engine sums their gradients.

On TensorFlow each replica computes its own gradient, and the step sums them. On JAX the step is one program over
all devices (`keras.distribution.DataParallel`): samples are divided, and XLA adds the sums that the program needs.
"""

from typing import Any, Literal

from pydantic import Field

from dlbench.plugins import Options
from dlbench.scenario.needs import Exchange, Needs
from dlbench.scenario.plugin_settings import trainer_of
from dlbench.scenario.settings import Mode, Settings
from dlbench.strategies import Communicator
from dlbench.strategies._step import Inside
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Trainer

# XLA compiles for one device: a step over several ends with "Trying to access resource ... located in device CPU:1
# from device CPU:0" (TensorFlow 2.21).
NEEDS = Needs(
    exchange=Exchange.WRAPPED,
    one_process=True,
    trainers=("keras_tensorflow", "keras_jax"),
    as_one_worker={},
    jit=False,
)


class MirroredOptions(Options):
    """Options of the strategy `mirrored`."""

    cross_device_ops: Literal["auto", "nccl", "hierarchical_copy", "reduce_to_one_device"] = Field(
        "auto",
        description="How `tf.distribute.MirroredStrategy` sums over devices; `auto`: as TensorFlow chooses; `nccl` "
        "needs GPUs; `hierarchical_copy` an even number of workers.",
    )


OPTIONS = MirroredOptions


def refuse(options: MirroredOptions, settings: Settings) -> str:
    """Return why these options and settings exclude each other, or ""."""
    is_on_one_host = settings.mode is Mode.SCALE_UP or (settings.workers_per_host or 0) >= settings.workers
    if settings.workers > 1 and not is_on_one_host:
        return "the strategy mirrored holds all workers in one process on one host: use mode: scale-up"
    if options.cross_device_ops != "auto" and trainer_of(settings) == "keras_jax":
        return "strategy.cross_device_ops is TensorFlow's: on JAX the compiler chooses"
    if options.cross_device_ops == "hierarchical_copy" and settings.workers > 1 and settings.workers % 2:
        return (
            f"strategy.cross_device_ops: hierarchical_copy needs an even number of workers: with {settings.workers} "
            "TensorFlow's sums leave one of them out, on all devices alike and without an error"
        )
    return ""


class Replicated:
    """One process's side of a `tf.distribute.Strategy`: sums within its replica contexts."""

    # Engines do not count them.
    bytes_sent: int | None = None
    # Whether the compiled program is one over all devices, in which sums are of all samples already.
    _is_one_program = False

    def in_graph(self, gradients: list[Any]) -> list[Any]:
        """Return the sums of all replicas' gradients."""
        return gradients if self._is_one_program else list(_sum_over_replicas(gradients))

    def in_forward(self, tensor: Any) -> Any:
        """Return the sum of all replicas' tensors; its gradient is the sum of all replicas' gradients."""
        return tensor if self._is_one_program else _sum_over_replicas(tensor)

    def bind(self, trainer: Trainer, reporter: Reporter) -> Inside:
        """Return the step of all replicas of this process."""
        return Inside(trainer, reporter, self.in_graph, self.in_forward)


class Mirrored(Replicated):
    """All workers in this process."""

    def __init__(self, options: MirroredOptions) -> None:
        self._options = options

    def distribution(self, engine: Any) -> Any:
        """Return the `MirroredStrategy` over this process's devices: its accelerators, else its logical processors.

        For JAX Keras's class is returned, which is given the devices.
        """
        if engine.__name__ == "jax":
            import keras

            self._is_one_program = True
            return keras.distribution.DataParallel
        devices = engine.config.list_logical_devices("GPU") or engine.config.list_logical_devices("CPU")
        names, distribute = [device.name for device in devices], engine.distribute
        operations = {
            "nccl": distribute.NcclAllReduce,
            "hierarchical_copy": distribute.HierarchicalCopyAllReduce,
            "reduce_to_one_device": distribute.ReductionToOneDevice,
        }.get(self._options.cross_device_ops)
        return distribute.MirroredStrategy(names, operations and operations())

    def facts(self) -> dict[str, Any]:
        """Return the library where it was asked for by name; TensorFlow does not report its own choice."""
        return {"collectives": "nccl"} if self._options.cross_device_ops == "nccl" else {}


def create(options: MirroredOptions, communicator: Communicator, algorithm: str | None) -> Mirrored:
    """Return the strategy of the one process that holds all workers."""
    return Mirrored(options)


def _sum_over_replicas(tensors: Any) -> Any:
    import tensorflow as tf

    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tensors)
