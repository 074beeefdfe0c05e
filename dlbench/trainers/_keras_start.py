"""Start TensorFlow and Keras in this process: silently, with the threads, the device and the precision of the run."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dlbench.datasets._cache import cache_root
from dlbench.datasets._quiet import quiet
from dlbench.errors import UserError
from dlbench.trainers import Threads

# Keras looks for these at import, for conveniences that dlbench does not use; they take a second to load.
UNNEEDED = ("matplotlib", "matplotlib.pyplot", "pandas", "sklearn")


def start(precision: str, threads: Threads) -> tuple[Any, Any]:
    """Return the modules (tensorflow, keras), ready to build a model in this precision.

    Threads and devices can be chosen once in a process, before the first operation; the same ones again are no
    change, so that a communicator may start the engine before the trainer does.

    Raises:
        UserError: TensorFlow or Keras is not installed, Keras already runs on another backend, or this host has too
            few accelerators.
    """
    tf, keras = _import()
    if keras.config.backend() != "tensorflow":
        raise UserError(
            f"Keras was already imported with its {keras.config.backend()} backend",
            hint="import nothing of Keras before dlbench does, or set KERAS_BACKEND=tensorflow",
        )
    tf.config.threading.set_intra_op_parallelism_threads(threads.intra_op)
    tf.config.threading.set_inter_op_parallelism_threads(threads.inter_op)
    _choose_devices(tf, threads)
    # Set explicitly: a user's ~/.keras/keras.json must not change what a run computes.
    keras.config.set_image_data_format("channels_last")
    keras.config.set_floatx("float64" if precision == "float64" else "float32")
    keras.config.set_dtype_policy(precision)
    return tf, keras


def _import() -> tuple[Any, Any]:
    if "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = "tensorflow"
        # Keras writes a configuration there at import, and a user's model what it downloads: not into ~/.keras.
        os.environ.setdefault("KERAS_HOME", str(cache_root() / "keras"))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        # Two lines of TensorFlow's start obey no log level; only turning oneDNN off, which costs speed, silences them.
        with quiet(), _without(UNNEEDED), _without_gc():
            import keras
            import tensorflow as tf
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("tensorflow", "keras"):
            raise
        raise UserError(
            f"the keras_tensorflow trainer needs {missing}, which is not installed",
            hint="pip install 'dlbench[cpu]' (or [gpu]), or use `trainer: numpy`",
        ) from error
    return tf, keras


def _choose_devices(tf: Any, threads: Threads) -> None:
    """Keep this process's own accelerators, where there are any, and let them take memory as they need it."""
    devices = tf.config.list_physical_devices("GPU")
    if not devices:
        _divide_processor(tf, threads.replicas or 1)
        return
    chosen = _own_devices(devices, threads)
    if tf.config.get_visible_devices("GPU") != chosen:
        tf.config.set_visible_devices(chosen, "GPU")
    for device in chosen:
        if not tf.config.experimental.get_memory_growth(device):
            tf.config.experimental.set_memory_growth(device, True)


def _own_devices(devices: list[Any], threads: Threads) -> list[Any]:
    if threads.replicas is None:
        return [devices[threads.device_index % len(devices)]]
    if threads.replicas > len(devices):
        raise UserError(
            f"{threads.replicas} replicas in one process need as many accelerators, and this host has {len(devices)}",
            hint="use fewer workers, or a strategy with a process for each",
        )
    return devices[: threads.replicas]


def _divide_processor(tf: Any, count: int) -> None:
    """Make the processor look like this many devices: CPU:0, CPU:1 and so on."""
    processor = tf.config.list_physical_devices("CPU")[0]
    devices = tf.config.get_logical_device_configuration(processor)
    if count != len(devices or [None]):
        tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * count)


@contextmanager
def _without_gc() -> Iterator[None]:
    """Make no search for cycles, a fifth of TensorFlow's import; what is loaded is left out of later ones."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _without(names: tuple[str, ...]) -> Iterator[None]:
    """Make modules that are not loaded yet unimportable inside the block: optional imports then find nothing."""
    blocked = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(blocked))  # type: ignore[arg-type]  # None is how Python blocks an import
    try:
        yield
    finally:
        for name in blocked:
            if sys.modules.get(name) is None:
                sys.modules.pop(name, None)
