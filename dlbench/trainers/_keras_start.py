"""Start Keras and its engine in this process: silently, with the threads, the device and the precision of the run."""

import gc
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dlbench.datasets._cache import cache_root
from dlbench.datasets._quiet import UNNEEDED, quiet, without
from dlbench.errors import UserError
from dlbench.trainers import Threads

# The command that installs an engine.
INSTALL = {
    "tensorflow": "pip install 'dlbench[cpu]' (or [gpu]), or use `backend: numpy`",
    "torch": "pip install 'dlbench[torch]'",
    "jax": "pip install 'dlbench[jax]'",
}


def start(backend: str, precision: str, threads: Threads) -> tuple[Any, Any]:
    """Return the engine's module and Keras, ready to build a model in this precision.

    Threads and devices can be chosen once in a process, before the first operation; the same ones again are no
    change, so that a communicator may start the engine before the trainer does.

    Args:
        backend: `tensorflow`, `torch` or `jax`.
        precision: Of `dlbench.scenario.settings.Precision`.
        threads: Of this process.

    Raises:
        UserError: The engine or Keras is not installed, Keras already runs on another one, or this host has too few
            accelerators.
    """
    engine, keras = _import(backend)
    if keras.config.backend() != backend:
        raise UserError(
            f"Keras was already imported with its {keras.config.backend()} backend",
            hint=f"import nothing of Keras before dlbench does, or set KERAS_BACKEND={backend}",
        )
    {"tensorflow": _start_tensorflow, "torch": _start_torch, "jax": _start_jax}[backend](engine, threads)
    if backend != "tensorflow":
        _allow_float64(engine, backend, precision == "float64")
    # Set explicitly: a user's ~/.keras/keras.json must not change what a run computes.
    keras.config.set_image_data_format("channels_last")
    keras.config.set_floatx("float64" if precision == "float64" else "float32")
    keras.config.set_dtype_policy(precision)
    return engine, keras


def _import(backend: str) -> tuple[Any, Any]:
    if "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = backend
        # Keras writes a configuration there at import, and a user's model what it downloads: not into ~/.keras.
        os.environ.setdefault("KERAS_HOME", str(cache_root() / "keras"))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # Else JAX takes three quarters of a GPU's memory at once, and several processes could not share one.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        # Two lines of TensorFlow's start obey no log level; only turning oneDNN off, which costs speed, silences them.
        with quiet(), without((*UNNEEDED, *({"torch", "jax"} - {backend}))), _without_gc():
            engine = importlib.import_module(backend)
            import keras
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in (backend, "keras"):
            raise
        raise UserError(
            f"the keras_{backend} trainer needs {missing}, which is not installed", hint=INSTALL[backend]
        ) from error
    return engine, keras


def _start_tensorflow(tf: Any, threads: Threads) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(threads.intra_op)
    tf.config.threading.set_inter_op_parallelism_threads(threads.inter_op)
    accelerators = tf.config.list_physical_devices("GPU")
    if not accelerators:  # the processor is made to look like a device for each replica: CPU:0, CPU:1 and so on
        processor, count = tf.config.list_physical_devices("CPU")[0], threads.replicas or 1
        if count != len(tf.config.get_logical_device_configuration(processor) or [None]):
            tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * count)
        return
    chosen = _own_devices(accelerators, threads)
    if tf.config.get_visible_devices("GPU") != chosen:
        tf.config.set_visible_devices(chosen, "GPU")
    for device in chosen:  # each takes memory as it needs it
        if not tf.config.experimental.get_memory_growth(device):
            tf.config.experimental.set_memory_growth(device, True)


def _start_torch(torch: Any, threads: Threads) -> None:
    torch.set_num_threads(threads.intra_op)
    if torch.get_num_interop_threads() != threads.inter_op:  # refused once operations have run
        torch.set_num_interop_threads(threads.inter_op)
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")  # TF32 where there is any, as the other engines do by themselves
        torch.cuda.set_device(_own_devices(list(range(torch.cuda.device_count())), threads)[0])


def _start_jax(jax: Any, threads: Threads) -> None:
    """Choose the device; on a processor XLA has a thread for each core that the process is bound to."""
    if threads.replicas is not None and jax.config.jax_num_cpu_devices != threads.replicas:
        jax.config.update("jax_num_cpu_devices", threads.replicas)
    jax.config.update("jax_default_device", _own_devices(jax.local_devices(), threads)[0])


def _allow_float64(engine: Any, backend: str, allowed: bool) -> None:
    """Let results be float64, which Keras rounds to float32 on all engines but TensorFlow, and JAX unless asked."""
    from keras.src.backend.common import dtypes

    dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64" if allowed else "float32"
    if backend == "jax":
        engine.config.update("jax_enable_x64", allowed)


def seed(keras: Any, number: int) -> None:
    """Seed Python's, NumPy's and the engine's generators; without the 3 s of TensorFlow's import on another engine."""
    with without(("tensorflow",) if keras.config.backend() != "tensorflow" else ()):
        keras.utils.set_random_seed(number)


def _own_devices(devices: list[Any], threads: Threads) -> list[Any]:
    if threads.replicas is None:
        return [devices[threads.device_index % len(devices)]]
    if threads.replicas > len(devices):
        raise UserError(
            f"{threads.replicas} replicas in one process need as many accelerators, and this host has {len(devices)}",
            hint="use fewer workers, or a strategy with a process for each",
        )
    return devices[: threads.replicas]


@contextmanager
def _without_gc() -> Iterator[None]:
    """Make no search for cycles, a fifth of TensorFlow's import; what is loaded is left out of later ones."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
