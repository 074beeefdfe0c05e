"""Parameters that all ranks read and write: shared memory on one host, one-sided MPI between several."""

from typing import Any

import numpy as np

from dlbench.strategies import Array

_HOLDER = 0


class MpiMemory:
    """One vector, which rank 0 holds, and how often it was written. All ranks make and close it together.

    On one host reads and writes are the processor's own, of memory that all processes map: nothing makes them one at a
    time. Between hosts a read is an MPI_Get_accumulate that adds nothing and a write an MPI_Accumulate, both of which
    are atomic for each number; while rank 0 computes they wait for its next call of MPI.

    Args:
        mpi: The module.
        comm: All ranks, and no others.
        first: The vector's first values, the same on all ranks.
        is_on_one_host: Whether all ranks can map the same memory.

    Attributes:
        bytes_moved: Bytes that this rank has got and sent one-sidedly; 0 for rank 0, which has them.
    """

    def __init__(self, mpi: Any, comm: Any, first: Array, *, is_on_one_host: bool) -> None:
        self.bytes_moved = 0
        self._mpi, self._shape, self._dtype = mpi, first.shape, first.dtype
        self._type = mpi.Datatype.fromcode(first.dtype.char)
        self._comm, self._is_holder = comm, comm.rank == _HOLDER
        is_holder = self._is_holder
        allocate = mpi.Win.Allocate_shared if is_on_one_host else mpi.Win.Allocate
        self._window = allocate(first.nbytes if is_holder else 0, first.itemsize, comm=comm)
        self._counter = mpi.Win.Allocate(8 if is_holder else 0, 8, comm=comm)
        # What the processor can reach: all ranks' on one host, else the holder's alone.
        self._own: Array | None = None
        if is_on_one_host:
            self._own = np.frombuffer(self._window.Shared_query(_HOLDER)[0], first.dtype)
        for window in (self._window, self._counter):
            window.Lock_all()
        if is_holder:
            np.frombuffer(self._counter.tomemory(), np.int64)[:] = 0
            np.frombuffer(self._window.tomemory(), first.dtype)[:] = first
        for window in (self._window, self._counter):
            window.Sync()
        comm.Barrier()
        for window in (self._window, self._counter):
            window.Sync()

    def read(self) -> tuple[Array, int]:
        """Return the vector, and how many times it had been written before it was read.

        On one host it is the memory itself, which others may be writing.
        """
        version = self._count(0)
        if self._own is not None:
            self._window.Sync()
            return self._own, version
        values = np.empty(self._shape, self._dtype)
        added = np.empty_like(values)  # which NO_OP does not look at
        self._window.Get_accumulate([added, self._type], [values, self._type], _HOLDER, op=self._mpi.NO_OP)
        self._window.Flush(_HOLDER)
        self._count_bytes(values)
        return values, version

    def subtract(self, change: Array, at: Array | None = None) -> int:
        """Subtract from all numbers, or from those at some places (each named once); return the writes before.

        A write of places moves the numbers only: where they belong travels as an MPI type, whose bytes are not counted.
        """
        if self._own is None:
            self._add_there(-change, at)
        else:
            self._own[slice(None) if at is None else at] -= change
        return self._count(1)

    def close(self) -> None:
        """Give the memory back; a collective."""
        self._own = None
        for window in (self._window, self._counter):
            window.Unlock_all()
            window.Free()
        self._comm.Free()

    def _add_there(self, change: Array, at: Array | None) -> None:
        if at is None:
            self._window.Accumulate([change, self._type], _HOLDER, op=self._mpi.SUM)
            self._window.Flush(_HOLDER)
        elif len(at):
            places = self._type.Create_indexed_block(1, at.tolist()).Commit()
            self._window.Accumulate([change, self._type], _HOLDER, [0, 1, places], op=self._mpi.SUM)
            self._window.Flush(_HOLDER)
            places.Free()
        self._count_bytes(change)

    def _count_bytes(self, moved: Array) -> None:
        self.bytes_moved += 0 if self._is_holder else moved.nbytes

    def _count(self, more: int) -> int:
        """Return the count as it was, and add to it, in one atomic operation."""
        added, before = np.array([more], np.int64), np.empty(1, np.int64)
        operation = self._mpi.SUM if more else self._mpi.NO_OP
        self._counter.Fetch_and_op(added, before, _HOLDER, op=operation)
        self._counter.Flush(_HOLDER)
        return int(before[0])
