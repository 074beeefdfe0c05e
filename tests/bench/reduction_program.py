"""Under mpirun: dlbench's reduction of ResNet-18's gradients against a bare mpi4py Allreduce of the same bytes."""

import json
import sys
from time import perf_counter

import numpy as np
from mpi4py import MPI

from dlbench import plugins
from tests.bench.pairs import interleaved

# Trainable parameters of the CIFAR variant of ResNet-18: 45 MB in float32.
NUM_PARAMETERS = 11_173_962
REPEATS = 10


def main() -> None:
    """Print one JSON line from rank 0: the seconds of each way and of packing, turn by turn."""
    comm = MPI.COMM_WORLD
    turns = int(sys.argv[1])
    communicator = plugins.load("communicators", "mpi").get("connect")(comm.size)
    plugin = plugins.load("strategies", "mpi")
    strategy = plugin.get("create")(plugin.options(), communicator, "auto")
    gradient = np.ones(NUM_PARAMETERS, np.float32)
    send, receive = np.ones_like(gradient), np.empty_like(gradient)
    layers = [np.ones(NUM_PARAMETERS // 62, np.float32) for _ in range(62)]
    packed = np.empty(sum(layer.size for layer in layers), np.float32)

    def timed(action) -> float:  # type: ignore[no-untyped-def]
        action()
        comm.Barrier()
        started = perf_counter()
        for _ in range(REPEATS):
            action()
        comm.Barrier()
        return comm.allreduce(perf_counter() - started, MPI.MAX) / REPEATS

    def ours() -> float:
        return timed(lambda: strategy.all_reduce(gradient))

    def separate() -> float:
        return timed(lambda: comm.Allreduce([send, MPI.FLOAT], [receive, MPI.FLOAT]))

    def in_place() -> float:
        return timed(lambda: comm.Allreduce(MPI.IN_PLACE, [receive, MPI.FLOAT]))

    def packing() -> float:
        return timed(lambda: np.concatenate(layers, out=packed))

    sides = {
        "dlbench": ours,
        "bare Allreduce, in place": in_place,
        "bare Allreduce, two buffers": separate,
        "packing 62 layers into one buffer": packing,
    }
    found = interleaved(sides, turns)
    if comm.rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
