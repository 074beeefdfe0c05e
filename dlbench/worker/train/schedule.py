"""Which samples a worker takes next: its share of each step, what is left, or what a node of the strategy assigns.

Each schedule has `steps_per_epoch`, the tickets of one epoch (of one worker, or of all together where samples are
handed out), `samples_per_epoch`, on which all workers train, `dropped_per_epoch`, and `total_samples` of the whole run.
`give_back` is called with samples whose training is lost.
"""

from collections import OrderedDict
from typing import NamedTuple, cast

import numpy as np

from dlbench.errors import UserError
from dlbench.scenario.check.training import no_full_batch
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Divide, Remainder
from dlbench.strategies._protocol import AssignedWorkerNode, WorkerNode
from dlbench.worker.train.order import DataOrder, Indices, Share

# Permutations that are kept: workers are at most a few epochs apart.
_KEPT = 4


class Ticket(NamedTuple):
    """One worker's next samples.

    Attributes:
        share: Them, and how many all workers take in the step.
        epoch: The pass over the data that they are of: 1, 2, ...
        step: Number of the worker's step; where samples are handed out, of all workers' steps together.
    """

    share: Share
    epoch: int
    step: int


class InLockStep:
    """Each worker takes its share of every step, as all do in a synchronous strategy."""

    def __init__(self, run: RunSpec, num_samples: int) -> None:
        workers = run.settings.workers
        self._order = DataOrder.of(run, tuple(range(workers)), num_samples)
        self._epochs = run.epochs_per_worker
        self._steps = [0] * workers
        self._permutations: OrderedDict[tuple[int, int], Indices] = OrderedDict()
        self._kept = _KEPT * (workers if run.settings.divide is Divide.EPOCHS else 1)
        offered = num_samples * (workers if run.settings.divide is Divide.EPOCHS else 1)
        self.steps_per_epoch = self._order.steps_per_epoch
        self.samples_per_epoch = offered - self._order.dropped_per_epoch
        self.total_samples = self._epochs * self.samples_per_epoch
        self.dropped_per_epoch = self._order.dropped_per_epoch

    def next(self, worker: int, node: WorkerNode | None = None) -> Ticket | None:
        """Return a worker's share of its next step."""
        epoch, step = divmod(self._steps[worker], self.steps_per_epoch)
        if epoch == self._epochs:
            return None
        self._steps[worker] += 1
        share = self._order.share_of(worker, step, self._permutation(epoch + 1, worker))
        return Ticket(share, epoch + 1, self._steps[worker])

    def give_back(self, samples: int) -> None:
        """Do nothing: a share is one worker's own."""

    def remainders(self, worker: int) -> list[Share]:
        """Return the worker's share of each smaller last step."""
        order, permutation = self._order, self._permutation(1, worker)
        steps = range(order.full_steps, order.steps_per_epoch)
        shares = [order.share_of(worker, step, permutation) for step in steps]
        return list({len(share.indices): share for share in shares if len(share.indices)}.values())

    def _permutation(self, epoch: int, worker: int) -> Indices:
        key = epoch, worker if self._order.divide is Divide.EPOCHS else 0
        if key not in self._permutations:
            self._permutations[key] = self._order.permutation(epoch, worker)
            if len(self._permutations) > self._kept:
                self._permutations.popitem(last=False)
        return self._permutations[key]


class _Batches:
    """The numbered batches of each epoch, cut from one permutation: any process finds one by its number."""

    def __init__(self, run: RunSpec, num_samples: int) -> None:
        settings = run.settings
        self._seed, self._num_samples, self._batch = run.seed, num_samples, run.local_batch_size(0)
        drops = settings.remainder is Remainder.DROP and num_samples >= self._batch
        self.dropped_per_epoch = num_samples % self._batch if drops else 0
        self.samples_per_epoch = num_samples - self.dropped_per_epoch
        self.steps_per_epoch = -(-self.samples_per_epoch // self._batch)
        self.total_samples = settings.epochs * self.samples_per_epoch
        self._drawn, self._permutation = 0, np.empty(0, np.int64)

    def ticket(self, number: int, size: int) -> Ticket:
        """Return the batch of this number, 1, 2, ..., with this many samples."""
        before, step = divmod(number - 1, self.steps_per_epoch)
        draw = self._draw_of(before + 1)
        if draw != self._drawn:
            self._drawn = draw
            self._permutation = np.random.default_rng([self._seed, draw]).permutation(self._num_samples)
        start = step * self._batch
        share = Share(self._permutation[start : start + size], (size,), (0,), size, size == self._batch)
        return Ticket(share, before + 1, number)

    def remainders(self, worker: int) -> list[Share]:
        """Return the smaller last batch of an epoch, if there is one."""
        size = self.samples_per_epoch % self._batch
        return [self.ticket(self.steps_per_epoch, size).share] if size else []

    def _draw_of(self, epoch: int) -> int:
        """Return which permutation an epoch has."""
        return epoch


class HandedOut(_Batches):
    """Whoever asks first takes the next batch of the epoch's one permutation: a fast worker takes more."""

    def __init__(self, run: RunSpec, num_samples: int) -> None:
        super().__init__(run, num_samples)
        self._left = self.total_samples
        self._handed_out = 0

    def next(self, worker: int, node: WorkerNode | None = None) -> Ticket | None:
        """Return the next batch; the last of an epoch may be smaller."""
        number, size = self.take()
        return self.ticket(number, size) if size else None

    def take(self) -> tuple[int, int]:
        """Hand out the next batch: return its number, 1, 2, ..., and its samples; none of them at the end."""
        start = self._handed_out % self.steps_per_epoch * self._batch
        size = min(self._batch, self._left, self.samples_per_epoch - start)
        if size:
            self._handed_out += 1
            self._left -= size
        return self._handed_out, size

    def close(self) -> int:
        """Hand out nothing more; return how many whole epochs have been handed out."""
        self._left = 0
        return self._handed_out // self.steps_per_epoch

    def give_back(self, samples: int) -> None:
        """Hand out as many samples more, of a further epoch."""
        self._left += samples


class Assigned(_Batches):
    """A node of the strategy says which batch is whose, and how often; a batch has the same samples in each epoch."""

    def next(self, worker: int, node: WorkerNode | None = None) -> Ticket | None:
        """Return the batch that was assigned to a worker's node."""
        number = cast("AssignedWorkerNode", node).assigned
        start = (number - 1) % self.steps_per_epoch * self._batch
        return self.ticket(number, min(self._batch, self.samples_per_epoch - start)) if number else None

    def give_back(self, samples: int) -> None:
        """Do nothing: a gradient that is dropped was computed twice."""

    def _draw_of(self, epoch: int) -> int:
        return 1


def schedule_of(
    run: RunSpec, num_samples: int, *, hands_out: bool, assigned: bool = False
) -> InLockStep | HandedOut | Assigned:
    """Return the schedule of a run over this many training samples.

    Raises:
        UserError: They fill no batch.
    """
    if reason := no_full_batch(run, num_samples):
        raise UserError(reason)
    if assigned:
        return Assigned(run, num_samples)
    return HandedOut(run, num_samples) if hands_out else InLockStep(run, num_samples)
