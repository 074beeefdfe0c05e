"""The script a careful person writes without dlbench: Keras on TensorFlow, gradients averaged with mpi4py.

Started under the same mpirun, threads and cores as dlbench's workers. It reads the same prepared arrays, trains the
same network on the same number of steps, and prints one JSON line from rank 0: samples of all ranks, and the common
time of the window between two barriers, evaluation and the first steps left out.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from time import perf_counter


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch-size", type=int, required=True, help="of one rank")
    parser.add_argument("--warmup-steps", type=int, default=32)
    parser.add_argument("--groups", type=int, default=0, help="of gradients, for Horovod; 0: each alone")
    parser.add_argument("--window-s", type=float, default=20.0)
    parser.add_argument("--scale", type=float, required=True, help="stored number x scale = network input")
    return parser.parse_args()


def main() -> None:  # noqa: C901 - one plain script, as people write it
    """Train, and print the rate."""
    options = arguments()
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[comm.rank % len(cores)]})
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import numpy as np
    import tensorflow as tf

    from dlbench import plugins
    from dlbench.trainers import Problem

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(0)
    x, y = np.load(options.data / "x.npy", mmap_mode="r"), np.load(options.data / "y.npy").astype(np.int32)
    plugin = plugins.load("models", options.model)
    model = plugin.get("keras")(Problem(x.shape[1:], int(y.max()) + 1), plugin.options())
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

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

    random = np.random.default_rng(0)
    per_step = options.batch_size * comm.size
    buffer = None

    def batches():  # type: ignore[no-untyped-def]
        while True:
            order = random.permutation(len(x))
            for start in range(0, len(x) - per_step + 1, per_step):
                mine = order[start + comm.rank * options.batch_size :][: options.batch_size]
                yield x[mine], y[mine]

    source = batches()

    def step() -> None:
        nonlocal buffer
        images, labels = next(source)
        flat, _ = gradients(images, labels)
        local = flat.numpy()
        if buffer is None:
            buffer = np.empty_like(local)
        comm.Allreduce(local, buffer)
        buffer /= comm.size
        update(buffer)

    for _ in range(options.warmup_steps):
        step()
    comm.Barrier()
    started = perf_counter()
    steps = 0
    step_s = 0.0
    while True:
        step()
        steps += 1
        if steps == 20:  # all ranks leave together: rank 0 says after how many steps
            step_s = comm.bcast((perf_counter() - started) / steps)
        if steps >= 20 and steps >= options.window_s / step_s:
            break
    comm.Barrier()
    seconds = perf_counter() - started
    if comm.rank == 0:
        print(json.dumps({"samples": steps * per_step, "seconds": seconds, "steps": steps}))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
