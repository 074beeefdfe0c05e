"""Which samples a process takes in which step: one seeded permutation per epoch, cut into global batches. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Divide

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DataOrder:
    """The order of `num_samples` training samples for one process; the same number of steps for all.

    With `divide: data` each epoch is one permutation of all samples, cut into global batches of which worker r takes
    slice r. With `divide: epochs` every worker has its own permutation of all samples. Either way the remainder that
    fills no batch is dropped and counted. A process that holds several workers takes theirs one after the other.
    """

    num_samples: int
    local_batches: tuple[int, ...]
    workers: tuple[int, ...]
    divide: Divide
    seed: int

    @classmethod
    def of(cls, run: RunSpec, workers: tuple[int, ...], num_samples: int) -> "DataOrder":
        """Return the order of the process that holds these workers of a run."""
        settings = run.settings
        batches = tuple(run.local_batch_size(index) for index in range(settings.workers))
        return cls(num_samples, batches, workers, settings.divide, run.seed)

    @property
    def steps_per_epoch(self) -> int:
        """Steps in one epoch, computed from the global sizes alone, so that it is the same for all workers."""
        if self.divide is Divide.EPOCHS:
            return self.num_samples // max(self.local_batches)
        return self.num_samples // sum(self.local_batches)

    @property
    def dropped_per_epoch(self) -> int:
        """Samples that fill no batch in one epoch, over all workers."""
        offered = self.num_samples * (len(self.local_batches) if self.divide is Divide.EPOCHS else 1)
        return offered - self.steps_per_epoch * sum(self.local_batches)

    @property
    def own_batch(self) -> int:
        """Samples of this process in one step."""
        return sum(self.local_batches[worker] for worker in self.workers)

    def epoch(self, epoch: int) -> Iterator[Indices]:
        """Yield this process's sample indices, one array [own batch] per step, of epoch 1, 2, ..."""
        slices = self._own_permutations(epoch) if self.divide is Divide.EPOCHS else self._own_slices(epoch)
        return iter(slices[0] if len(slices) == 1 else np.concatenate(slices, axis=1))

    def _own_slices(self, epoch: int) -> list[Indices]:
        """Return [steps, local batch] of each own worker: its slice of the global batches."""
        batches = self._batches([self.seed, epoch], sum(self.local_batches))
        starts = [sum(self.local_batches[:worker]) for worker in self.workers]
        lengths = [self.local_batches[worker] for worker in self.workers]
        return [batches[:, start : start + length] for start, length in zip(starts, lengths, strict=True)]

    def _own_permutations(self, epoch: int) -> list[Indices]:
        """Return [steps, local batch] of each own worker, each from a permutation of its own."""
        return [self._batches([self.seed, epoch, worker], self.local_batches[worker]) for worker in self.workers]

    def _batches(self, seeds: list[int], width: int) -> Indices:
        permutation = np.random.default_rng(seeds).permutation(self.num_samples)
        return permutation[: self.steps_per_epoch * width].reshape(self.steps_per_epoch, width)


def learning_rate(run: RunSpec, step: int, steps_per_epoch: int) -> float:
    """Return the rate of step 1, 2, ...: rising linearly over `warmup_epochs`, then `run.full_learning_rate`."""
    warmup_steps = run.settings.warmup_epochs * steps_per_epoch
    return run.full_learning_rate * (min(1.0, step / warmup_steps) if warmup_steps > 0 else 1.0)
