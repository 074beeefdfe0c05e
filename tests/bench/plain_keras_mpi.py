"""The fast script that needs no dlbench: Keras on TensorFlow, gradients summed with mpi4py.

One compiled call packs all gradients, loss and hits into a vector; it is copied into one buffer, summed there in place,
and read from there by the second compiled call.
"""

import numpy as np

from tests.bench.plain import Batches, Network, aligned, arguments, measure


def main() -> None:
    """Train, and hand in the rate."""
    options = arguments()
    import mpi4py

    mpi4py.rc.thread_level = "serialized"
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    batches = Batches(options)
    net = Network(options, batches)
    tf = net.tf
    for variable in net.model.variables:
        value = np.ascontiguousarray(variable.numpy())
        comm.Bcast(value)
        variable.assign(value)
    sizes = [int(np.prod(variable.shape)) for variable in net.variables]
    buffer = aligned((sum(sizes) + 2,), np.float32)

    def gradient(x, y):  # type: ignore[no-untyped-def]
        gradients, sums = net.differentiate(x, y)
        return tf.concat([*(tf.reshape(part, [-1]) for part in gradients), sums], 0)

    def update(flat):  # type: ignore[no-untyped-def]
        parts = tf.split(flat, [*sizes, 2])[:-1]
        shaped = [tf.reshape(part, variable.shape) for part, variable in zip(parts, net.variables, strict=True)]
        net.optimizer.apply(shaped, net.variables)

    compute, apply = net.compiled(gradient, batches.x, batches.y), net.compiled(update, buffer)
    x, y, flat = net.tensor(batches.x), net.tensor(batches.y), net.tensor(buffer)
    message, global_batch = [buffer, MPI.FLOAT], options.batch_size * options.size

    def step() -> float:
        batches.next()
        np.copyto(buffer, memoryview(compute(x, y)))
        comm.Allreduce(MPI.IN_PLACE, message)
        apply(flat)
        return float(buffer[-2]) / global_batch

    measure(options, step, comm.Barrier)


if __name__ == "__main__":
    main()
