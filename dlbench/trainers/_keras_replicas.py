"""A Keras model whose variables are mirrored over several devices: each compiled function runs on every replica.

The step is dlbench's own, not Keras's `fit`, which goes wrong where a batch does not divide: every replica takes the
slice of the batch that the run gives its worker, gradients arrive scaled by 1 / global batch size, and their sum over
replicas is right for slices of any sizes. The optimizer is kept from reducing a second time, as it does in `fit`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlbench.trainers import Array, BatchParts, Sums
from dlbench.trainers._graph import InputSpecs
from dlbench.trainers._keras_trainer import KerasTrainer, assign, read
from dlbench.trainers._tensorflow_graph import TensorFlowGraph

Function = Callable[..., Any]


class Devices:
    """The replicas of one process under a `tf.distribute.Strategy`.

    Args:
        tf: The module.
        distribution: The strategy; processes that share one hold the same number of replicas each.
        num_replicas: Replicas of this process.
    """

    def __init__(self, tf: Any, distribution: Any, num_replicas: int) -> None:
        self._tf, self.distribution, self.num_replicas = tf, distribution, num_replicas

    def everywhere(self, function: Function, num_batched: int) -> Function:
        """Return a function that runs on every replica, for use in a graph; its result is the sum over own replicas.

        Args:
            function: Runs on one replica; returns one tensor or None.
            num_batched: How many of its first arguments are batches, of which each replica takes its slice.
        """

        def spread(*arguments: Any) -> Any:
            batched, others = arguments[:num_batched], arguments[num_batched:]

            def on_one() -> Any:
                index = self._own_index()
                return function(*(self._slice(tensor, index) for tensor in batched), *others)

            results = self.distribution.experimental_local_results(self.distribution.run(on_one))
            return None if results[0] is None else self._tf.add_n(list(results))

        return spread

    def own(self, variables: list[Any]) -> list[list[Any]]:
        """Return the plain variables of each replica of this process."""
        by_variable = [self.distribution.experimental_local_results(variable.value) for variable in variables]
        return [[parts[index] for parts in by_variable] for index in range(self.num_replicas)]

    def _own_index(self) -> int:
        """Return the number of the replica that is being traced among those of this process."""
        number = self._tf.distribute.get_replica_context().replica_id_in_sync_group
        index = number if isinstance(number, int) else int(self._tf.get_static_value(number))
        return index % self.num_replicas

    def _slice(self, batch: Any, index: int) -> Any:
        """Return one replica's part of a batch; the first take one more, as `RunSpec.local_batch_size` has it."""
        size = batch.shape[0]
        if size is None:
            size = self._tf.shape(batch)[0]
        start, stop = (self._edge(size, number) for number in (index, index + 1))
        return batch[start:stop]

    def _edge(self, size: Any, number: int) -> Any:
        whole, remainder = size // self.num_replicas, size % self.num_replicas
        longer = min(number, remainder) if isinstance(size, int) else self._tf.minimum(number, remainder)
        return number * whole + longer


class ReplicatedTrainer(KerasTrainer):
    """All replicas of one process, fed with the joined batch of their workers."""

    def __init__(
        self,
        keras: Any,
        model: Any,
        graph: TensorFlowGraph,
        num_workers: int,
        workers: tuple[int, ...],
        devices: Devices,
    ) -> None:
        self._devices, self._first = devices, graph.of_first_replica()
        super().__init__(keras, model, graph, num_workers, workers)
        take_gradients_as_they_are(graph.optimizer)

    def replicas(self) -> list[Array]:
        """Return a copy of the trainable weights of each replica, flat."""
        return [read(variables, self._dtype) for variables in self._own(self._weights)]

    def set_parameters(self, flat: Array) -> None:
        """Overwrite all trainable weights of all replicas; a mirrored variable cannot be set on one of them."""
        assign(self._weights, flat)

    def _read_statistics(self) -> Array:
        return np.concatenate([read(variables, self._dtype) for variables in self._own(self._statistics)])

    def _set_statistics(self, flat: Array) -> None:
        replicas = self._own(self._statistics)
        for variables, part in zip(replicas, np.split(flat, len(replicas)), strict=True):
            assign(variables, part)

    def evaluate(self, x: Array, y: Array) -> Sums:
        """Return the sums over one batch of any size, in inference mode.

        The first replica alone takes what is too little for all: oneDNN's convolutions fail without a sample.
        """
        if len(y) >= self._devices.num_replicas:
            return super().evaluate(x, y)
        call = self._call(self._first.evaluate, InputSpecs(x.dtype, y.dtype))
        return self._as_sums(self._graph.array(call(*self._tensors(x, y))))

    def _own(self, variables: list[Any]) -> list[list[Any]]:
        return self._devices.own(variables)

    def _parts(self, num_samples: int) -> Sequence[slice | Array]:
        if self._devices.num_replicas == 1:  # a batch on the device is cut by slices alone
            return super()._parts(num_samples)
        return joined_parts(self._graph.parts, num_samples, self._devices.num_replicas)


def joined_parts(parts: BatchParts, num_samples: int, num_replicas: int) -> list[Array]:
    """Return the places of the samples of each part of a joined batch: that part of each replica's slice, in order.

    Replicas that have a sample more are the first, in each part as in the batch: a part is sliced as a batch is.
    """
    slices = np.array_split(np.arange(num_samples), num_replicas)
    by_replica = [[places[part] for part in parts.cut(len(places))] for places in slices]
    return [np.concatenate(of_all) for of_all in zip(*by_replica, strict=True)]


def take_gradients_as_they_are(optimizer: Any) -> None:
    """Keep a Keras optimizer from summing gradients over replicas: the step has done so.

    Keras 3 sums them in `TFOptimizer._all_reduce_sum_gradients` (keras/src/backend/tensorflow/optimizer.py), whatever
    it is given, and has no switch for it.

    Raises:
        RuntimeError: This version of Keras does it elsewhere, and updates would be too long by the number of replicas.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if not hasattr(inner, "_all_reduce_sum_gradients"):
        raise RuntimeError("this version of Keras sums gradients over replicas where dlbench cannot keep it from that")
    inner._all_reduce_sum_gradients = list
