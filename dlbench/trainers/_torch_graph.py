"""A Keras model on PyTorch, eager or compiled by `torch.compile`; all gradients are parts of one flat buffer."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from dlbench.records import hardware
from dlbench.trainers import Array, BatchParts, Problem, unflatten
from dlbench.trainers._graph import Graph, InputSpecs, Reduce


class CapturedCall:
    """A function of a batch that a GPU repeats as one CUDA graph: launching its kernels takes longer than they do.

    The first call runs as it is, for what is chosen and allocated once; the second is captured. What
    cannot be captured, such as dropout's random numbers from a seed that the processor reads, runs as it is.

    Args:
        torch: The module.
        function: From x and y to a tensor; what it does besides it does to memory that keeps its place.
        pool: The memory that graphs share.
    """

    def __init__(self, torch: Any, function: Callable[[Any, Any], Any], pool: Any) -> None:
        self._torch, self._function, self._pool = torch, function, pool
        self._is_warm, self._can_capture = False, True
        # The graph, its inputs and its result.
        self._graph: Any = None
        self._x: Any = None
        self._y: Any = None
        self._result: Any = None

    def __call__(self, x: Any, y: Any) -> Any:
        """Return function(x, y)."""
        if self._is_warm and self._can_capture and self._graph is None:
            self._capture(x, y)
        if self._graph is None:
            return self._run_beside(x, y)
        self._x.copy_(x, non_blocking=True)
        self._y.copy_(y, non_blocking=True)
        self._graph.replay()
        return self._result.clone()

    def _run_beside(self, x: Any, y: Any) -> Any:
        """Run on another stream than the default one, which a capture could not follow."""
        cuda = self._torch.cuda
        if quiet := getattr(self._torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch", None):
            quiet(False)  # the gradients are this class's own, and waited for below
        stream = cuda.Stream()
        stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            result = self._function(x, y)
        cuda.current_stream().wait_stream(stream)
        self._is_warm = True
        return result

    def _capture(self, x: Any, y: Any) -> None:
        graph = self._torch.cuda.CUDAGraph()
        self._x, self._y = x.clone(), y.clone()
        try:
            with self._torch.cuda.graph(graph, pool=self._pool):
                self._result = self._function(self._x, self._y)
        except self._torch.OutOfMemoryError:
            raise
        except RuntimeError:
            self._can_capture = False
        else:
            self._graph = graph


class TorchGraph(Graph):
    """What is computed of one model; see `dlbench.trainers._graph.Graph`.

    Every parameter's `grad` is a view of one flat buffer, in which autograd adds up: a strategy gets all gradients
    without a copy, and gives them back in the same place.

    Args:
        torch: The module.
        model: A built `keras.Model` that gives logits, or the number that is predicted.
        optimizer: A built optimizer.
        problem: How samples become numbers, and what is predicted of them.
        jit_compile: Compile forward and backward pass with `torch.compile`.
        parts: In how many a batch is differentiated.
        wrapped: The same model within a module that reduces gradients while they are computed, such as
            `DistributedDataParallel`.
    """

    def __init__(
        self,
        torch: Any,
        model: Any,
        optimizer: Any,
        problem: Problem,
        jit_compile: bool,
        parts: BatchParts,
        wrapped: Any = None,
    ) -> None:
        self._torch, self._model, self.optimizer, self.problem = torch, model, optimizer, problem
        self.parts = parts
        self._loss_scale = getattr(optimizer, "dynamic_scale", None)
        self._variables = list(model.trainable_variables)
        self._parameters = [variable.value for variable in self._variables]
        first = self._parameters[0]
        self._dtype, self._device = first.dtype, first.device
        self.dtype: np.dtype[Any] = np.dtype(str(first.dtype).removeprefix("torch."))
        self.on_accelerator = self.runs_ahead = first.device.type != "cpu"
        # All gradients, then the sums of the scores.
        size = sum(parameter.numel() for parameter in self._parameters) + len(problem.scores)
        self._packed = torch.zeros(size, dtype=self._dtype, device=self._device)
        self._gradients = self._shaped(self._packed)
        self._holds_parts, self._has_samples = False, True
        self._wrapped = wrapped
        self._forward: Callable[..., Any] = torch.compile(self._call, dynamic=False) if jit_compile else self._call
        self._learning_rate = float("nan")
        # A rate that is a tensor is fetched from its device in each step, where steps would wait for it.
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        inner._get_current_learning_rate = lambda: self._learning_rate
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        can_capture = first.device.type == "cuda" and wrapped is None and not jit_compile
        self._captured: dict[InputSpecs, CapturedCall] | None = {} if can_capture else None
        # One call runs at a time, and nothing of it is read after the next one: all share their memory.
        self._pool = torch.cuda.graph_pool_handle() if can_capture else None
        self.num_rehearsals = 2 if can_capture else 1

    def summing(self, in_forward: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a sum over workers for the forward pass to which one without samples contributes zeros."""
        return lambda tensor: in_forward(tensor if self._has_samples else tensor * 0)

    def set_learning_rate(self, value: float) -> None:
        """Set the rate of the next updates."""
        self._learning_rate = value

    def gradient(self, specs: InputSpecs) -> Callable[[Any, Any], Any]:
        """Return f(x, y) -> one vector: all gradients, then the sums of the scores."""

        def gradient(x: Any, y: Any) -> Any:
            self._packed[-len(self.problem.scores) :] = self._differentiate(x, y, specs, is_last=True)
            return self._packed

        return gradient

    def apply(self) -> Callable[[Any], Any]:
        """Return f(update): one optimizer step with a flat gradient; what follows it, such as sums, is not read."""
        return lambda update: self._update(self._gradients if update is self._packed else self._shaped(update))

    def assign(self) -> Callable[[Any], Any]:
        """Return f(parameters): overwrite all trainable weights."""

        def assign(parameters: Any) -> None:
            with self._torch.no_grad():
                for parameter, part in zip(self._parameters, self._shaped(parameters), strict=True):
                    parameter.copy_(part)

        return assign

    def set_rows(self, number: int, rows: Array, values: Array) -> None:
        """Overwrite some rows of a trainable variable."""
        places, new = (self._torch.from_numpy(array).to(self._device) for array in (rows.astype(np.int64), values))
        with self._torch.no_grad():
            self._parameters[number][places] = new

    def step(self, specs: InputSpecs, reduce: Reduce | None) -> Callable[[Any, Any], Any]:
        """Return f(x, y) -> sums [scores]: gradient, `reduce` and update."""

        def step(x: Any, y: Any) -> Any:
            sums = self._differentiate(x, y, specs, is_last=True)
            gradients = [parameter.grad for parameter in self._parameters]
            self._update(gradients if reduce is None else list(reduce(gradients)))
            return sums

        return step

    def steps(self, specs: InputSpecs, reduce: Reduce | None, number: int) -> Callable[[Any, Any, Array], Any]:
        """Return f(x, y, learning rates) -> sums [scores] of as many steps: started one by one, read together."""
        assert specs.num_samples is not None
        step = self.step(specs._replace(num_samples=specs.num_samples // number), reduce)

        def steps(x: Any, y: Any, rates: Array) -> Any:
            of_steps = []
            for part_x, part_y, rate in zip(x.chunk(number), y.chunk(number), rates.tolist(), strict=True):
                self.set_learning_rate(rate)
                of_steps.append(step(part_x, part_y))
            return sum(of_steps)

        return steps

    def evaluate(self, specs: InputSpecs) -> Callable[[Any, Any], Any]:
        """Return f(x, y) -> sums [scores] in inference mode."""

        def evaluate(x: Any, y: Any) -> Any:
            with self._torch.no_grad():
                return self._sums(self._scores(self._model(self._as_input(x), training=False), y))

        return evaluate

    def add(self, specs: InputSpecs) -> Callable[[Any, Any], Any]:
        """Return f(x, y) -> sums [scores], and keep the gradients."""
        return lambda x, y: self._differentiate(x, y, specs, is_last=False)

    def gather(self, function: Callable[..., Any], arrays: tuple[Array, ...]) -> Callable[[Array], Any]:
        """Keep arrays on the device; return f(places) -> function(*arrays, places)."""
        held = [self.tensor("held", array) for array in arrays]
        return lambda places: function(*held, self.tensor("places", places))

    def tensor(self, name: str, array: Array) -> Any:
        """Return a tensor of an array's values: on a processor the array's own memory."""
        tensor = self._torch.from_numpy(array if array.flags.writeable else array.copy())
        return tensor.to(self._device, non_blocking=True)

    def array(self, tensor: Any) -> Array:
        """Return a tensor's values as a writable array: its own memory on a processor, else a copy."""
        array: Array = tensor.detach().cpu().numpy()
        return array

    def fetch(self, tensor: Any) -> Callable[[], Array]:
        """Return what waits for a tensor, and for nothing that the device was given after it."""
        if not self.on_accelerator:
            return super().fetch(tensor)
        host = self._torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        host.copy_(tensor.detach(), non_blocking=True)
        copied = self._torch.cuda.Event()
        copied.record()

        def wait() -> Array:
            copied.synchronize()
            array: Array = host.numpy()
            return array

        return wait

    def synchronize(self) -> None:
        """Return once the device has done all it was given; on a processor it has when a call returns."""
        if self.on_accelerator:
            self._torch.cuda.synchronize()

    def facts(self) -> dict[str, Any]:
        """Return PyTorch's version, the device's name, and its threads."""
        torch = self._torch
        is_cuda = self._device.type == "cuda"
        return {
            "backend": "torch",
            "torch_version": torch.__version__,
            "tf32": is_cuda and (torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32),
            "device_name": torch.cuda.get_device_name(self._device) if is_cuda else hardware.processor(),
            "intra_op_threads": torch.get_num_threads(),
            "inter_op_threads": torch.get_num_interop_threads(),
        }

    def _shaped(self, flat: Any) -> list[Any]:
        """Return the parts of a flat vector in the shapes of the parameters; they share its memory."""
        return unflatten(flat, [parameter.shape for parameter in self._parameters])

    def _differentiate(self, x: Any, y: Any, specs: InputSpecs, *, is_last: bool) -> Any:
        """Add a part's gradients to those that are kept; return its sums [scores]."""
        torch = self._torch
        assert specs.scale is not None
        if not self._holds_parts:
            torch._foreach_zero_([parameter.grad for parameter in self._parameters])
        self._holds_parts = not is_last
        if len(y):
            sums = self._backward_of(specs, is_last)(x, y)
        else:
            sums = torch.zeros(len(self.problem.scores), dtype=self._dtype, device=self._device)
            if self._wrapped is not None:
                self._backward_of_nothing(x, y, is_last=is_last)
        if self._loss_scale is not None and is_last:
            torch._foreach_div_([parameter.grad for parameter in self._parameters], self._loss_scale.value)
        return sums

    def _backward_of(self, specs: InputSpecs, is_last: bool) -> Callable[[Any, Any], Any]:
        """Return f(x, y) that adds the gradients of a batch of this kind and returns its sums."""
        assert specs.scale is not None
        if self._captured is not None and specs in self._captured:
            return self._captured[specs]
        call = functools.partial(self._backward, scale=specs.scale, is_last=is_last)
        if self._captured is None:
            return call
        return self._captured.setdefault(specs, CapturedCall(self._torch, call, self._pool))

    def _backward(self, x: Any, y: Any, scale: float, *, is_last: bool) -> Any:
        """Add the gradients of a batch; return its sums [scores]."""
        # The forward pass, too, must know that nothing is reduced yet.
        with contextlib.nullcontext() if is_last or self._wrapped is None else self._wrapped.no_sync():
            objective, sums = self._forward(x, y, scale)
            if self._loss_scale is not None:
                objective = objective * self._loss_scale.value
            objective.backward()
        return sums

    def _backward_of_nothing(self, x: Any, y: Any, *, is_last: bool) -> None:
        """Enter the sums that other workers wait in, by a sample of zeros that weighs nothing and changes nothing.

        But where layers sum over workers in the forward pass, which change here as everywhere.
        """
        summing = [layer for layer in self._model._flatten_layers() if getattr(layer, "reduce", None) is not None]
        shared = {id(variable) for layer in summing for variable in layer.non_trainable_variables}
        variables = [variable for variable in self._model.non_trainable_variables if id(variable) not in shared]
        values = [variable.value for variable in variables]
        before = [value.clone() for value in values]
        x, y = (batch.new_zeros((1, *batch.shape[1:])) for batch in (x, y))
        self._has_samples = False
        try:
            self._backward(x, y, 0.0, is_last=is_last)
        finally:
            self._has_samples = True
        with self._torch.no_grad():
            for value, kept in zip(values, before, strict=True):
                value.copy_(kept)

    def _call(self, x: Any, y: Any, scale: float) -> tuple[Any, Any]:
        """Return (the objective, sums [scores]) of a batch."""
        model = self._model if self._wrapped is None else self._wrapped
        scores = self._scores(model(self._as_input(x), training=True), y)
        objective = scale * scores[0].sum()
        if self._model.losses:
            objective = objective + scale * len(x) * sum(loss.to(self._dtype) for loss in self._model.losses)
        return objective, self._sums(scores).detach()

    def _classified(self, logits: Any, labels: Any) -> tuple[Any, Any]:
        cross_entropy = self._torch.nn.functional.cross_entropy
        losses = cross_entropy(logits.flatten(0, -2), labels.flatten().long(), reduction="none")
        return losses.view(labels.shape), logits.detach().argmax(-1)

    def _update(self, gradients: list[Any]) -> None:
        """Run the optimizer; one that scales losses divides by its scale again and skips what is not finite."""
        if self._loss_scale is not None:
            gradients = [gradient * self._loss_scale.value for gradient in gradients]
        with self._torch.no_grad():
            self.optimizer.apply(gradients, self._variables)
