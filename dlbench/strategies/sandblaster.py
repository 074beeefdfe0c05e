"""Sandblaster: L-BFGS over the whole training set; a coordinator sends scalars, servers hold all vectors.

Dean et al., "Large Scale Distributed Deep Networks", 2012, algorithm 1.2. One evaluation of the loss, at a trial point
of the line search, is one epoch: its batches, the portions, are assigned one at a time to workers as they become free.
When none is left, those that are not finished are assigned once more, and whichever gradient comes first counts.

- The coordinator gets losses of portions and dot products of shards, decides (`_lbfgs`), and sends a step and the
  coefficients of the next direction. No message to or from it grows with the model.
- A server holds its part of point, direction, gradient, and of the kept s and y, in float64; workers get the trial
  point, and send gradients, in the run's precision.
- A worker pulls the trial point once an evaluation. What it computes for one that is over is dropped.

Gradients are summed in float64 in a tree over the portions that is always the same, so that sums do not depend on who
computed what, nor on how many workers there are. Differs from the paper: the two-loop recursion needs one exchange of
scalars instead of one for each kept pair.
"""

import math
from collections import deque

import numpy as np
from pydantic import Field

from dlbench.plugins import Options
from dlbench.scenario.needs import SERVER, Needs, Role
from dlbench.scenario.settings import Precision, Settings
from dlbench.strategies import Array, is_plain_sgd
from dlbench.strategies._lbfgs import Lbfgs
from dlbench.strategies._protocol import Gradient, Message, Port, World
from dlbench.strategies._servers import send_to_servers

COORDINATOR = Role(name="coordinator")
NEEDS = Needs.of_nodes(
    SERVER, COORDINATOR, hands_out=True, assigned_by=COORDINATOR.name, compares_losses=True, agrees=False
)


class SandblasterOptions(Options):
    """Options of the strategy `sandblaster`."""

    history: int = Field(10, ge=1, le=100, description="Pairs of steps and gradient changes that L-BFGS keeps.")
    max_trials: int = Field(
        10, ge=2, le=1000, description="Evaluations along one direction after which L-BFGS begins anew at the gradient."
    )
    copies: int = Field(
        2, ge=1, le=1000, description="How many times a portion is assigned at most while it is not finished."
    )


OPTIONS = SandblasterOptions


class TreeSum:
    """Sums vectors that come in any order, in a fixed tree: neighbours in pairs, then neighbouring pairs.

    So the sum has the same bits whatever comes first, and few partial sums are kept.

    Args:
        count: How many vectors there are.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._parts: dict[tuple[int, int], Array] = {}

    def add(self, number: int, values: Array) -> Array | None:
        """Add vector 0, 1, ..., which may be written from now on; return the sum with the last one."""
        width = self._count
        while width > 1:
            neighbour = number ^ 1
            if neighbour < width:
                other = self._parts.pop((width, neighbour), None)
                if other is None:
                    self._parts[width, number] = values
                    return None
                values += other
            number, width = number // 2, (width + 1) // 2
        return values


class SandblasterWorker:
    """Computes the portion that it is assigned at the trial point, and tells the coordinator when it is free."""

    answers = False

    def __init__(self, world: World, rank: int, port: Port) -> None:
        self.parameters = world.parameters
        self._world, self._rank, self._port = world, rank, port
        self._coordinator = world.node(COORDINATOR.name, 0)
        # The first evaluation needs no message: all know its point, and a worker begins with the portion of its rank.
        self.assigned = rank + 1
        self._is_ready = rank < world.batches_per_epoch
        # The evaluation whose trial point is here, the one that is pulled, and of each shard what has come of it.
        self._held = self._wanted = 1
        self._received: dict[int, Message] = {}

    def may_begin(self) -> bool:
        """Whether there is a portion with its trial point, or nothing more to do."""
        return self._is_ready

    def begin(self) -> Array:
        """Return the trial point."""
        return self.parameters

    def on_gradient(self, gradient: Gradient) -> None:
        """Push it, and report the loss."""
        self._is_ready = not self.assigned
        message = Message("push", self._rank, gradient.step, self._held, samples=gradient.samples)
        send_to_servers(self._world, self._port, message, gradient.values)
        self._report(gradient.step, gradient.samples, gradient.loss)

    def on_message(self, message: Message) -> None:
        """Take a portion, one shard's part of a trial point, or the end."""
        if message.type == "finished":
            self.assigned, self._is_ready = 0, True
        elif message.type == "assign":
            self.assigned, self._wanted = message.step, message.version
            self._is_ready = self._held == self._wanted
            if not self._is_ready:
                self._received = {}
                pull = Message("pull", self._rank, message.step, message.version)
                send_to_servers(self._world, self._port, pull)
        elif self.assigned:
            self._received[message.shard] = message
            if len(self._received) == len(self._world.shards):
                self._take_point()

    def finish(self) -> None:
        """Do nothing: the coordinator has ended the run."""

    def _take_point(self) -> None:
        """Begin at the point that has come; where the evaluation is over, shards may be at different later ones."""
        if {message.version for message in self._received.values()} == {self._wanted}:
            self.parameters = np.concatenate([part.numbers for _, part in sorted(self._received.items())])
            self._held, self._is_ready = self._wanted, True
        else:
            self._report(self.assigned, 0, None)

    def _report(self, number: int, samples: int, loss: float | None) -> None:
        body = np.array([math.nan if loss is None else loss])
        self._port.send(self._coordinator, Message("done", self._rank, number, samples=samples, body=body))


