"""What the plain scripts have in common: the command line, a core for each rank, the batches, the network, the window.

Written as an engineer would who wants speed and no tool: the samples lie in memory; a batch is gathered into one
aligned buffer that TensorFlow reads in place; each compiled function is traced once for fixed types and called as a
concrete function; loss and correct predictions leave it in one tensor.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

# What TensorFlow needs of memory that it uses as it is.
ALIGNMENT = 64


def arguments() -> argparse.Namespace:
    """Return the command line, after binding this rank to a core of its own; adds `rank` and `size`."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]) % len(cores)]})
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--samples", type=int, required=True, help="train on the first so many")
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch-size", type=int, required=True, help="of one rank")
    parser.add_argument("--scale", type=float, required=True, help="stored number x scale = network input")
    parser.add_argument("--warmup-steps", type=int, default=50)
    parser.add_argument("--steps", type=int, required=True, help="in the timed window")
    parser.add_argument("--groups", type=int, default=0, help="of gradients, for Horovod; 0: each by itself")
    parser.add_argument("--hook", action="store_true", help="report through dlbench.worker")
    parser.add_argument("--output", type=Path, help="rank 0 writes its line there, not to its standard output")
    options = parser.parse_args()
    options.rank, options.size = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in ("RANK", "SIZE"))
    return options


def aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an empty array that TensorFlow can use in place."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    held = np.empty(size + ALIGNMENT, np.uint8)
    start = -held.ctypes.data % ALIGNMENT
    return held[start : start + size].view(dtype).reshape(shape)


class Batches:
    """This rank's batches, epoch after epoch in another order, always in the same two arrays `x` and `y`."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._x = np.load(options.data / "x.npy")[: options.samples]
        self._y = np.load(options.data / "y.npy")[: options.samples].astype(np.int32)
        self.num_classes = int(self._y.max()) + 1
        self.x = aligned((options.batch_size, *self._x.shape[1:]), self._x.dtype)
        self.y = aligned((options.batch_size,), np.int32)
        self._indices = self._endless(options.batch_size, options.rank, options.size)

    def next(self) -> None:
        """Gather the next batch."""
        indices = next(self._indices)
        # With another mode NumPy would fill a buffer of its own first.
        self._x.take(indices, 0, self.x, "clip")
        self._y.take(indices, 0, self.y, "clip")

    def everything(self, scale: float) -> tuple[Any, Any]:
        """Return all samples as they enter the network, and their classes."""
        return self._x.astype(np.float32) * np.float32(scale), self._y

    def _endless(self, batch_size: int, rank: int, size: int) -> Iterator[Any]:
        random, steps = np.random.default_rng(0), len(self._x) // (batch_size * size)
        while True:
            order = random.permutation(len(self._x))[: steps * batch_size * size]
            yield from order.reshape(steps, size, batch_size)[:, rank]


class Network:
    """Keras's model of a name on TensorFlow with one thread, and what one step computes of it."""

    def __init__(self, options: argparse.Namespace, batches: Batches) -> None:
        os.environ["KERAS_BACKEND"] = "tensorflow"
        import keras
        import tensorflow as tf

        from dlbench import plugins
        from dlbench.trainers import Problem

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        keras.utils.set_random_seed(0)
        plugin = plugins.load("models", options.model)
        problem = Problem(batches.x.shape[1:], batches.num_classes)
        self.keras, self.tf, self.model = keras, tf, plugin.get("keras")(problem, plugin.options())
        self.variables = list(self.model.trainable_variables)
        self.optimizer = keras.optimizers.SGD(0.01)
        self.optimizer.build(self.variables)
        self._input_scale, self._global_batch = options.scale, options.batch_size * options.size

    def tensor(self, array: Any) -> Any:
        """Return a tensor that is the array's memory."""
        return self.tf.experimental.dlpack.from_dlpack(array.__dlpack__())

    def compiled(self, function: Callable[..., Any], *arrays: Any) -> Callable[..., Any]:
        """Return the function, traced for arrays of these types and shapes."""
        specs = [self.tf.TensorSpec(array.shape, array.dtype) for array in arrays]
        return self.tf.function(function, specs, autograph=False, jit_compile=False).get_concrete_function()

    def differentiate(self, x: Any, y: Any) -> tuple[list[Any], Any]:
        """Return (gradients of the sum of the losses / global batch, [sum of the losses, correct predictions])."""
        tf = self.tf
        with tf.GradientTape() as tape:
            logits = self.model(tf.cast(x, tf.float32) * self._input_scale, training=True)
            loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
            objective = loss / self._global_batch
        gradients = tape.gradient(objective, [variable.value for variable in self.variables])
        hits = tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), y)
        return gradients, tf.stack([loss, tf.reduce_sum(tf.cast(hits, tf.float32))])


def measure(options: argparse.Namespace, step: Callable[[], float], barrier: Callable[[], object]) -> None:
    """Time the window between two barriers; rank 0 hands in a line of JSON: samples of all ranks, seconds, last loss.

    Args:
        options: Say how many steps, and whether they are reported through dlbench's hook.
        step: Makes one step and returns its mean loss once it has ended.
        barrier: Waits for all ranks.
    """
    if options.hook:
        with hooked(options, step, barrier) as reporting:
            run_window(options, reporting, barrier)
    else:
        run_window(options, step, barrier)


def run_window(options: argparse.Namespace, step: Callable[[], float], barrier: Callable[[], object]) -> None:
    """Warm up, and time the window."""
    for _ in range(options.warmup_steps):
        step()
    barrier()
    started = perf_counter()
    for _ in range(options.steps):
        loss = step()
    barrier()
    hand_in(options, perf_counter() - started, loss)


@contextmanager
def hooked(
    options: argparse.Namespace, step: Callable[[], float], barrier: Callable[[], object]
) -> Iterator[Callable[[], float]]:
    """Yield the step as a script has it that reports each one to dlbench; the run ends with the block."""
    import dlbench.worker as dlbench

    run = dlbench.begin(rank=options.rank, size=options.size, barrier=barrier)

    def reporting() -> float:
        with run.step(num_samples=options.batch_size) as marked:
            marked.loss = loss = step()
        return loss

    yield reporting
    run.epoch()
    run.finish()


def hand_in(options: argparse.Namespace, seconds: float, loss: float) -> None:
    """Write rank 0's line."""
    if options.rank == 0:
        samples = options.steps * options.batch_size * options.size
        line = json.dumps({"samples": samples, "seconds": seconds, "loss": loss})
        if options.output is None:
            print(line, flush=True)
        else:
            options.output.write_text(line)
