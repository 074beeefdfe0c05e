"""Which samples a worker takes in which step: one seeded permutation per epoch, cut into global batches. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Divide

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Order:
    """The order of `num_samples` training samples for one worker; the same number of steps for all workers.

    With `divide: data` each epoch is one permutation of all samples, cut into global batches of which worker r takes
    slice r. With `divide: epochs` every worker has its own permutation of all samples. Either way the remainder that
    fills no batch is dropped and counted.
    """

    num_samples: int
    local_batches: tuple[int, ...]
    worker: int
    divide: Divide
    seed: int

    @classmethod
    def of(cls, run: RunSpec, worker: int, num_samples: int) -> "Order":
        """Return the order of one worker of a run."""
        settings = run.settings
        batches = tuple(run.local_batch_size(index) for index in range(settings.workers))
        return cls(num_samples, batches, worker, settings.divide, run.seed)

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

    def epoch(self, epoch: int) -> Iterator[Indices]:
        """Yield this worker's sample indices, one array [local batch] per step, of epoch 1, 2, ..."""
        mine = self.local_batches[self.worker]
        own = self.divide is Divide.EPOCHS
        width, start = (mine, 0) if own else (sum(self.local_batches), sum(self.local_batches[: self.worker]))
        seeds = [self.seed, epoch, self.worker] if own else [self.seed, epoch]
        permutation = np.random.default_rng(seeds).permutation(self.num_samples)
        used = permutation[: self.steps_per_epoch * width].reshape(self.steps_per_epoch, width)
        return iter(used[:, start : start + mine])


def learning_rate(run: RunSpec, step: int, steps_per_epoch: int) -> float:
    """Return the rate of step 1, 2, ...: rising linearly over `warmup_epochs`, then `run.full_learning_rate`."""
    warmup_steps = run.settings.warmup_epochs * steps_per_epoch
    return run.full_learning_rate * (min(1.0, step / warmup_steps) if warmup_steps > 0 else 1.0)
