"""Every operation of the Horovod communicator, on several types and lengths, and options of the strategy."""

from typing import Any

import numpy as np

from dlbench.communicators.horovod import HorovodCommunicator
from dlbench.strategies import horovod
from tests.functional.collectives import arrays, gathers

TYPES = (np.float64, np.float32, np.int64)


def failures(communicator: HorovodCommunicator) -> list[str]:
    """Return the name of each operation with a wrong result."""
    checks: dict[str, bool] = {}
    for dtype in TYPES:
        for count in (0, 1, 5, 70_000):
            checks |= {
                f"{name} {dtype.__name__} {count}": ok for name, ok in arrays(communicator, dtype, count).items()
            }
    checks["all_gather"] = gathers(communicator)
    checks["in_forward"] = is_differentiable(communicator)
    checks["overlap"] = [waits(communicator, overlap=True), waits(communicator, overlap=False)] == [False, True]
    checks["one group"] = waits(communicator, groups=1)
    checks["compression"] = is_nearly_the_sum(communicator)
    if not communicator.hvd.gloo_enabled() and communicator.size & (communicator.size - 1) == 0:
        checks["adasum"] = is_adasum(communicator)
    communicator.barrier()
    return [name for name, ok in checks.items() if not ok]


def is_differentiable(communicator: HorovodCommunicator) -> bool:
    """Return whether the sum in the forward pass, and its gradient, are those over all workers."""
    strategy = horovod.create(horovod.OPTIONS(), communicator, None)
    tf, mine = communicator.tf, float(communicator.rank + 1)

    @tf.function(autograph=False)
    def forward(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = strategy.in_forward(x)
            own = mine * tf.reduce_sum(total**2)  # each worker's loss weighs differently
        return total, tape.gradient(own, x)

    total, gradient = forward(tf.constant([mine, 2 * mine]))
    whole = sum(range(1, communicator.size + 1))
    expected = [whole * 2 * whole, whole * 2 * 2 * whole]
    return bool(np.allclose(total, [whole, 2 * whole]) and np.allclose(gradient, expected))


def waits(communicator: HorovodCommunicator, **options: Any) -> bool:
    """Return whether, in the graph, the first gradient's reduction depends on the last gradient."""
    strategy, tf = horovod.create(horovod.OPTIONS(**options), communicator, None), communicator.tf
    spec = tf.TensorSpec([2], tf.float32)
    # What is traced has no Python to convert; converting all of Horovod takes seconds.
    graph = tf.function(lambda first, last: strategy.in_graph([first + 1.0, last + 1.0]), autograph=False)
    traced = graph.get_concrete_function(spec, spec)
    first, last = traced.inputs[0].op, traced.inputs[1].op
    reductions = [op for op in traced.graph.get_operations() if op.type.startswith("Horovod")]
    before = [_all_before(op) for op in reductions]
    return all(first not in found or last in found for found in before)


def _all_before(operation: Any) -> list[Any]:
    found, todo = [], [operation]
    while todo:
        one = todo.pop()
        if one not in found:
            found.append(one)
            todo += [*(tensor.op for tensor in one.inputs), *one.control_inputs]
    return found


def gradients(communicator: HorovodCommunicator) -> list[np.ndarray]:
    """Return a made-up gradient of each worker, as small as those of large batches are."""
    return [np.random.default_rng(rank).normal(size=1000) * 1e-7 for rank in range(communicator.size)]


def reduced(communicator: HorovodCommunicator, own: np.ndarray | None = None, **options: Any) -> np.ndarray:
    """Return what the strategy makes of the gradients, or of another one of this worker's."""
    strategy = horovod.create(horovod.OPTIONS(**options), communicator, None)
    graph = communicator.tf.function(lambda gradient: strategy.in_graph([gradient])[0], autograph=False)
    return np.asarray(
        graph(communicator.tf.constant(gradients(communicator)[communicator.rank] if own is None else own))
    )


def is_nearly_the_sum(communicator: HorovodCommunicator) -> bool:
    """Return whether float16 keeps what it can of numbers near its least: half a step of 6e-8 for each worker."""
    sent = reduced(communicator, compression="fp16")
    error = np.max(np.abs(sent - np.sum(gradients(communicator), axis=0)))
    return bool(0 < error < 6e-8 * (1 + 1 / communicator.size))


def is_adasum(communicator: HorovodCommunicator) -> bool:
    """Return whether pairs are combined, and pairs of pairs, by the formula of arXiv 2006.02924 (section 3).

    The gradients stand for the workers' own means; the last worker's is also taken for zero, that of no samples.
    """
    found = []
    for num_empty in (0, 1):
        means = gradients(communicator)
        means[len(means) - num_empty :] = [np.zeros_like(means[0])] * num_empty
        own, joined = means[communicator.rank], means
        while len(joined) > 1:
            pairs = zip(joined[::2], joined[1::2], strict=True)
            joined = [_adasum(first, second) for first, second in pairs]
        result = reduced(communicator, own, adasum=True)
        found.append(np.allclose(result, joined[0], rtol=1e-6, atol=0))
    return all(found)


def _adasum(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    if not first.any() or not second.any():
        return first + second
    product = first @ second
    return (1 - product / (2 * first @ first)) * first + (1 - product / (2 * second @ second)) * second
