"""One line makes a PyTorch loop a run: `hook = dlbench.torch.Hook(model, optimizer)`, alone or under DDP.

It reports every step of the optimizer with its samples, and the weights at the end. Outside dlbench it does nothing.

A device works behind the loop, which only queues what is to be computed. A hook that waited for it after each step
would slow the script down, and the loop's own clock would say how fast it queues. So the device itself says when a step
has ended, by an event in its queue, which is read once it has passed. It is waited for only where all processes meet
anyway, between the pieces of the timed window, and at the end of an epoch.
"""

import atexit
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import torch  # noqa: TID253 - only a script that uses PyTorch imports this file
from torch import distributed  # noqa: TID253
from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: TID253
from torch.utils.hooks import RemovableHandle  # noqa: TID253

from dlbench.errors import UserError
from dlbench.scenario.metrics import SCORE_COLUMNS
from dlbench.strategies._step import NAN, StepTimestamps
from dlbench.worker.script.hook import Run, begin

_SAMPLES = {"train": "train", **dict.fromkeys(("eval", "val", "valid", "validation"), "validation")}
# As many steps of an optimizer without a forward pass before are no preparation.
MOST_UNSEEN = 3
# Where more steps in a row begin after passes without gradients, these belong to training: they make labels, say.
MOST_EVALUATED = 3
# Of pictures in a list, whose sizes differ.
_CHANNELS = (1, 3, 4)
_KINDS = {"acc": "accuracy", "mse": "mean_squared_error"}


class _Ended(NamedTuple):
    """A step that has been queued; moments are a device's events, on a CPU seconds on `perf_counter`."""

    begun: float
    gradient_ready: Any
    reduced: Any
    ended: Any
    samples: int
    loss: Any
    loss_samples: int


def _untraced(function: Callable[..., None]) -> Callable[..., None]:
    """Return a hook that is left out of what is compiled; without the compiler there, that would import it."""
    return torch.compiler.disable(function) if "torch._dynamo" in sys.modules else function


