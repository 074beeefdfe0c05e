"""What the plain scripts have in common: the command line, a core for each rank, the arrays, the timed window."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np


def arguments() -> argparse.Namespace:
    """Return the command line, after binding this rank to a core of its own."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]) % len(cores)]})
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch-size", type=int, required=True, help="of one rank")
    parser.add_argument("--warmup-steps", type=int, default=32)
    parser.add_argument("--groups", type=int, default=0, help="of gradients, for Horovod; 0: each alone")
    parser.add_argument("--window-s", type=float, default=20.0)
    parser.add_argument("--scale", type=float, required=True, help="stored number x scale = network input")
    return parser.parse_args()


def arrays(options: argparse.Namespace) -> tuple[Any, Any]:
    """Return the samples and classes that dlbench has prepared."""
    return np.load(options.data / "x.npy", mmap_mode="r"), np.load(options.data / "y.npy").astype(np.int32)


def keras_model(options: argparse.Namespace, x: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    """Return TensorFlow with one thread, the network, its optimizer and its loss."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import tensorflow as tf

    from dlbench import plugins
    from dlbench.trainers import Problem

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(0)
    plugin = plugins.load("models", options.model)
    model = plugin.get("keras")(Problem(x.shape[1:], int(y.max()) + 1), plugin.options())
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)
    return tf, model, optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def batches(x: Any, y: Any, batch_size: int, rank: int, size: int) -> Iterator[tuple[Any, Any]]:
    """Yield this rank's batches, epoch after epoch, each in another order."""
    random, per_step = np.random.default_rng(0), batch_size * size
    while True:
        order = random.permutation(len(x))
        for start in range(0, len(x) - per_step + 1, per_step):
            mine = order[start + rank * batch_size :][:batch_size]
            yield x[mine], y[mine]


def measure(
    options: argparse.Namespace,
    step: Callable[[], object],
    barrier: Callable[[], object],
    of_rank_0: Callable[[float], float],
    rank: int,
    size: int,
) -> None:
    """Time a window between two barriers; print one line of JSON from rank 0: samples of all ranks, seconds, steps.

    Args:
        options: Say how long.
        step: Makes one step and waits for its end.
        barrier: Waits for all ranks.
        of_rank_0: Returns on every rank the number that rank 0 has.
        rank: This rank.
        size: Number of ranks.
    """

    def seconds_of(number: int) -> float:
        barrier()
        started = perf_counter()
        for _ in range(number):
            step()
        barrier()
        return perf_counter() - started

    seconds_of(options.warmup_steps)
    number = max(20, round(options.window_s / of_rank_0(seconds_of(20) / 20)))
    seconds = seconds_of(number)
    if rank == 0:
        print(json.dumps({"samples": number * options.batch_size * size, "seconds": seconds, "steps": number}))
    sys.stdout.flush()
