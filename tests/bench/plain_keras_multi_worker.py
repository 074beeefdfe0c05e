"""The script that needs no dlbench: Keras on TensorFlow, gradients summed by MultiWorkerMirroredStrategy over gRPC.

A loop of its own: `model.fit` fails under this strategy with Keras 3, "Attempt to convert a value (PerReplica ...)"
(https://github.com/keras-team/keras/issues/20585). Keras's optimizer sums gradients over replicas itself.
"""

import json
import os
from typing import Any

from tests.bench.plain import Batches, Network, arguments, measure

FIRST_PORT = 29421


def main() -> None:
    """Train, and hand in the rate."""
    options = arguments()
    workers = [f"127.0.0.1:{FIRST_PORT + rank}" for rank in range(options.size)]
    task = {"type": "worker", "index": options.rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    ring = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=ring)
    batches = Batches(options)
    with strategy.scope():
        net = Network(options, batches)

    def on_one(x: Any, y: Any) -> Any:
        gradients, sums = net.differentiate(x, y)
        net.optimizer.apply(gradients, net.variables)
        return sums

    def meet() -> Any:
        return tf.distribute.get_replica_context().all_reduce("sum", tf.ones(1))

    compute = net.compiled(lambda x, y: strategy.run(on_one, (x, y)), batches.x, batches.y)
    barrier = net.compiled(lambda: strategy.run(meet))
    x, y = net.tensor(batches.x), net.tensor(batches.y)

    def step() -> float:
        batches.next()
        return float(compute(x, y).numpy()[0]) / options.batch_size

    measure(options, step, lambda: barrier().numpy())


if __name__ == "__main__":
    main()