class _PassHook(partial[None]):
    """Notes the passes of a model; a deep copy notes evaluation alone, a pickled copy nothing.

    A function of Python here, such as `__call__`, would be compiled with the model.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> "_PassHook":
        return _PassHook(self.func, False)

    def __reduce__(self) -> tuple[Any, ...]:
        return _PassHook, (_note_nothing,)


def _note_nothing(*_: object) -> None:
    """Stand in for the hook in a saved model."""


class Steps:
    """The steps of one process, timed by the device of its model.

    Args:
        defaults: Settings outside dlbench, such as `{"epochs": 3}`.
        batch_dimension: That of a pass's first tensor which counts samples; None: the first, once a step agrees.

    Attributes:
        run: The run: its settings, `batch_size`, `learning_rate`, `epochs` and `seed` (`dlbench.worker.Run`).
        weights: Returns the weights to hand in at the interpreter's end; None before anything was trained.
        samples: Samples of the open step so far.
        last_samples: Those of its last forward pass.
        gradient_ready: Moment of the open step's last local gradient, where it is seen.
        reduced: Moment at which the update of the open step begins, where it is seen.
        has_evaluated: Whether the script has evaluated since the last step.
        num_pauses: Pauses that are open, in which passes and steps are none of training.
    """

    def __init__(self, defaults: Mapping[str, Any] | None, batch_dimension: int | None = 0) -> None:
        self.run: Run = begin(barrier=self._meet, defaults=defaults)
        self.weights: Callable[[], list[Any] | None] | None = None
        if self.run.recorder is not None:
            atexit.register(self._finish)  # before the run's own end
        self.samples = self.last_samples = self._second_dimension = 0
        self._batch_dimension = batch_dimension
        self.has_evaluated, self.num_pauses = False, 0
        self.gradient_ready: Any = NAN
        self.reduced: Any = NAN
        self._device = torch.device("cpu")
        self._begun: float | None = None
        self._loss: Any = None
        self._loss_of_samples = self._unseen = 0
        # Steps of other optimizers since the last step, and the most of them between two steps; see `count_other`.
        self._others = self._most_others = 0
        self._has_passed = False
        # Moment at which evaluation has begun within the open step, and how many passes in a row have come after one.
        self._aside: Any = None
        self._labelled_passes = 0
        self._has_begun = self._has_stepped = False
        # Whether the model has made a pass in evaluation mode, but with gradients, since the last step.
        self._is_evaluation_trained = False
        # Whether a pass was no training since the last step, and how many steps in a row have begun after one.
        self._has_other_pass, self._labelled_steps = False, 0
        # Whether gradients have been seen since the last step, and ever: not all kinds of parameters show them.
        self._has_gradients = self._shows_gradients = False
        self._queue: deque[_Ended] = deque()
        # A moment that the device and the clock share.
        self._zero: tuple[Any, float] = (None, 0.0)
        self._loss_sum = self._loss_samples = 0.0

    def attach(self, model: torch.nn.Module, steps_before: int = 0) -> None:
        """Begin with a model that is where it is trained, after the steps that another process has made with it.

        Raises:
            UserError: PyTorch has connected other processes than dlbench has started.
        """
        if self.run.recorder is not None and steps_before:
            self.run.recorder.goes_on(f"training began with step {steps_before + 1}")
        connected = distributed.is_available() and distributed.is_initialized()
        rank, size = (distributed.get_rank(), distributed.get_world_size()) if connected else (0, 1)
        if self.run.recorder is not None and self.run.settings.workers_inside and size > 1:
            raise UserError(
                "workers that the command starts itself (`workers_inside: true`) have no hook of PyTorch",
                hint="leave it out, and torchrun in the command: `launcher: torchrun` starts the workers",
            )
        if self.run.recorder is not None and not connected and self.run.size > 1:
            raise UserError(
                f"PyTorch has connected no processes, this run has {self.run.size}",
                hint="make the hook after `torch.distributed.init_process_group()`; where mpi4py or Horovod connects "
                "them, report by dlbench.worker instead (docs/own-code.md)",
            )
        self.run.check(rank, size)
        self._device = next(model.parameters()).device

    def count_passes(self, model: torch.nn.Module) -> list[RemovableHandle]:
        """Count the samples of each forward pass of a model; the first of a step begins it."""
        note = _untraced(self.note_pass)
        handles = [model.register_forward_pre_hook(_PassHook(note, True), with_kwargs=True)]
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):  # a loop may evaluate what it wraps
            handles.append(model.module.register_forward_pre_hook(_PassHook(note, False), with_kwargs=True))
        if (watched := next((it for it in model.parameters() if it.requires_grad and it.is_leaf), None)) is not None:
            handles.append(watched.register_post_accumulate_grad_hook(self._note_gradient))
        return handles

    def _note_gradient(self, _: torch.Tensor) -> None:
        self._has_gradients = self._shows_gradients = True

    def note_pass(self, is_trained: bool, model: torch.nn.Module, args: Any, kwargs: Any) -> None:
        """Note a forward pass: of training where the model is the one that is trained, or of evaluation."""
        if self.num_pauses:
            return
        self._has_passed |= is_trained
        if not (model.training and torch.is_grad_enabled()):
            if self._begun is None:
                self._has_other_pass = True
            elif self._aside is None:
                self._aside = self.now()
            self._is_evaluation_trained |= is_trained and torch.is_grad_enabled()
        elif is_trained:
            if self._begun is None:
                self._labelled_steps = self._labelled_steps + 1 if self._has_other_pass else 0
                self.has_evaluated |= self._has_other_pass and self._labelled_steps <= MOST_EVALUATED
                self._has_other_pass = False
            else:
                self._labelled_passes = self._labelled_passes + 1 if self._aside is not None else 0
                if self._labelled_passes <= MOST_EVALUATED:
                    self.leave_aside()
            self._aside = None
            self.begin()
            self.last_samples = num_images(args) or num_samples((args, kwargs), self._batch_dimension or 0)
            if self._batch_dimension is None:
                # The second dimension of numbers alone is that of features.
                sequences = [it for it in tensors_in((args, kwargs)) if it.dim() > 2 or not it.is_floating_point()]
                self._second_dimension = num_samples(sequences[:1], 1)
            self.samples += self.last_samples

    def begin(self) -> None:
        """Begin a step, unless one has begun."""
        if self._begun is not None or self.run.recorder is None:
            return
        if self.has_evaluated:
            self.drain()
            self.run.recorder.pause()
            self.has_evaluated = False
        if self._zero[1] == 0.0:
            self._synchronize()
        self.samples, self._loss, self.gradient_ready, self.reduced = 0, None, NAN, NAN
        self._loss_of_samples = 0
        self._has_begun, self._is_evaluation_trained = True, False
        self._begun = self.run.recorder.enter()

    def leave_aside(self) -> None:
        """Leave out what has been evaluated within the open step since `_aside`."""
        if self._aside is None or self._begun is None or self.run.recorder is None:
            return
        ended = self.now()
        if self._device.type == "cpu":
            seconds = ended - self._aside
        else:
            ended.synchronize()
            seconds = self._aside.elapsed_time(ended) / 1000
        self.drain()
        self._begun += seconds
        self.run.recorder.leave_out_of_step(seconds)
        self._aside = None

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave out what happens, perhaps within another pause or within a step."""
        self.num_pauses += 1
        if self.num_pauses == 1 and self._begun is not None:
            self._aside = self.now()
        try:
            yield
        finally:
            self.num_pauses -= 1
            if self.num_pauses == 0 and self._begun is not None:
                self.leave_aside()
            elif self.num_pauses == 0:
                self.has_evaluated = True

    def add_loss(self, loss: Any, samples: int) -> None:
        """Add the mean loss of samples of the open step: a number, or a tensor that is not waited for.

        Raises:
            UserError: No step is open, or it is more than one number.
        """
        if self.run.recorder is None or self.num_pauses:
            return
        if isinstance(loss, torch.Tensor) and loss.numel() != 1:
            raise UserError(
                f"a loss is one number, not a tensor of the shape {list(loss.shape)}", hint="report `loss.mean()`"
            )
        if self._begun is None:
            if self._is_evaluation_trained:
                raise _in_evaluation_mode()
            raise UserError(
                "a loss belongs to no step",
                hint="report it between the model's pass and `optimizer.step()`; `hook.follow` takes a model made anew",
            )
        samples = max(1, samples)  # unknown where a batch is an object of the script's own class
        self._loss_of_samples += samples
        loss = loss.detach() if isinstance(loss, torch.Tensor) else loss
        loss = (float(loss) if self._device.type == "cpu" else loss) * samples
        self._loss = loss if self._loss is None else self._loss + loss

    def now(self) -> Any:
        """Return this moment of the device's queue."""
        if self._device.type == "cpu":
            return perf_counter()
        event = torch.get_device_module(self._device).Event(enable_timing=True)
        event.record()
        return event

    def end(self) -> None:
        """End the open step, if there is one.

        Raises:
            UserError: The optimizer makes steps, and the model no passes in training mode; or the samples of the first
                step may be another dimension.
        """
        recorder, loss = self.run.recorder, self._loss
        if recorder is None or self.num_pauses:
            return
        if self._begun is None:
            self._refuse_unseen()
            return
        if self._batch_dimension is None:
            self._settle_batch_dimension(recorder.record.run.unknown)
        self._unseen, self._aside, self._has_passed, self._has_gradients = 0, None, False, False
        self._most_others, self._others = max(self._most_others, self._others), 0
        self._has_stepped = True
        if isinstance(loss, torch.Tensor):
            loss = loss.to("cpu", non_blocking=True)  # before the moment at which it is read
        marks = self.gradient_ready, self.reduced, self.now()
        self._queue.append(_Ended(self._begun, *marks, self.samples, loss, self._loss_of_samples))
        self._begun = None
        if self._device.type == "cpu" or recorder.meets(len(self._queue)):
            self.drain()
        while self._queue and self._queue[0].ended.query():
            self._add(self._queue.popleft())

    def count_other(self, *, is_of_model: bool) -> None:
        """Count a step of another optimizer since the last step, which has the model's parameters or no pass of it."""
        self._others += not self.num_pauses and (is_of_model or not self._has_passed)

    def drain(self) -> None:
        """Report all steps, once the device has done them."""
        if self._queue and self._device.type != "cpu":
            self._queue[-1].ended.synchronize()
        while self._queue:
            self._add(self._queue.popleft())
        self._synchronize()

    def epoch(self, learning_rate: float | None, scores: Mapping[str, float | None]) -> bool:
        """End an epoch; a collective. Returns whether the run's target ends the run; see `dlbench.worker.Run.epoch`.

        Raises:
            UserError: Another optimizer has made its steps.
        """
        if self.run.recorder is None:
            return False
        self._refuse_others(has_stepped=self._has_stepped)
        self._has_stepped, self._has_passed, self._others = False, False, 0
        if self._shows_gradients and not self._has_gradients:
            self._begun = None  # passes that nothing was learned from: the script evaluates in training mode
        ended, self._aside = self.now() if self._aside is None else self._aside, None
        self.drain()
        if self._begun is not None:  # passes whose update is to come are training up to what was evaluated
            self.run.recorder.count_to(self._moment(ended))
        self._meet()
        total, samples = self._sums(self._loss_sum, self._loss_samples)
        self._loss_sum = self._loss_samples = 0.0
        self.has_evaluated = self._has_other_pass = False
        trained = {"train_loss": total / samples} if samples else {}
        return self.run.epoch(learning_rate=learning_rate, **(dict(scores) | trained))

    def mean(self, value: float) -> float:
        """Return the mean of a number over all processes; a collective."""
        total, size = self._sums(float(value), 1.0)
        return total / size

    def means(self, scores: Mapping[str, float]) -> dict[str, float]:
        """Return the mean of each score over the processes that have it; a collective, whoever has which."""
        names = (*SCORE_COLUMNS, *self.run.metrics)
        values, counts = [scores.get(name, 0.0) for name in names], [float(name in scores) for name in names]
        sums = self._sums(*values, *counts)
        pairs = zip(names, sums[: len(names)], sums[len(names) :], strict=True)
        return {name: total / count for name, total, count in pairs if count}

    def _finish(self) -> None:
        """Hand in the account of this process, unless nothing was trained, which is no result."""
        if self.weights is None:
            return
        try:
            self._refuse_others(has_stepped=True)
            self.drain()
            self.run.finish(weights=self.weights())
        except UserError as error:  # which the interpreter's end would only print
            sys.excepthook(type(error), error, error.__traceback__)

    def _refuse_unseen(self) -> None:
        """Refuse steps of the optimizer without passes in training mode, unless they are a few at the beginning."""
        is_evaluation, self._is_evaluation_trained = self._is_evaluation_trained, False
        self._unseen += is_evaluation or not self._has_begun
        if self._unseen < MOST_UNSEEN:
            return
        if is_evaluation:
            raise _in_evaluation_mode()
        raise UserError(
            f"the optimizer has made {MOST_UNSEEN} steps, and the model no forward pass in training mode",
            hint="give the hook the module that the loop calls, as `model(x)`; a loop that calls other methods reports "
            "its steps by dlbench.worker (docs/own-code.md)",
        )

    def _settle_batch_dimension(self, unknown: Collection[str]) -> None:
        """Count samples by the first dimension, unless the second alone has the batch size in a step of one pass."""
        size, is_single = self.run.batch_size, self.samples == self.last_samples
        if "batch_size" not in unknown and is_single and self._second_dimension == size != self.samples:
            raise UserError(
                f"the first dimension of what the model gets is {self.samples}, the second is `batch_size`, {size}",
                hint="name the one that counts samples: `Hook(model, optimizer, batch_dimension=1)`, or 0",
            )
        self._batch_dimension = 0

    def _refuse_others(self, *, has_stepped: bool) -> None:
        """Refuse that another optimizer trains: its steps are those of an epoch, or have the passes of the model."""
        is_trained = self._begun is not None and self._others > self._most_others
        if self._others >= MOST_UNSEEN and (is_trained or not has_stepped):
            raise UserError(
                f"another optimizer has made the last {self._others} steps, the one given to the hook none of them",
                hint="call `hook.follow(model, optimizer)` after one of them is made anew; of several networks give it "
                "one that makes a step each time",
            )

    def _synchronize(self) -> None:
        """Note a moment that the device and the clock share."""
        if self._device.type != "cpu":
            event = self.now()
            event.synchronize()
            self._zero = event, perf_counter()

    def _add(self, step: _Ended) -> None:
        moments = self._moment(step.gradient_ready), NAN, self._moment(step.reduced), self._moment(step.ended)
        recorder = self.run.recorder
        assert recorder is not None
        loss = None if step.loss is None else float(step.loss) / step.loss_samples
        if loss is not None:
            self._loss_sum += float(step.loss)
            self._loss_samples += step.loss_samples
        # A device that still works on the last step does not wait for what the loop prepares.
        started = recorder.counted_to
        timestamps = StepTimestamps(started, max(started, step.begun), *moments)
        recorder.add(step.samples, timestamps, loss, is_past=self._device.type != "cpu")

    def _moment(self, moment: Any) -> float:
        event, clock = self._zero
        return moment if isinstance(moment, float) else clock + event.elapsed_time(moment) / 1000

    def _meet(self) -> None:
        """Wait for all processes. What some have evaluated the others have waited for: it is no training of theirs."""
        if self.run.recorder is not None:
            self.run.recorder.share_pauses(lambda pauses: self._sums(*pauses, longest=True))

    def _sums(self, *values: float, longest: bool = False) -> list[float]:
        """Return the sum of each number over all processes, or the largest, once all have given theirs."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=self._device)
        distributed.all_reduce(tensor, distributed.ReduceOp.MAX if longest else distributed.ReduceOp.SUM)
        return [float(value) for value in tensor.tolist()]


class Hook:
    """Reports what a loop does with a model and its optimizer.

    A step begins with the first forward pass of the model in training mode after the last step, and ends with
    `optimizer.step()`: several passes accumulate gradients. Its samples are the first dimension of the first tensor
    that each pass gets. Passes in evaluation mode or without gradients are evaluation.

    Args:
        model: As the loop calls it: wrapped in DistributedDataParallel, compiled, on its device.
        optimizer: Its step ends a step.
        defaults: Settings outside dlbench, such as `{"epochs": 3}`.
        batch_dimension: The dimension that counts samples, where it is not the first: 1 of `[time, batch]`.

    Attributes:
        run: The run: its settings, `batch_size`, `learning_rate`, `epochs` and `seed` (`dlbench.worker.Run`).

    Raises:
        UserError: PyTorch has connected other processes than dlbench has started.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        defaults: Mapping[str, Any] | None = None,
        batch_dimension: int | None = None,
    ) -> None:
        self._steps = Steps(defaults, batch_dimension)
        self.run = self._steps.run
        self._rate: float | None = None
        self._handles: list[RemovableHandle] = []
        self._parameters: set[int] = set()
        if self.run.recorder is not None:
            register_optimizer_step_post_hook(_untraced(self._after_any_step))
        self.follow(model, optimizer)

    def follow(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Go on with these, one of which is made anew: for another fold, or once more layers are trained.

        Raises:
            UserError: PyTorch has connected other processes than dlbench has started.
        """
        while isinstance(inner := getattr(optimizer, "optimizer", None), torch.optim.Optimizer):  # as accelerate wraps
            optimizer = inner
        self._model, self._optimizer = model, optimizer
        if self.run.recorder is None:
            return
        for handle in self._handles:
            handle.remove()
        self._steps.has_evaluated |= bool(self._handles)  # what lies between is no training
        self._parameters = {id(parameter) for parameter in model.parameters()}
        self._steps.attach(model)
        self._handles = self._steps.count_passes(model)
        self._handles.append(optimizer.register_step_post_hook(_untraced(self._after_step)))
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            note = optimizer.register_step_pre_hook(lambda *_: setattr(self._steps, "reduced", self._steps.now()))
            self._handles.append(note)
            self._watch_gradients([parameter for parameter in model.parameters() if parameter.requires_grad])

    def loss(self, value: Any) -> None:
        """Report the mean loss of the last pass, before it is divided for accumulation; a tensor is not waited for.

        Raises:
            UserError: `optimizer.step()` has ended its step, or it is more than one number.
        """
        self._steps.add_loss(value, self._steps.last_samples)

    def pause(self) -> AbstractContextManager[None]:
        """Leave evaluation out of training, of whatever model, between two steps or within one."""
        return self._steps.pause()

    def mean(self, value: float) -> float:
        """Return the mean of a number over all processes, such as an accuracy of as many samples; a collective."""
        return self._steps.mean(value)

    def epoch(self, **scores: float | None) -> bool:
        """End an epoch with its scores over all processes, the same on each; all call it.

        `train_loss` is known where the losses are. Returns whether the run's target is reached and ends the run: then
        leave the loop. See `dlbench.worker.Run.epoch`.
        """
        return self._steps.epoch(self._rate, scores)

    def _after_any_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        if optimizer is not self._optimizer:
            first = next((id(each) for group in optimizer.param_groups for each in group["params"]), 0)
            self._steps.count_other(is_of_model=first in self._parameters)

    def _after_step(self, *_: object) -> None:
        self._steps.weights = lambda: weights_of(self._model)
        self._rate = float(self._optimizer.param_groups[0]["lr"])  # before a scheduler changes it
        if self.run.recorder is not None and not self._steps.num_pauses:
            self.run.recorder.saw_rate(self._rate)
        self._steps.end()

    def _watch_gradients(self, parameters: list[torch.nn.Parameter]) -> None:
        """Note the moment of the last local gradient: of all parameters in the first step, of the last of them then."""
        order: list[torch.nn.Parameter] = []
        handles = [it.register_post_accumulate_grad_hook(order.append) for it in parameters]

        def note(_: torch.Tensor) -> None:
            self._steps.gradient_ready = self._steps.now()

        def choose(*_: object) -> None:
            chosen.remove()
            for handle in handles:
                handle.remove()
            if order:
                order[-1].register_post_accumulate_grad_hook(note)

        chosen = self._optimizer.register_step_post_hook(choose)


def _in_evaluation_mode() -> UserError:
    return UserError(
        "the model trains in evaluation mode",
        hint="call `model.train()` after evaluating; a loop that means it reports its steps by dlbench.worker "
        "(docs/own-code.md)",
    )


def num_images(args: tuple[Any, ...]) -> int:
    """Return how many pictures [channels, height, width] a model is called with as a list; 0 where it is not."""
    first = args[0] if args else None
    pictures = first if isinstance(first, list) else []
    is_picture = (isinstance(it, torch.Tensor) and it.dim() == 3 and it.shape[0] in _CHANNELS for it in pictures)
    return len(pictures) if all(is_picture) else 0


def num_samples(batch: Any, dimension: int = 0) -> int:
    """Return a dimension of the first tensor that has it in nested lists, tuples and mappings; 0 where none has."""
    sizes = (it.shape[dimension] for it in tensors_in(batch) if -it.dim() <= dimension < it.dim())
    return int(next(filter(None, sizes), 0))


def tensors_in(batch: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested lists, tuples and mappings."""
    if isinstance(batch, torch.Tensor):
        yield batch
    parts = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, list | tuple) else ()
    for part in parts:
        yield from tensors_in(part)


