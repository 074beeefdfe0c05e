"""The script a careful person writes without dlbench: Keras on TensorFlow, gradients averaged with mpi4py.

Started under the same mpirun, threads and cores as dlbench's workers. It reads the same prepared arrays and trains the
same network on the same number of steps.
"""

import numpy as np

from tests.bench.plain import arguments, arrays, batches, keras_model, measure


def main() -> None:
    """Train, and print the rate."""
    options = arguments()
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    x, y = arrays(options)
    tf, model, optimizer, loss_of = keras_model(options, x, y)

    @tf.function(jit_compile=False)
    def gradients(images, labels):  # type: ignore[no-untyped-def]
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(tf.cast(images, tf.float32) * options.scale, training=True))
        parts = tape.gradient(loss, model.trainable_variables)
        return tf.concat([tf.reshape(part, [-1]) for part in parts], axis=0), loss

    sizes = [int(np.prod(variable.shape)) for variable in model.trainable_variables]

    @tf.function(jit_compile=False)
    def update(flat):  # type: ignore[no-untyped-def]
        parts = tf.split(flat, sizes)
        pairs = zip(parts, model.trainable_variables, strict=True)
        optimizer.apply([tf.reshape(part, variable.shape) for part, variable in pairs], model.trainable_variables)

    for variable in model.variables:
        value = np.ascontiguousarray(variable.numpy())
        comm.Bcast(value)
        variable.assign(value)

    source = batches(x, y, options.batch_size, comm.rank, comm.size)
    buffer = np.empty(sum(sizes), np.float32)

    def step() -> None:
        flat, _ = gradients(*next(source))
        comm.Allreduce(flat.numpy(), buffer)
        np.divide(buffer, comm.size, out=buffer)
        update(buffer)

    measure(options, step, comm.Barrier, comm.bcast, comm.rank, comm.size)


if __name__ == "__main__":
    main()
