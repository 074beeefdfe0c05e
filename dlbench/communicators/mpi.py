"""Messages over MPI through mpi4py, on a communicator of dlbench's own."""

import json
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from dlbench.communicators import _rendezvous
from dlbench.communicators._mpi_memory import MpiMemory
from dlbench.communicators._mpi_tool import (
    ControlVariables,
    captured_stderr,
    loaded_library,
    other_lines,
    selected_components,
)
from dlbench.plugins import Options
from dlbench.strategies import Array

OPTIONS = Options


class MpiGroup:
    """A group of ranks with its own collectives. One thread at a time may call it.

    Attributes:
        comm: An `mpi4py.MPI.Comm`.
    """

    def __init__(self, mpi: Any, comm: Any) -> None:
        self._mpi, self.comm = mpi, comm
        self.rank: int = comm.rank
        self.size: int = comm.size
        self._operations = {"sum": mpi.SUM, "max": mpi.MAX, "min": mpi.MIN}
        self._types: dict[np.dtype[Any], Any] = {}
        self._closed = False

    def barrier(self) -> None:
        """Wait for every worker."""
        self.comm.Barrier()

    def broadcast(self, array: Array, root: int = 0) -> None:
        """Overwrite `array` with the root's."""
        self.comm.Bcast(self._buffer(array), root)

    def all_reduce(self, array: Array, out: Array, operation: str = "sum") -> None:
        """Write the `sum`, `max` or `min` of all workers' `array` to `out`; `out` may be `array` itself."""
        send = self._mpi.IN_PLACE if out is array else self._buffer(array)
        self.comm.Allreduce(send, self._buffer(out), self._operations[operation])

    def all_gather(self, value: Any) -> list[Any]:
        """Return every worker's JSON-able value, by rank."""
        mine = np.frombuffer(json.dumps(value).encode(), np.uint8)
        lengths = np.empty(self.size, np.int64)
        self.comm.Allgather(self._buffer(np.array([mine.size], np.int64)), self._buffer(lengths))
        everything = np.empty(int(lengths.sum()), np.uint8)
        self.comm.Allgatherv(self._buffer(mine), [everything, lengths.tolist(), None, self._mpi.UINT8_T])
        pieces = np.split(everything, np.cumsum(lengths)[:-1])
        return [json.loads(piece.tobytes()) for piece in pieces]

    def sendrecv(self, send: Array, to: int, receive: Array, source: int) -> None:
        """Send to one peer and receive from one peer at once (point to point)."""
        self.comm.Sendrecv(self._buffer(send), to, 0, self._buffer(receive), source, 0)

    def all_gather_array(self, array: Array, out: Array) -> None:
        """Write all workers' arrays [n] to `out` [size, n], by rank."""
        self.comm.Allgather(self._buffer(array), self._buffer(out))

    def reduce_scatter(self, array: Array, out: Array) -> None:
        """Write the sum of all workers' row of this rank of `array` [size, n] to `out` [n]."""
        self.comm.Reduce_scatter_block(self._buffer(array), self._buffer(out), self._mpi.SUM)

    def all_to_all(self, send: Array, receive: Array) -> None:
        """Send row i of `send` [size, n] to rank i, and write what rank i has sent to row i of `receive` [size, n]."""
        self.comm.Alltoall(self._buffer(send), self._buffer(receive))

    def split(self, color: int) -> "MpiGroup":
        """Return the group of all ranks with the same color, such as those of one host; a collective."""
        return MpiGroup(self._mpi, self.comm.Split(color, self.rank))

    def close(self) -> None:
        """Give the group up; a collective."""
        if not self._closed:
            self._closed = True
            self.comm.Free()

    def _buffer(self, array: Array) -> list[Any]:
        """Return an array with its MPI type: looking the type up anew costs more than a short message."""
        datatype = self._types.get(array.dtype)
        if datatype is None:
            # Predefined types only: the library reduces no derived one.
            datatype = self._types[array.dtype] = self._mpi.Datatype.fromcode(array.dtype.char)
        return [array, datatype]


