"""The fast script that needs no dlbench: Keras on PyTorch, gradients summed by DDP over Gloo, or with mpi4py (`--mpi`).

All gradients are views of one buffer, which MPI sums in place, or of DDP's buckets.
"""

import os
import sys

from tests.bench.plain import Batches, arguments, measure


def main() -> None:
    """Train, and hand in the rate."""
    with_mpi = "--mpi" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--mpi"]
    options = arguments()
    os.environ |= {"KERAS_BACKEND": "torch", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29418"}
    import torch

    from dlbench import plugins
    from dlbench.trainers import Problem

    torch.set_num_threads(1)
    torch.manual_seed(0)
    batches = Batches(options)
    plugin = plugins.load("models", options.model)
    model = plugin.get("keras")(Problem(batches.x.shape[1:], batches.num_classes), plugin.options())
    keras_variables = list(model.trainable_variables)
    parameters = [variable.value for variable in keras_variables]
    optimizer = torch.optim.SGD(parameters, lr=0.01, foreach=True)
    x, y = torch.from_numpy(batches.x), torch.from_numpy(batches.y)
    if with_mpi:
        from mpi4py import MPI

        buffer = torch.zeros(sum(parameter.numel() for parameter in parameters))
        parts = buffer.split([parameter.numel() for parameter in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.view(parameter.shape)
        message, comm = [buffer.numpy(), MPI.FLOAT], MPI.COMM_WORLD
        parallel, barrier = model, comm.Barrier
    else:
        from torch import distributed

        distributed.init_process_group("gloo", rank=options.rank, world_size=options.size)
        parallel, barrier = (
            torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True),
            (distributed.barrier),
        )

    def step() -> float:
        batches.next()
        labels = y.long()
        logits = parallel(x.float() * options.scale, training=True)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        loss.backward()
        if with_mpi:
            comm.Allreduce(MPI.IN_PLACE, message)
            buffer.div_(options.size)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        int((logits.detach().argmax(1) == labels).sum())
        return float(loss.item())

    measure(options, step, barrier)
    sys.stdout.flush()
    if not with_mpi:  # what has been measured is handed in; threads of Gloo's now and then abort a process that exits
        os._exit(0)


if __name__ == "__main__":
    main()
