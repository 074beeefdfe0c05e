"""Which samples a process takes in which step: one seeded permutation per epoch, cut into global batches. Pure."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dlbench.errors import UserError
from dlbench.parts import size_of_part
from dlbench.scenario.check.training import no_full_batch
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Divide, LearningRateDecay, Remainder

Indices = npt.NDArray[np.int64]


class Share(NamedTuple):
    """What one process takes in one step.

    Attributes:
        indices: Its samples, those of its workers one after the other: [sum of `sizes`], which may be 0.
        sizes: How many of them each of its workers takes.
        firsts: Place of each of its workers' first sample in the global batch.
        total: Samples of all workers in the step.
        is_full: Whether every worker has its whole batch; otherwise the step trains a remainder.
    """

    indices: Indices
    sizes: tuple[int, ...]
    firsts: tuple[int, ...]
    total: int
    is_full: bool = True


def joined(shares: Sequence[Share]) -> Share:
    """Return what one process takes in several steps of equal sizes that one call makes; the total is of them all."""
    if len(shares) == 1:
        return shares[0]
    indices = np.concatenate([share.indices for share in shares])
    first, number = shares[0], len(shares)
    return Share(indices, first.sizes * number, first.firsts * number, first.total * number, first.is_full)


@dataclass(frozen=True)
class DataOrder:
    """The order of `num_samples` training samples for one process; the same number of steps for all.

    With `divide: data` each epoch is one permutation of all samples, cut into global batches of which worker r takes
    slice r. With `divide: epochs` every worker has its own permutation of all samples. A process that holds several
    workers takes theirs one after the other.

    What fills no global batch is trained in smaller steps at the epoch's end, or with `remainder: drop` left out and
    counted. With `divide: data` that is one step, whose samples are shared so that no worker has two more than another;
    with `divide: epochs` there are as many as the worker with the smallest batch needs, and a worker that has seen all
    its samples has none in them.
    """

    num_samples: int
    local_batches: tuple[int, ...]
    workers: tuple[int, ...]
    divide: Divide
    seed: int
    remainder: Remainder

    @classmethod
    def of(cls, run: RunSpec, workers: tuple[int, ...], num_samples: int) -> "DataOrder":
        """Return the order of the process that holds these workers of a run.

        Raises:
            UserError: The samples fill no batch: what is known only now of data sets that do not describe themselves.
        """
        if reason := no_full_batch(run, num_samples):
            raise UserError(reason)
        settings = run.settings
        batches = tuple(run.local_batch_size(index) for index in range(settings.workers))
        return cls(num_samples, batches, workers, settings.divide, run.seed, settings.remainder)

    @cached_property
    def full_steps(self) -> int:
        """Steps of an epoch in which every worker has its whole batch."""
        batch = max(self.local_batches) if self.divide is Divide.EPOCHS else sum(self.local_batches)
        return self.num_samples // batch

    @cached_property
    def steps_per_epoch(self) -> int:
        """Steps in one epoch, computed from the global sizes alone, so that it is the same for all workers."""
        if self.remainder is Remainder.DROP:
            return self.full_steps
        batch = min(self.local_batches) if self.divide is Divide.EPOCHS else sum(self.local_batches)
        return -(-self.num_samples // batch)

    @property
    def dropped_per_epoch(self) -> int:
        """Samples that are left out in one epoch, over all workers."""
        if self.remainder is Remainder.TRAIN:
            return 0
        offered = self.num_samples * (len(self.local_batches) if self.divide is Divide.EPOCHS else 1)
        return offered - self.full_steps * sum(self.local_batches)

    def epoch(self, epoch: int) -> Iterator[Share]:
        """Yield this process's share of each step of epoch 1, 2, ..."""
        permutations = self._permutations(epoch)
        for step in range(self.steps_per_epoch):
            yield self.share(step, permutations, self.workers)

    def full_batches(self, epoch: int) -> Iterator[Share]:
        """Yield the same without a remainder."""
        return islice(self.epoch(epoch), self.full_steps)

    def growing_batches(self, epoch: int, multiple: Callable[[], int]) -> Iterator[Share]:
        """Yield the same of batches that are a multiple of the whole one: a power of two, asked for before each.

        What is left of an epoch is cut into smaller such multiples, and the remainder is that of the whole batch:
        no other size is trained than those that there are without it, and multiples of the whole batch.
        """
        permutation, start = self.permutation(epoch, 0), 0
        while whole := (self.num_samples - start) // sum(self.local_batches):
            share = self.multiple_batch(min(multiple(), 1 << (whole.bit_length() - 1)), permutation[start:])
            yield share
            start += share.total
        for step in range(self.full_steps, self.steps_per_epoch):
            yield self.share(step, [permutation] * len(self.workers), self.workers)

    def multiple_batch(self, multiple: int, permutation: Indices) -> Share:
        """Return this process's share of a batch that is a multiple of the whole one: the first samples of these."""
        ends = [multiple * end for end in accumulate(self.local_batches, initial=0)]
        starts = [ends[worker] for worker in self.workers]
        return _cut(ends, self.workers, [permutation] * len(starts), starts, is_full=True)

    def remainders(self) -> Iterator[Share]:
        """Yield one share of each size that the remainder's steps have, in the order in which they are trained."""
        permutations, seen = self._permutations(1), {self.local_batches}
        for step in range(self.full_steps, self.steps_per_epoch):
            sizes = self._sizes(step)
            if sizes not in seen:
                seen.add(sizes)
                yield self.share(step, permutations, self.workers)

    def permutation(self, epoch: int, worker: int) -> Indices:
        """Return the permutation of epoch 1, 2, ... that a worker takes its samples from; see `divide`."""
        seeds = [self.seed, epoch, worker] if self.divide is Divide.EPOCHS else [self.seed, epoch]
        return np.random.default_rng(seeds).permutation(self.num_samples)

    def share(self, step: int, permutations: Sequence[Indices], workers: Sequence[int]) -> Share:
        """Return the share that some workers take of step 0, 1, ... of an epoch, each of its permutation."""
        ends = self._ends(step)
        if self.divide is Divide.EPOCHS:
            starts = [step * self.local_batches[worker] for worker in workers]
        else:
            starts = [step * self._ends(0)[-1] + ends[worker] for worker in workers]
        return _cut(ends, workers, permutations, starts, is_full=step < self.full_steps)

    def _permutations(self, epoch: int) -> list[Indices]:
        """Return the permutation that each own worker takes its samples from."""
        if self.divide is Divide.EPOCHS:
            return [self.permutation(epoch, worker) for worker in self.workers]
        return [self.permutation(epoch, 0)] * len(self.workers)

    def _sizes(self, step: int) -> tuple[int, ...]:
        """Return the samples of every worker in a step (0, 1, ...) of the remainder."""
        if self.divide is Divide.EPOCHS:
            return tuple(min(batch, max(0, self.num_samples - step * batch)) for batch in self.local_batches)
        left, workers = self.num_samples - self.full_steps * sum(self.local_batches), len(self.local_batches)
        return tuple(size_of_part(left, workers, worker) for worker in range(workers))

    def _ends(self, step: int) -> tuple[int, ...]:
        """Return where each worker's samples end in the global batch of a step, after a 0."""
        key, ends = max(step, self.full_steps - 1), self._known_ends
        if key not in ends:
            sizes = self.local_batches if step < self.full_steps else self._sizes(step)
            ends[key] = (0, *accumulate(sizes))
        return ends[key]

    @cached_property
    def _known_ends(self) -> dict[int, tuple[int, ...]]:
        return {}


