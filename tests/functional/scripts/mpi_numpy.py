"""The same over mpi4py: each rank takes its slice of the batch, gradients are summed with Allreduce.

mpirun -np 2 python mpi_numpy.py [--no-reduce]: without the reduction every rank trains a model of its own.
"""

import sys

import numpy as np
from mpi4py import MPI

import dlbench.worker as dlbench

comm = MPI.COMM_WORLD
run = dlbench.begin(rank=comm.rank, size=comm.size, barrier=comm.Barrier, defaults={"learning_rate": 0.5, "epochs": 3})
rng = np.random.default_rng(run.seed)
data = np.random.default_rng(0)
y = data.integers(10, size=1797)
x = (0.45 * data.normal(size=(10, 64))[y] + data.normal(size=(1797, 64))) / 2
x = np.hstack([x, np.ones((len(x), 1))])
order = rng.permutation(len(x))
train, validation = order[:1437], order[1437:]
weights = np.zeros((65, 10))
global_batch = run.settings.batch_size * comm.size


def probabilities(samples):
    scores = samples @ weights
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


for _ in range(run.epochs):
    rng.shuffle(train)
    for start in range(0, len(train) - global_batch + 1, global_batch):
        first = start + comm.rank * run.batch_size
        batch = train[first : first + run.batch_size]
        with run.step(num_samples=len(batch)) as step:
            samples, labels = x[batch], y[batch]
            step.data_ready()
            found = probabilities(samples)
            step.loss = float(-np.log(found[np.arange(len(batch)), labels]).mean())
            found[np.arange(len(batch)), labels] -= 1
            gradient = samples.T @ found / global_batch
            step.gradient_ready()
            if "--no-reduce" not in sys.argv:
                comm.Allreduce(MPI.IN_PLACE, gradient)
            step.reduced()
            weights -= run.learning_rate * gradient
    mine = validation[comm.rank :: comm.size]
    correct = comm.allreduce(int((probabilities(x[mine]).argmax(axis=1) == y[mine]).sum()))
    run.epoch(validation_accuracy=correct / len(validation), learning_rate=run.learning_rate)
run.finish(weights=[weights])
if comm.rank == 0:
    print(f"validation accuracy {correct / len(validation):.3f}")
