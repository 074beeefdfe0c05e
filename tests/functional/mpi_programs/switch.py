"""Switch Open MPI's all-reduce inside one process, so that one start of TensorFlow serves every algorithm."""

import ctypes

from dlbench.communicators._mpi_tool import loaded_library
from dlbench.communicators.mpi import MpiCommunicator

# Numbers of Open MPI 5's enumeration; the strategy's own proof shows whether they still mean this.
NUMBERS = {"auto": 0, "recursive-doubling": 3, "ring": 4, "rabenseifner": 6}


def communicator_with(algorithm: str) -> MpiCommunicator:
    """Return a communicator on a new communicator, which takes the algorithm that is set when it is made."""
    from mpi4py import MPI

    if algorithm in NUMBERS:
        _write("coll_tuned_allreduce_algorithm", NUMBERS[algorithm], MPI.Query_thread())
    return MpiCommunicator(MPI)


def _write(name: str, value: int, thread_level: int) -> None:
    library = ctypes.CDLL(str(loaded_library()))
    provided, index, count, handle = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    codes = [
        library.MPI_T_init_thread(thread_level, ctypes.byref(provided)),
        library.MPI_T_cvar_get_index(name.encode(), ctypes.byref(index)),
        library.MPI_T_cvar_handle_alloc(index, None, ctypes.byref(handle), ctypes.byref(count)),
        library.MPI_T_cvar_write(handle, ctypes.byref(ctypes.c_int(value))),
        library.MPI_T_cvar_handle_free(ctypes.byref(handle)),
        library.MPI_T_finalize(),
    ]
    if any(codes):
        raise RuntimeError(f"cannot set {name} to {value}: MPI_T answers {codes}")