class MpiCommunicator(MpiGroup):
    """One rank of a private duplicate of MPI_COMM_WORLD. One thread at a time may call it.

    Attributes:
        library: Name and version of the MPI library, such as "Open MPI 5.0.11".
        components: Collective components that serve the communicator, the first asked last; empty where the library
            was not asked to report them (`coll_base_verbose`).
    """

    def __init__(self, mpi: Any) -> None:
        self.library = _rendezvous.short_version(mpi.Get_library_version())
        # To the next rank and from the one before. Sending to a rank that cannot be reached is an error; Open MPI's
        # collectives may wait for it for ever.
        world = mpi.COMM_WORLD
        world.Sendrecv(bytearray(1), (world.rank + 1) % world.size, 0, bytearray(1), (world.rank - 1) % world.size, 0)
        with captured_stderr() as captured:
            comm = world.Dup()
        sys.stderr.write(other_lines(captured.text))
        self.components = selected_components(captured.text)
        super().__init__(mpi, comm)
        # Messages on their way, whose memory must stay.
        self._sending: deque[tuple[Any, Array]] = deque()
        self._memory: MpiMemory | None = None

    def send(self, data: Array, to: int, tag: int = 0) -> None:
        """Send bytes [n] (uint8) to a rank without waiting; those with one tag arrive in order.

        The array is not to be written again.
        """
        self._sending.append((self.comm.Isend([data, self._mpi.BYTE], to, tag), data))
        self.is_sending()

    def is_sending(self) -> bool:
        """Whether a message is still on its way: a large one gets on only while this process calls MPI."""
        while self._sending and self._sending[0][0].Test():
            self._sending.popleft()
        return bool(self._sending)

    def probe(self) -> tuple[int, int, int] | None:
        """Return source, tag and bytes of a message that has arrived, None where there is none."""
        status, anywhere = self._mpi.Status(), (self._mpi.ANY_SOURCE, self._mpi.ANY_TAG)
        # Open MPI looks first and fetches what has arrived then: only the second look finds that.
        if not self.comm.Iprobe(*anywhere, status) and not self.comm.Iprobe(*anywhere, status):
            return None
        return status.source, status.tag, status.Get_count(self._mpi.BYTE)

    def receive(self, source: int, tag: int, num_bytes: int | None = None) -> Array:
        """Return the message that `probe` has found, bytes [n] (uint8); without a length the next one from there."""
        if num_bytes is None:
            status = self._mpi.Status()
            self.comm.Probe(source, tag, status)
            num_bytes = status.Get_count(self._mpi.BYTE)
        data = np.empty(num_bytes, np.uint8)
        self.comm.Recv([data, self._mpi.BYTE], source, tag)
        return data

    def enter_barrier(self) -> Callable[[], bool]:
        """Enter a barrier without waiting; what is returned says whether all have entered. A collective."""
        is_over: Callable[[], bool] = self.comm.Ibarrier().Test
        return is_over

    def share(self, first: Array, num_ranks: int) -> MpiMemory | None:
        """Return a vector that the first ranks read and write until they close the communicator; a collective.

        It is None for other ranks.
        """
        sharing = self.comm.Split(0 if self.rank < num_ranks else self._mpi.UNDEFINED, self.rank)
        if sharing == self._mpi.COMM_NULL:
            return None
        on_this_host = sharing.Split_type(self._mpi.COMM_TYPE_SHARED)
        is_on_one_host = on_this_host.size == sharing.size
        on_this_host.Free()
        self._memory = MpiMemory(self._mpi, sharing, first, is_on_one_host=is_on_one_host)
        return self._memory

    def control_variable(self, name: str) -> str | None:
        """Return the effective value of one of the library's control variables, None where it has none."""
        library = loaded_library()
        if library is None or not self.library.startswith("Open MPI"):
            return None
        return ControlVariables(library, self._mpi.Query_thread()).read(name)

    def close(self) -> None:
        """Disconnect; a collective."""
        if self._closed:
            return
        self._closed = True
        self._mpi.Request.Waitall([request for request, _ in self._sending])
        if self._memory is not None:
            self._memory.close()
        # `Free` and `Finalize` wait with the interpreter's lock held: a worker's other threads could send nothing.
        self.comm.Barrier()
        self.comm.Free()
        self._mpi.Finalize()


def connect(num_workers: int) -> MpiCommunicator:
    """Start MPI and return this rank's communicator.

    Raises:
        RuntimeError: There is no MPI library, or not exactly `num_workers` distinct processes are connected.
    """
    import mpi4py

    # One thread at a time calls MPI; a library that need not lock is quicker with short messages.
    mpi4py.rc.thread_level = "serialized"
    # MPI_Finalize waits for the other ranks. A worker that fails must end instead, so that the launcher sees it.
    mpi4py.rc.finalize = False
    try:
        from mpi4py import MPI  # which starts MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(
            f"mpi4py cannot load an MPI library ({error}); `pip install 'dlbench[mpi]'` brings one"
        ) from error
    communicator = MpiCommunicator(MPI)
    _rendezvous.check(communicator, num_workers, f"{communicator.library} at {loaded_library() or 'an unknown place'}")
    return communicator
