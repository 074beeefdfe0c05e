"""The same training in PyTorch: ResNet-20 under DistributedDataParallel over Gloo, for a look at another engine.

Started under the same mpirun, threads and cores as dlbench's workers, on the same prepared arrays. It needs
PyTorch, which dlbench does not install.
"""

import os
from typing import Any

from tests.bench.plain import arguments, arrays, batches, measure

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
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo", rank=rank, world_size=size)
    x, y = arrays(options)
    model = torch.nn.parallel.DistributedDataParallel(resnet20(int(y.max()) + 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    source = batches(x, y, options.batch_size, rank, size)

    def step() -> None:
        images, labels = map(torch.from_numpy, next(source))
        optimizer.zero_grad(set_to_none=True)
        logits = model(images.permute(0, 3, 1, 2).float() * options.scale)
        loss = torch.nn.functional.cross_entropy(logits, labels.long())
        loss.backward()
        optimizer.step()
        float(loss)

    def of_rank_0(value: float) -> float:
        held = torch.tensor([value], dtype=torch.float64)
        distributed.broadcast(held, src=0)
        return float(held)

    measure(options, step, distributed.barrier, of_rank_0, rank, size)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