def _cut(
    ends: Sequence[int],
    workers: Sequence[int],
    permutations: Sequence[Indices],
    starts: Sequence[int],
    *,
    is_full: bool,
) -> Share:
    """Return the share of some workers, each of whose samples are those of its permutation from a place on.

    Args:
        ends: Where each worker's samples end in the global batch, after a 0.
        workers: Those that take the share.
        permutations: Of each of them.
        starts: The place of each in its permutation.
        is_full: Whether every worker has its whole batch.
    """
    sizes = tuple(ends[worker + 1] - ends[worker] for worker in workers)
    parts = [order[start : start + size] for order, start, size in zip(permutations, starts, sizes, strict=True)]
    indices = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return Share(indices, sizes, tuple(ends[worker] for worker in workers), ends[-1], is_full)


def learning_rate(run: RunSpec, step: float, steps_per_epoch: int) -> float:
    """Return the rate of step 1, 2, ...: rising over `warmup_epochs` to `run.full_learning_rate`, then decaying."""
    settings, epochs = run.settings, (step - 1) / steps_per_epoch
    warmup_steps = settings.warmup_epochs * steps_per_epoch
    rate = run.full_learning_rate * (min(1.0, step / warmup_steps) if warmup_steps > 0 else 1.0)
    every, factor = settings.learning_rate_decay_epochs, settings.learning_rate_decay_factor
    if every is not None and factor is not None:
        rate *= factor ** (epochs // every)
    elif settings.learning_rate_decay is LearningRateDecay.COSINE and epochs > settings.warmup_epochs:
        decayed = (epochs - settings.warmup_epochs) / (run.epochs_per_worker - settings.warmup_epochs)
        rate *= (1 + math.cos(math.pi * min(1.0, decayed))) / 2
    return rate
