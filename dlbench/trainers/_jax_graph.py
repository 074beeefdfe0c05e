"""A Keras model on JAX: pure functions of all its variables, compiled by XLA, whose results the variables then hold."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dlbench.records import hardware
from dlbench.trainers import Array, BatchParts, Problem, unflatten
from dlbench.trainers._graph import Graph, InputSpecs, Reduce
from dlbench.trainers._keras_optimizers import all_variables

# Values of trainable variables, of the model's others and of the optimizer's, in the order of Keras.
State = tuple[list[Any], list[Any], list[Any]]


class JaxGraph(Graph):
    """What is compiled of one model; see `dlbench.trainers._graph.Graph`.

    Args:
        jax: The module.
        keras: The module.
        model: A built `keras.Model` that gives logits, or the number that is predicted.
        optimizer: A built optimizer.
        problem: How samples become numbers, and what is predicted of them.
        parts: In how many a batch is differentiated.
        mesh: The devices that share each batch (`jax.sharding.Mesh` of one dimension), or None for one device.
    """

    def __init__(
        self,
        jax: Any,
        keras: Any,
        model: Any,
        optimizer: Any,
        problem: Problem,
        parts: BatchParts,
        mesh: Any = None,
    ) -> None:
        self._jax, self._np, self._keras = jax, jax.numpy, keras
        self._model, self.optimizer, self.problem, self.parts = model, optimizer, problem, parts
        self._variables = (
            list(model.trainable_variables), list(model.non_trainable_variables), all_variables(keras, optimizer),
        )  # fmt: skip
        self.dtype: np.dtype[Any] = np.dtype(self._variables[0][0].dtype)
        self._device = next(iter(self._variables[0][0].value.devices()))
        self.on_accelerator = self.runs_ahead = self._device.platform != "cpu"
        self._added: list[Any] = []
        self._num_devices = 1 if mesh is None else mesh.size
        self._divided, self._everywhere = None, None
        if mesh is not None:
            partition = jax.sharding.PartitionSpec
            self._divided = jax.sharding.NamedSharding(mesh, partition(mesh.axis_names))
            self._everywhere = jax.sharding.NamedSharding(mesh, partition())

    def gradient(self, specs: InputSpecs) -> Callable[[Any, Any], Any]:
        """Return f(x, y) -> one vector: all gradients, then the sums of the scores."""

        def gradient(state: State, added: list[Any], x: Any, y: Any) -> tuple[State, list[Any], Any]:
            gradients, others, sums = self._differentiate(state, added, x, y, specs)
            return (state[0], others, state[2]), [], self._np.concatenate([*(g.ravel() for g in gradients), sums])

        return self._compile(gradient)

    def apply(self) -> Callable[[Any], Any]:
        """Return f(update): one optimizer step with a flat gradient; what follows it, such as sums, is not read."""

        def apply(state: State, added: list[Any], update: Any) -> tuple[State, list[Any], None]:
            return self._updated(state, self._shaped(update)), added, None

        return self._compile(apply)

    def assign(self) -> Callable[[Any], Any]:
        """Return f(parameters): overwrite all trainable weights in one call."""
        shaped = self._jax.jit(self._shaped, out_shardings=self._everywhere)
        return lambda parameters: _hold(self._variables[0], shaped(parameters))

    def set_rows(self, number: int, rows: Array, values: Array) -> None:
        """Overwrite some rows of a trainable variable; JAX copies the others."""
        variable = self._variables[0][number]
        variable.assign(variable.value.at[rows].set(values))

    def step(self, specs: InputSpecs, reduce: Reduce | None) -> Callable[[Any, Any], Any]:
        """Return f(x, y) -> sums [scores]: gradient, `reduce` and update."""

        def step(state: State, added: list[Any], x: Any, y: Any) -> tuple[State, list[Any], Any]:
            after, sums = self._trained(state, added, x, y, specs, reduce)
            return after, [], sums

        return self._compile(step)

    def steps(self, specs: InputSpecs, reduce: Reduce | None, number: int) -> Callable[[Any, Any, Array], Any]:
        """Return f(x, y, learning rates) -> sums [scores] of as many steps, one after the other in one program."""

        def steps(state: State, added: list[Any], x: Any, y: Any, rates: Any) -> tuple[State, list[Any], Any]:
            def train(state: State, of_step: tuple[Any, Any, Any]) -> tuple[State, Any]:
                part_x, part_y, rate = of_step
                return self._trained(state, [], part_x, part_y, specs, reduce, rate)

            parts = [self._np.reshape(batch, (number, -1, *batch.shape[1:])) for batch in (x, y)]
            # On a processor XLA computes a 3 x 3 convolution of 16 channels within a loop 27 times slower.
            after, sums = self._jax.lax.scan(train, state, (*parts, rates), unroll=not self.on_accelerator)
            return after, added, sums.sum(0)

        return self._compile(steps)

    def evaluate(self, specs: InputSpecs) -> Callable[[Any, Any], Any]:
        """Return f(x, y) -> sums [scores] in inference mode."""

        def evaluate(trainable: list[Any], others: list[Any], x: Any, y: Any) -> Any:
            outputs, _ = self._model.stateless_call(trainable, others, self._as_input(x), training=False)
            return self._sums(self._scores(outputs, y))

        compiled = self._jax.jit(evaluate)
        return lambda x, y: compiled(*self._state()[:2], x, y)

    def add(self, specs: InputSpecs) -> Callable[[Any, Any], Any]:
        """Return f(x, y) -> sums [scores], and keep the gradients."""

        def add(state: State, added: list[Any], x: Any, y: Any) -> tuple[State, list[Any], Any]:
            gradients, others, sums = self._differentiate(state, added, x, y, specs)
            return (state[0], others, state[2]), gradients, sums

        return self._compile(add)

    def gather(self, function: Callable[..., Any], arrays: tuple[Array, ...]) -> Callable[[Array], Any]:
        """Keep arrays on the device; return f(places) -> function(*arrays, places), compiled."""
        compiled = self._jax.jit(function)
        # Not `device_put`: what is bound to a device binds the variables, and each step is compiled anew for them.
        with self._jax.default_device(self._device):
            held = [self._np.asarray(array) for array in arrays]
        return lambda places: compiled(*held, places)

    def tensor(self, name: str, array: Array) -> Any:
        """Return the array itself, which a compiled call takes to its device; divided, where devices share a batch.

        What does not divide evenly, each of them computes whole.
        """
        if self._divided is None:
            return array
        is_even = name in ("x", "y") and len(array) % self._num_devices == 0
        return self._jax.device_put(array, self._divided if is_even else self._everywhere)

    def array(self, tensor: Any) -> Array:
        """Return a copy of a tensor's values: JAX's own memory cannot be written to."""
        return np.array(tensor)

    def synchronize(self) -> None:
        """Return once the device has done all it was given."""
        self._jax.block_until_ready(self._state())

    def facts(self) -> dict[str, Any]:
        """Return JAX's version and the device's name; on a processor it has a thread for each core of this process."""
        return {
            "backend": "jax",
            "jax_version": self._jax.__version__,
            "tf32": self.on_accelerator
            and self._jax.config.jax_default_matmul_precision in (None, "default", "tensorfloat32"),
            "device_name": self._device.device_kind if self.on_accelerator else hardware.processor(),
            "intra_op_threads": len(os.sched_getaffinity(0)),
        }

    def _state(self) -> State:
        trainable, others, optimizer = ([each.value for each in variables] for variables in self._variables)
        return trainable, others, optimizer

    def _compile(self, function: Callable[..., tuple[State, list[Any], Any]]) -> Callable[..., Any]:
        """Return function(state, added, *arguments) compiled as f(*arguments): variables hold the state it returns.

        The old state's memory becomes the new one's.
        """
        compiled = self._jax.jit(function, donate_argnums=0, out_shardings=self._everywhere)

        def call(*arguments: Any) -> Any:
            state, self._added, result = compiled(self._state(), self._added, *arguments)
            for variables, values in zip(self._variables, state, strict=True):
                _hold(variables, values)
            return result

        return call

    def _shaped(self, flat: Any) -> list[Any]:
        """Return the parts of a flat vector in the shapes of the trainable variables."""
        return unflatten(flat, [variable.shape for variable in self._variables[0]])

    def _differentiate(
        self, state: State, added: list[Any], x: Any, y: Any, specs: InputSpecs
    ) -> tuple[list[Any], list[Any], Any]:
        """Return (gradients and all that were kept, values of the model's other variables, sums [scores])."""
        trainable, others, _ = state
        if x.shape[0] == 0:  # convolutions fail without a sample, and means would be 0 / 0
            zeros = added or [self._np.zeros_like(value) for value in trainable]
            return zeros, others, self._np.zeros(len(self.problem.scores), self.dtype)

        def objective(trainable: list[Any]) -> tuple[Any, Any]:
            outputs, after, losses = self._model.stateless_call(
                trainable, others, self._as_input(x), training=True, return_losses=True
            )
            scores = self._scores(outputs, y)
            loss = scores[0].sum() + x.shape[0] * sum(loss.astype(self.dtype) for loss in losses)
            return specs.scale * loss, (after, self._sums(scores))

        gradients, (after, sums) = self._jax.grad(objective, has_aux=True)(trainable)
        totals = [kept + gradient for kept, gradient in zip(added, gradients, strict=True)] if added else gradients
        return totals, after, sums

    def _trained(
        self,
        state: State,
        added: list[Any],
        x: Any,
        y: Any,
        specs: InputSpecs,
        reduce: Reduce | None,
        learning_rate: Any = None,
    ) -> tuple[State, Any]:
        """Return (the state after one step, its sums [scores])."""
        gradients, others, sums = self._differentiate(state, added, x, y, specs)
        reduced = gradients if reduce is None else list(reduce(gradients))
        return self._updated((state[0], others, state[2]), reduced, learning_rate), sums

    def _updated(self, state: State, gradients: list[Any], learning_rate: Any = None) -> State:
        """Return the state after one step of the optimizer, at the rate that it holds unless another one is given.

        `stateless_apply` would leave out what Keras does not list of some optimizers (`all_variables`).
        """
        trainable, _, optimizer = self._variables
        pairs = zip([*trainable, *optimizer], [*state[0], *state[2]], strict=True)
        with self._keras.StatelessScope(pairs) as scope:
            if learning_rate is not None:
                self.optimizer.learning_rate = learning_rate
            self.optimizer.apply(gradients, trainable)

        def values(variables: Iterable[Any]) -> list[Any]:
            return [scope.get_current_value(variable) for variable in variables]

        return values(trainable), state[1], values(optimizer)

    def _classified(self, logits: Any, labels: Any) -> tuple[Any, Any]:
        logs = self._jax.nn.log_softmax(logits)
        return -self._np.take_along_axis(logs, labels[..., None], axis=-1)[..., 0], logits.argmax(-1)


def _hold(variables: list[Any], values: list[Any]) -> None:
    """Let Keras's variables hold these values; `assign` would convert and check each: 0.3 ms for ResNet-20's."""
    for variable, value in zip(variables, values, strict=True):
        variable._direct_assign(value)
