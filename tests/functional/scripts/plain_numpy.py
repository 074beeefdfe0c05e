"""Softmax regression on ten clouds of points in plain NumPy: a script of one process, with the hook's few lines.

python plain_numpy.py [--epochs N] [--batch-size N]
"""

import argparse

import numpy as np

import dlbench.worker as dlbench

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=32)
arguments = parser.parse_args()

run = dlbench.begin(defaults={"learning_rate": 0.5})
rng = np.random.default_rng(run.seed)
data = np.random.default_rng(0)
y = data.integers(10, size=1797)
x = (0.45 * data.normal(size=(10, 64))[y] + data.normal(size=(1797, 64))) / 2
order = rng.permutation(len(x))
train, validation = order[:1437], order[1437:]
weights, bias = np.zeros((64, 10)), np.zeros(10)


def probabilities(samples):
    scores = samples @ weights + bias
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


for _ in range(arguments.epochs):
    rng.shuffle(train)
    for start in range(0, len(train), arguments.batch_size):
        batch = train[start : start + arguments.batch_size]
        with run.step(num_samples=len(batch)) as step:
            found = probabilities(x[batch])
            step.loss = float(-np.log(found[np.arange(len(batch)), y[batch]]).mean())
            found[np.arange(len(batch)), y[batch]] -= 1
            weights -= run.settings.learning_rate * x[batch].T @ found / len(batch)
            bias -= run.settings.learning_rate * found.mean(axis=0)
    accuracy = float((probabilities(x[validation]).argmax(axis=1) == y[validation]).mean())
    print(f"validation accuracy {accuracy:.3f}")
    if run.epoch(validation_accuracy=accuracy):
        break
run.finish(weights=[weights, bias])