def weights_of(model: torch.nn.Module) -> list[Any] | None:
    """Return the trainable parameters as arrays; None where a process holds only shards of them (FSDP, ZeRO)."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if any(hasattr(module, "_fsdp_wrapped_module") for module in model.modules()):
        return None
    if any(type(it) is not torch.nn.Parameter or hasattr(it, "ds_id") for it in parameters):
        return None
    kinds = {torch.bfloat16: torch.float32}  # which NumPy does not have
    return [it.detach().to("cpu", kinds.get(it.dtype, it.dtype)).numpy() for it in parameters]


def is_validation(name: str) -> bool:
    """Whether a library's name of a score is one of validation, such as `val_acc` or `val/acc`."""
    return _parts_of(name)[0] == "validation"


def scores_of(values: Mapping[str, Any], metrics: Collection[str]) -> dict[str, float]:
    """Return what a library calls scores under their names here: `eval_accuracy` or `val_acc`: validation_accuracy.

    Args:
        values: By the library's names.
        metrics: Names that the scenario declares, with or without the prefix.
    """
    scores: dict[str, float] = {}
    for name, value in sorted(values.items(), key=lambda item: item[0] in metrics):  # last what is named as declared
        samples, kind = _parts_of(name)
        names = f"{samples}_{_KINDS.get(kind, kind)}", name, "" if samples == "train" else kind
        known = next((it for it in names if it in metrics or it in SCORE_COLUMNS), None)
        if known is not None:
            scores[known] = float(value)
    return scores


def _parts_of(name: str) -> tuple[str, str]:
    """Return which samples a library's name of a score is of, "" where it does not say, and the rest of the name."""
    first, _, kind = name.replace("/", "_", 1).partition("_")
    return _SAMPLES.get(first, ""), kind