class Coordinator:
    """Assigns portions, and decides what follows from an evaluation."""

    def __init__(self, world: World, port: Port, options: SandblasterOptions) -> None:
        self.parameters = world.parameters[:0]
        self.version = self.samples = 0
        self._world, self._port, self._copies = world, port, options.copies
        precision = float(np.finfo(world.parameters.dtype).eps)
        self._lbfgs = Lbfgs(options.history, world.rate(1), options.max_trials, precision)
        self._evaluation, self._last = 1, world.epochs
        # Each worker has begun with the portion of its rank; those without one are free.
        begun = min(world.num_workers, world.batches_per_epoch)
        self._free = deque(range(begun, world.num_workers))
        self._begin_evaluation()
        for _ in range(begun):
            self._queue.popleft()

    def _begin_evaluation(self) -> None:
        # In the order in which they are assigned: all of them, then again those that are not finished by then.
        self._queue = deque([*range(self._world.batches_per_epoch)] * self._copies)
        # Of each portion that is finished: sum of losses, samples. Of each shard: dot products.
        self._losses: dict[int, tuple[float, int]] = {}
        self._products: dict[int, Array] = {}

    def on_message(self, message: Message) -> None:
        """Take a loss from a worker, dot products from a shard, or that this evaluation is to be the last."""
        if message.type == "close":
            self._last = min(self._last, self._evaluation)
        elif message.type == "done":
            self._free.append(message.worker)
            evaluation, portion = divmod(message.step - 1, self._world.batches_per_epoch)
            if message.samples and evaluation + 1 == self._evaluation:
                loss = float(message.numbers[0]) * message.samples
                self._losses.setdefault(portion, (loss, message.samples))
        else:
            self._products[message.shard] = message.numbers
        is_whole = len(self._losses) == self._world.batches_per_epoch
        if is_whole and len(self._products) == len(self._world.shards):
            self._decide()
        self._assign()

    def _decide(self) -> None:
        """Accept or reject the trial point, and send the next one."""
        losses, samples = zip(*self._losses.values(), strict=True)
        products = sum(self._products[shard] for shard in range(len(self._world.shards)))
        move = self._lbfgs.next(math.fsum(losses) / sum(samples), np.reshape(products, (3, -1)))
        # As numbers: accepted, slot or -1, step, coefficients if any.
        coefficients = () if move.coefficients is None else move.coefficients
        body = np.array([move.is_accepted, -1 if move.slot is None else move.slot, move.step, *coefficients])
        send_to_servers(self._world, self._port, Message("move", 0, version=self._evaluation, body=body))
        self.version, self._evaluation = self._evaluation, self._evaluation + 1
        self._begin_evaluation()
        if self._evaluation > self._last:
            self._queue.clear()
            for worker in range(self._world.num_workers):
                self._port.send(worker, Message("finished", worker))

    def _assign(self) -> None:
        """Give free workers what is not finished."""
        while self._free and self._queue:
            portion = self._queue.popleft()
            if portion not in self._losses:
                worker = self._free.popleft()
                number = (self._evaluation - 1) * self._world.batches_per_epoch + portion + 1
                self._port.send(worker, Message("assign", worker, number, self._evaluation))


