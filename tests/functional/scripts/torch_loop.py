"""A plain PyTorch loop, alone or under DDP, with one line of dlbench and a log of its own to compare with.

Each process trains its share of 300 samples in batches, the last of which is smaller, two of them for one update, and
evaluates within and after each epoch. With `--apart` no process knows the gradients of others, with `--alone` process 0
alone evaluates within epochs, what DDP wraps, for half a second.
"""

import argparse
import json
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

import dlbench.torch

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--batch-size", type=int)
parser.add_argument("--lr", type=float)
parser.add_argument("--size", type=int)
parser.add_argument("--apart", action="store_true")
parser.add_argument("--alone", action="store_true")
options = parser.parse_args()

if options.size > 1:
    dist.init_process_group("gloo")
rank = dist.get_rank() if options.size > 1 else 0
torch.manual_seed(1)
x = torch.randn(300, 8)
y = (x.sum(dim=1) > 0).long()
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
if options.size > 1 and not options.apart:
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
hook = dlbench.torch.Hook(model, optimizer)
steps = []


def evaluate():
    model.eval()
    with torch.no_grad():
        accuracy = (model(x).argmax(dim=1) == y).float().mean().item()
    model.train()
    return accuracy


for _ in range(options.epochs):
    mine = torch.arange(rank, 300, options.size)
    batches = mine.split(options.batch_size)
    counted, total = 0, 0.0
    for number, batch in enumerate(batches, 1):
        loss = cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        hook.loss(loss)
        counted, total = counted + len(batch), total + loss.item() * len(batch)
        if number % 2 == 0 or number == len(batches):
            optimizer.step()
            optimizer.zero_grad()
            steps.append([counted, total / counted])
            counted, total = 0, 0.0
        if number == 2 and not options.alone:
            evaluate()
        elif number == 2 and rank == 0:
            with torch.no_grad():
                time.sleep(0.5)
                model.module(x)
    if hook.epoch(validation_accuracy=hook.mean(evaluate())):
        break
name = f"apart-{rank}.json" if options.apart else f"log-{options.size}-{rank}.json"
Path(name).write_text(json.dumps({"steps": steps, "accuracy": evaluate()}))
if options.size > 1:
    dist.destroy_process_group()
