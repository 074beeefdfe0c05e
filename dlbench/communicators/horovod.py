"""Messages over Horovod's operations, run eagerly, and which library carries them."""

import json
from typing import Any

import numpy as np

from dlbench.communicators import _rendezvous
from dlbench.communicators._mpi_tool import library_version, loaded_library
from dlbench.plugins import Options
from dlbench.strategies import Array

OPTIONS = Options
NEEDS_ENGINE = True


class HorovodCommunicator:
    """One rank of Horovod's world. One thread at a time may call it.

    Attributes:
        hvd: The module `horovod.tensorflow`.
        tf: The module `tensorflow`.
    """

    def __init__(self, hvd: Any, tf: Any) -> None:
        self.hvd, self.tf = hvd, tf
        hvd.init()
        self.rank: int = hvd.rank()
        self.size: int = hvd.size()
        self._operations = {"sum": hvd.Sum, "max": hvd.Max, "min": hvd.Min}
        self._closed = False

    def barrier(self) -> None:
        """Wait for every worker."""
        self.hvd.allreduce(self._tensor(np.zeros(1)), op=self.hvd.Sum).numpy()

    def broadcast(self, array: Array, root: int = 0) -> None:
        """Overwrite `array` with the root's."""
        if array.size:
            np.copyto(array, self.hvd.broadcast(self._tensor(array), root_rank=root).numpy())

    def all_reduce(self, array: Array, out: Array, operation: str = "sum") -> None:
        """Write the `sum`, `max` or `min` of all workers' `array` to `out`; `out` may be `array` itself."""
        if array.size:
            np.copyto(out, self.hvd.allreduce(self._tensor(array), op=self._operations[operation]).numpy())

    def all_gather(self, value: Any) -> list[Any]:
        """Return every worker's JSON-able value, by rank."""
        mine = np.frombuffer(json.dumps(value).encode(), np.uint8)
        lengths = self.hvd.allgather(self._tensor(np.array([mine.size], np.int64))).numpy()
        everything = self.hvd.allgather(self._tensor(mine)).numpy()
        return [json.loads(piece.tobytes()) for piece in np.split(everything, np.cumsum(lengths)[:-1])]

    def sendrecv(self, send: Array, to: int, receive: Array, source: int) -> None:
        """Refuse: Horovod has collectives only.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("Horovod has no point-to-point messages: use the communicator `mpi`")

    def facts(self) -> dict[str, Any]:
        """Return the library that moves gradients, and versions."""
        import horovod

        # The first enabled one in its list of operations (`common/operations.cc`, CreateOperationManager): NCCL for
        # tensors on a GPU, else Gloo, else MPI.
        collectives = "gloo" if self.hvd.gloo_enabled() else "mpi"
        if self.hvd.nccl_built() and self.tf.config.get_visible_devices("GPU"):
            collectives = "nccl"
        library = mpi_library() if self.hvd.mpi_enabled() else ""
        versions = {"horovod_version": str(horovod.__version__)} | ({"mpi_version": library} if library else {})
        return {"collectives": collectives, **versions}

    def close(self) -> None:
        """Disconnect; a collective."""
        if self._closed:
            return
        self._closed = True
        self.barrier()
        self.hvd.shutdown()

    def _tensor(self, array: Array) -> Any:
        """Return a tensor on the processor: these messages are small, and NCCL reduces no int64."""
        with self.tf.device("CPU:0"):
            return self.tf.constant(array)


def connect(num_workers: int) -> HorovodCommunicator:
    """Start Horovod and return this rank's communicator.

    Raises:
        RuntimeError: Horovod cannot be loaded, or not exactly `num_workers` distinct processes are connected.
    """
    try:
        import horovod.tensorflow as hvd
        import tensorflow as tf
    except Exception as error:  # a library built for another TensorFlow raises errors of TensorFlow's own
        text = str(error).strip().split("\n", 1)[0]
        raise RuntimeError(f"Horovod cannot be loaded ({text}); `make horovod` builds it") from error
    communicator = HorovodCommunicator(hvd, tf)
    library = f"{mpi_library()} at {loaded_library() or 'an unknown place'}" if hvd.mpi_enabled() else ""
    _rendezvous.check(communicator, num_workers, library)
    return communicator


def mpi_library() -> str:
    """Return the name and version of the MPI library in this process, "" where there is none."""
    path = loaded_library()
    return "" if path is None else _rendezvous.short_version(library_version(path))
