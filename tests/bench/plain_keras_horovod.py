"""The script a careful person writes without dlbench: Keras on TensorFlow, gradients averaged by Horovod.

Gradients are exchanged in one of the two ways that Horovod offers: each by itself, as `hvd.DistributedGradientTape`
does by default, or all of them in one group. Started under the same mpirun, threads and cores as
dlbench's workers. It reads the same prepared arrays and trains the same network on the same number of steps in one
compiled call each.
"""

from typing import Any

from tests.bench.plain import arguments, arrays, batches, keras_model, measure


def main() -> None:
    """Train, and print the rate."""
    options = arguments()
    x, y = arrays(options)
    tf, model, optimizer, loss_of = keras_model(options, x, y)
    import horovod.tensorflow as hvd

    hvd.init()
    hvd.broadcast_variables([variable.value for variable in model.variables], root_rank=0)
    weights = [variable.value for variable in model.trainable_variables]

    @tf.function(jit_compile=False)
    def train(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(tf.cast(images, tf.float32) * options.scale, training=True))
        tape = hvd.DistributedGradientTape(tape, op=hvd.Average, groups=options.groups or None)
        optimizer.apply(tape.gradient(loss, weights), model.trainable_variables)
        return loss

    source = batches(x, y, options.batch_size, hvd.rank(), hvd.size())
    measure(
        options,
        step=lambda: float(train(*next(source))),
        barrier=lambda: hvd.allreduce(tf.zeros(1)).numpy(),
        of_rank_0=lambda value: float(hvd.broadcast(tf.constant(value, tf.float64), root_rank=0)),
        rank=hvd.rank(),
        size=hvd.size(),
    )
    hvd.shutdown()


if __name__ == "__main__":
    main()
