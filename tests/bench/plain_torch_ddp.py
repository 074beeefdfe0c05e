"""The same training in PyTorch: DistributedDataParallel over Gloo, for a look at another engine.

It needs PyTorch, which dlbench does not install. Samples lie in memory, a batch is gathered into one buffer, images
are kept channels last (the quicker of the two on a processor), gradients are views into DDP's buckets.
"""

import os
import sys
from typing import Any

from tests.bench.plain import Batches, arguments, measure

STAGES = ((16, 1), (32, 2), (64, 2))


def mlp(shape: tuple[int, ...], num_classes: int) -> Any:
    """Return `dlbench.models.mlp`."""
    from torch import nn

    inputs = shape[0] * shape[1] * shape[2]
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, num_classes))


def cnn(shape: tuple[int, ...], num_classes: int) -> Any:
    """Return `dlbench.models.cnn`."""
    from torch import nn

    layers: list[Any] = []
    inputs = shape[2]
    for filters in (32, 64):
        layers += [nn.Conv2d(inputs, filters, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)]
        inputs = filters
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(inputs * (shape[0] // 4) * (shape[1] // 4), num_classes))


def resnet20(shape: tuple[int, ...], num_classes: int) -> Any:
    """Return He et al.'s ResNet-20 with shortcuts without parameters, as the model `resnet20` is built."""
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

    layers: list[Any] = [nn.Conv2d(shape[2], 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    inputs = 16
    for filters, stride in STAGES:
        for block in range(3):
            layers.append(Block(inputs, filters, stride if block == 0 else 1))
            inputs = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, num_classes))


def main() -> None:
    """Train, and hand in the rate."""
    options = arguments()
    import torch
    from torch import distributed

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29417"}
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo", rank=options.rank, world_size=options.size)
    batches = Batches(options)
    build = {"mlp": mlp, "cnn": cnn, "resnet20": resnet20}[options.model]
    model = build(batches.x.shape[1:], batches.num_classes).to(memory_format=torch.channels_last)
    parallel = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    # Memory [n, height, width, channels] seen as [n, channels, height, width] is channels last already.
    x, y = torch.from_numpy(batches.x).permute(0, 3, 1, 2), torch.from_numpy(batches.y)

    def step() -> float:
        batches.next()
        labels = y.long()
        logits = parallel(x.float() * options.scale)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        int((logits.detach().argmax(1) == labels).sum())
        return float(loss.item())

    measure(options, step, distributed.barrier)
    distributed.destroy_process_group()
    sys.stdout.flush()
    # What has been measured is handed in; threads of Gloo's now and then abort a process that ends of itself.
    os._exit(0)


if __name__ == "__main__":
    main()
