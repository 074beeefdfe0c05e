"""The same training in PyTorch: ResNet-20 under DistributedDataParallel over Gloo, for a look at another engine.

Started under the same mpirun, threads and cores as dlbench's workers, on the same prepared arrays; prints one JSON
line from rank 0 like the other plain scripts. It needs PyTorch, which dlbench does not install.
"""

import json
import os
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from tests.bench.plain_keras_mpi import arguments

STAGES = ((16, 1), (32, 2), (64, 2))


def resnet20(num_classes: int) -> Any:
    """Return He et al.'s ResNet-20 with shortcuts without parameters, as `dlbench.models.resnet20` builds it."""
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self, inputs: int, filters: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(inputs, filters, 3, stride, 1, bias=False)
            self.first_norm = nn.BatchNorm2d(filters)
            self.second = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
            self.second_norm = nn.BatchNorm2d(filters)
            self.stride, self.missing = stride, filters - inputs

        def forward(self, x: Any) -> Any:
            residual = functional.relu(self.first_norm(self.first(x)))
            residual = self.second_norm(self.second(residual))
            half = self.missing // 2
            shortcut = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, self.missing - half))
            return functional.relu(residual + shortcut)

    layers: list[Any] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    inputs = 16
    for filters, stride in STAGES:
        for block in range(3):
            layers.append(Block(inputs, filters, stride if block == 0 else 1))
            inputs = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, num_classes))


def main() -> None:
    """Train, and print the rate."""
    options = arguments()
    rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]) % len(cores)]})
    import numpy as np
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo", rank=rank, world_size=size)
    x, y = np.load(options.data / "x.npy", mmap_mode="r"), np.load(options.data / "y.npy").astype(np.int64)
    model = torch.nn.parallel.DistributedDataParallel(resnet20(int(y.max()) + 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    random = np.random.default_rng(0)
    per_step = options.batch_size * size

    def batches() -> Iterator[tuple[Any, Any]]:
        while True:
            order = random.permutation(len(x))
            for start in range(0, len(x) - per_step + 1, per_step):
                mine = order[start + rank * options.batch_size :][: options.batch_size]
                yield torch.from_numpy(x[mine]).permute(0, 3, 1, 2), torch.from_numpy(y[mine])

    source = batches()

    def steps(number: int) -> float:
        """Train so many steps between two barriers; return the seconds."""
        distributed.barrier()
        started = perf_counter()
        for _ in range(number):
            images, labels = next(source)
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(images.float() * options.scale), labels)
            loss.backward()
            optimizer.step()
            float(loss)
        distributed.barrier()
        return perf_counter() - started

    steps(options.warmup_steps)
    step_s = torch.tensor([steps(20) / 20], dtype=torch.float64)
    distributed.broadcast(step_s, src=0)
    number = max(20, round(options.window_s / float(step_s)))
    seconds = steps(number)
    if rank == 0:
        print(json.dumps({"samples": number * per_step, "seconds": seconds, "steps": number}))
    sys.stdout.flush()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
