"""A script that goes wrong as its argument says: `odd.py how [rank]`, on that rank only where one is given."""

import ctypes
import os
import sys
import time

import dlbench.worker as dlbench

how = sys.argv[1]
if "OMPI_COMM_WORLD_RANK" in os.environ:
    from mpi4py import MPI

    run = dlbench.begin(rank=MPI.COMM_WORLD.rank, size=MPI.COMM_WORLD.size, barrier=MPI.COMM_WORLD.Barrier)
else:
    run = dlbench.begin(size=int(how.split("=")[1]) if how.startswith("size=") else None)

for number in range(20):
    with run.step(num_samples=1) as step:
        step.loss = 1.0 / (number + 1)
print("twenty steps")

if len(sys.argv) < 3 or run.rank == int(sys.argv[2]):
    if how == "raise":
        raise ValueError("went wrong\nsecond line")
    if how == "exit":
        sys.exit(0)
    if how == "nan":
        with run.step(num_samples=1) as step:
            step.loss = float("nan")
    if how == "hold":  # the interpreter's lock, as a library in C may
        ctypes.PyDLL(None).sleep(3)
    if how == "wait":
        time.sleep(60)
elif how in ("raise", "exit"):
    MPI.COMM_WORLD.Barrier()  # in which the others would wait without end
run.finish()
if how == "after":
    raise MemoryError("after the end")
