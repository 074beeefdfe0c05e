"""The script a careful person writes without dlbench: Keras on TensorFlow, gradients averaged by Horovod.

Gradients are exchanged in one of the two ways that Horovod offers: each by itself, as `hvd.DistributedGradientTape`
does unless it is told otherwise, or all of them in one group. Started under the same mpirun, threads and cores as
dlbench's workers. It reads the same prepared arrays, trains the same network on the same number of steps in one
compiled call each, and prints one JSON line from rank 0: samples of all ranks, and the common time of the window
between two barriers, evaluation and the first steps left out.
"""

import json
import os
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from tests.bench.plain_keras_mpi import arguments


def main() -> None:
    """Train, and print the rate."""
    options = arguments()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    local_rank = int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[local_rank % len(cores)]})
    import horovod.tensorflow as hvd
    import keras
    import numpy as np
    import tensorflow as tf

    from dlbench import plugins
    from dlbench.trainers import Problem

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    hvd.init()
    keras.utils.set_random_seed(0)
    x, y = np.load(options.data / "x.npy", mmap_mode="r"), np.load(options.data / "y.npy").astype(np.int32)
    plugin = plugins.load("models", options.model)
    model = plugin.get("keras")(Problem(x.shape[1:], int(y.max()) + 1), plugin.options())
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    hvd.broadcast_variables([variable.value for variable in model.variables], root_rank=0)

    weights = [variable.value for variable in model.trainable_variables]

    @tf.function(jit_compile=False)
    def train(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(tf.cast(images, tf.float32) * options.scale, training=True))
        tape = hvd.DistributedGradientTape(tape, op=hvd.Average, groups=options.groups or None)
        optimizer.apply(tape.gradient(loss, weights), model.trainable_variables)
        return loss

    per_step = options.batch_size * hvd.size()
    random = np.random.default_rng(0)

    def batches() -> Iterator[tuple[Any, Any]]:
        while True:
            order = random.permutation(len(x))
            for start in range(0, len(x) - per_step + 1, per_step):
                mine = order[start + hvd.rank() * options.batch_size :][: options.batch_size]
                yield x[mine], y[mine]

    source = batches()

    def barrier() -> None:
        hvd.allreduce(tf.zeros(1)).numpy()

    def steps(number: int) -> float:
        """Train so many steps between two barriers; return the seconds."""
        barrier()
        started = perf_counter()
        for _ in range(number):
            float(train(*next(source)))
        barrier()
        return perf_counter() - started

    steps(options.warmup_steps)
    step_s = hvd.broadcast(tf.constant(steps(20) / 20, tf.float64), root_rank=0)
    number = max(20, round(options.window_s / float(step_s)))
    seconds = steps(number)
    if hvd.rank() == 0:
        print(json.dumps({"samples": number * per_step, "seconds": seconds, "steps": number}))
    sys.stdout.flush()
    hvd.shutdown()


if __name__ == "__main__":
    main()