class LbfgsShard:
    """One server's part of all vectors.

    Attributes:
        parameters: The point: the last trial that was accepted, in the run's precision.
        version: Evaluations that have been decided.
        samples: Samples in them.
    """

    def __init__(self, world: World, shard: int, port: Port, history: int) -> None:
        self._world, self._shard, self._port, self._history = world, shard, port, history
        self.parameters = world.parameters[world.shards[shard]].copy()
        self.version = self.samples = 0
        self._trial = self.parameters
        self._point = self.parameters.astype(np.float64)
        self._direction, self._gradient = np.zeros_like(self._point), np.zeros_like(self._point)
        self._step = 0.0
        # See `_lbfgs`.
        self._basis = np.zeros((2 * history + 3, self._point.size))
        self._pulls: list[int] = []
        self._begin_evaluation()

    def _begin_evaluation(self) -> None:
        self._sum = TreeSum(self._world.batches_per_epoch)
        self._samples: dict[int, int] = {}

    def on_message(self, message: Message) -> None:
        """Take a gradient or a move, or send the trial point."""
        if message.type == "push":
            self._take_gradient(message)
        elif message.type == "move":
            self._move(message.numbers)
        elif message.version > self.version + 1:
            self._pulls.append(message.worker)  # the move is still on its way
        else:
            self._send(message.worker)

    def _send(self, worker: int) -> None:
        self._port.send(worker, Message("parameters", worker, 0, self.version + 1, self._shard, 0, self._trial))

    def _take_gradient(self, message: Message) -> None:
        """Count each portion of this evaluation once; with the last one send dot products."""
        portion = (message.step - 1) % self._world.batches_per_epoch
        if message.version != self.version + 1 or portion in self._samples:
            if self._shard == 0:  # for all
                self._port.dropped(message.samples)
            return
        self._samples[portion] = message.samples
        total = self._sum.add(portion, np.multiply(message.numbers, message.samples, dtype=np.float64))
        if total is None:
            return
        step, change, gradient = self._basis[-3:]
        np.divide(total, sum(self._samples.values()), out=gradient)
        np.multiply(self._direction, self._step, out=step)
        np.subtract(gradient, self._gradient, out=change)
        products = (self._basis[-3:] @ self._basis.T).ravel()
        coordinator = self._world.node(COORDINATOR.name, 0)
        self._port.send(coordinator, Message("products", 0, 0, message.version, self._shard, 0, products))

    def _move(self, body: Array) -> None:
        """Follow a `Move`, which ends an evaluation."""
        is_accepted, slot, step = bool(body[0]), int(body[1]), float(body[2])
        basis, history = self._basis, self._history
        if is_accepted:
            self._point, self.parameters = self._point + basis[-3], self._trial
            self._gradient = basis[-1].copy()
        if slot >= 0:
            basis[slot], basis[history + slot] = basis[-3], basis[-2]
        if len(body) > 3:
            self._direction = body[3:-1] @ basis[:-3] + body[-1] * self._gradient
        self._step = step
        self._trial = (self._point + step * self._direction).astype(self.parameters.dtype)
        samples = sum(self._samples.values())
        self.version, self.samples = self.version + 1, self.samples + samples
        if self._shard == 0:  # for all
            self._port.updated([0] * self._world.batches_per_epoch, samples)
        self._begin_evaluation()
        pulls, self._pulls = self._pulls, []
        for worker in pulls:
            self._send(worker)


def refuse(options: SandblasterOptions, settings: Settings) -> str:
    """Return which setting L-BFGS would not honour, or ""."""
    if not is_plain_sgd(settings):
        return "sandblaster is L-BFGS: use plain `optimizer: sgd`, without momentum and weight_decay"
    schedules = ("learning_rate_scale", "learning_rate_decay", "warmup_epochs")
    if any(getattr(settings, name) != Settings.model_fields[name].default for name in schedules):
        return (
            "sandblaster searches the length of each step, and `learning_rate` is that of its first: remove "
            f"{', '.join(schedules)}"
        )
    if settings.precision not in (Precision.FLOAT32, Precision.FLOAT64):
        return f"sandblaster compares losses, which are too coarse in {settings.precision}: use float32 or float64"
    return ""


def node(
    options: SandblasterOptions, world: World, role: str, index: int, port: Port
) -> SandblasterWorker | LbfgsShard | Coordinator:
    """Return the node of a role."""
    if role == COORDINATOR.name:
        return Coordinator(world, port, options)
    if role == SERVER.name:
        return LbfgsShard(world, index, port, options.history)
    return SandblasterWorker(world, index, port)
