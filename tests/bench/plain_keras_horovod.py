"""The fast script that needs no dlbench: Keras on TensorFlow, gradients summed by Horovod in one compiled call.

Gradients travel in one of the two ways that Horovod offers: each by itself, or all of them in one group.
"""

from typing import Any

from tests.bench.plain import Batches, Network, arguments, measure


def main() -> None:
    """Train, and hand in the rate."""
    options = arguments()
    batches = Batches(options)
    net = Network(options, batches)
    import horovod.tensorflow as hvd

    hvd.init()
    hvd.broadcast_variables([variable.value for variable in net.model.variables], root_rank=0)

    def train(x: Any, y: Any) -> Any:
        gradients, sums = net.differentiate(x, y)
        if options.groups:
            reduced = hvd.grouped_allreduce(gradients, op=hvd.Sum)
        else:
            reduced = [hvd.allreduce(gradient, op=hvd.Sum) for gradient in gradients]
        net.optimizer.apply(reduced, net.variables)
        return sums

    compute = net.compiled(train, batches.x, batches.y)
    x, y = net.tensor(batches.x), net.tensor(batches.y)

    def step() -> float:
        batches.next()
        return float(compute(x, y).numpy()[0]) / options.batch_size

    measure(options, step, lambda: hvd.allreduce(net.tf.zeros(1)).numpy())
    hvd.shutdown()


if __name__ == "__main__":
    main()
