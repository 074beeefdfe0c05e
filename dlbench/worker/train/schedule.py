"""Which samples a worker takes next: its share of each step, what is left, or what a node of the strategy assigns.

Each schedule has `steps_per_epoch`, the tickets of one epoch (of one worker, or of all together where samples are
handed out), `samples_per_epoch`, on which all workers train, and `dropped_per_epoch`. `give_back` is called with
samples whose training is lost.
"""

from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np

from dlbench.errors import UserError
from dlbench.scenario.check.training import no_full_batch
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Divide, Remainder
from dlbench.strategies._protocol import AssignedWorkerNode, WorkerNode
from dlbench.worker.train.order import DataOrder, Share

# Permutations that are kept: workers are at most a few epochs apart.
_KEPT = 4


class Ticket(NamedTuple):
    """One worker's next samples.

    Attributes:
        share: Them, and how many all workers take in the step.
        epoch: The pass over the data that they are of: 1, 2, ...
        step: Number of the worker's step; where samples are handed out, of all workers' steps together.
        completes: The epoch that they help to complete, in which what was given back is made up for.
    """

    share: Share
    epoch: int
    step: int
    completes: int


class InLockStep:
    """Each worker takes its share of every step, as all do in a synchronous strategy."""

    def __init__(self, run: RunSpec, num_samples: int) -> None:
        workers = run.settings.workers
        self._order = DataOrder.of(run, tuple(range(workers)), num_samples)
        self._epochs = run.epochs_per_worker
        self._steps = [0] * workers
        num_permutations = workers if run.settings.divide is Divide.EPOCHS else 1
        self._permutation = lru_cache(_KEPT * num_permutations)(self._order.permutation)
        self.steps_per_epoch = self._order.steps_per_epoch
        self.samples_per_epoch = num_permutations * num_samples - self._order.dropped_per_epoch
        self.dropped_per_epoch = self._order.dropped_per_epoch

    def next(self, worker: int, node: WorkerNode | None = None) -> Ticket | None:
        """Return a worker's share of its next step."""
        epoch, step = divmod(self._steps[worker], self.steps_per_epoch)
        if epoch == self._epochs:
            return None
        self._steps[worker] += 1
        return Ticket(self._share(worker, epoch + 1, step), epoch + 1, self._steps[worker], epoch + 1)

    def give_back(self, samples: int) -> None:
        """Do nothing: a share is one worker's own."""

    def remainders(self, worker: int) -> list[Share]:
        """Return the worker's share of each smaller last step."""
        steps = range(self._order.full_steps, self._order.steps_per_epoch)
        shares = [self._share(worker, 1, step) for step in steps]
        return list({len(share.indices): share for share in shares if len(share.indices)}.values())

    def _share(self, worker: int, epoch: int, step: int) -> Share:
        permutation = self._permutation(epoch, worker if self._order.divide is Divide.EPOCHS else 0)
        return self._order.share(step, [permutation], [worker])


class _Batches:
    """The numbered batches of each epoch, cut from one permutation: any process finds one by its number."""

    def __init__(self, run: RunSpec, num_samples: int) -> None:
        settings = run.settings
        self._batch = run.local_batch_size(0)
        drops = settings.remainder is Remainder.DROP and num_samples >= self._batch
        self.dropped_per_epoch = num_samples % self._batch if drops else 0
        self.samples_per_epoch = num_samples - self.dropped_per_epoch
        self.steps_per_epoch = -(-self.samples_per_epoch // self._batch)
        self._permutation = lru_cache(1)(lambda draw: np.random.default_rng([run.seed, draw]).permutation(num_samples))

    def ticket(self, number: int, size: int, completes: int | None = None) -> Ticket:
        """Return the batch of this number, 1, 2, ..., with this many samples; it completes its own epoch by default."""
        before, step = divmod(number - 1, self.steps_per_epoch)
        permutation, start = self._permutation(self._draw_of(before + 1)), step * self._batch
        share = Share(permutation[start : start + size], (size,), (0,), size, size == self._batch)
        return Ticket(share, before + 1, number, completes or before + 1)

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
        self._left = run.settings.epochs * self.samples_per_epoch
        self._handed_out = self._given_back = 0

    def next(self, worker: int, node: WorkerNode | None = None) -> Ticket | None:
        """Return the next batch; the last of an epoch may be smaller."""
        number, size, completes = self.take()
        return self.ticket(number, size, completes) if size else None

    def take(self) -> tuple[int, int, int]:
        """Hand out the next batch: return its number, 1, 2, ..., its samples (none at the end), and its epoch."""
        start = self._handed_out % self.steps_per_epoch * self._batch
        size = min(self._batch, self._left, self.samples_per_epoch - start)
        if size:
            self._handed_out += 1
            self._left -= size
        return self._handed_out, size, self.epoch_of(self._handed_out)

    def close(self) -> int:
        """Hand out nothing more; return how many whole epochs have been handed out."""
        self._left = 0
        return self._handed_out // self.steps_per_epoch

    def give_back(self, samples: int) -> None:
        """Hand out as many samples more, of a further epoch."""
        self._left += samples
        self._given_back += samples

    def epoch_of(self, number: int) -> int:
        """Return the epoch that a batch helps to complete, by what was given back so far."""
        before, step = divmod(number - 1, self.steps_per_epoch)
        samples = before * self.samples_per_epoch + step * self._batch - self._given_back
        return max(1, samples // self.samples_per_epoch + 1)


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
