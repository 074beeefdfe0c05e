"""What a step is given: samples of the prepared data, augmented or not, or one batch of random numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlbench.errors import UserError
from dlbench.scenario.check.training import not_pictures
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Augmentation, Divide, Input
from dlbench.trainers import Array, Problem
from dlbench.worker.train.augmentation import CropFlip, draw

# Returns the samples at some places of the training part as a step of an epoch gets them, x [n, ...] and y [n, ...].
Batches = Callable[[Array, int], tuple[Array, Array]]


@dataclass(frozen=True)
class TrainingData:
    """What a worker trains and evaluates on: arrays, and the indices that belong to each part.

    `batches` gives steps their samples where they are not simply those of `batch`: augmented, or synthetic.
    """

    x: Array
    y: Array
    train: Array
    validation_x: Array
    validation_y: Array
    validation: Array
    batches: Batches | None = None

    def batch(self, indices: Array, epoch: int = 0) -> tuple[Array, Array]:
        """Return the training samples at these places of the training part, as they are stored, in every epoch."""
        chosen = self.train[indices]
        return self.x[chosen], self.y[chosen]


class CroppedAndFlipped:
    """Pictures cropped and mirrored anew in each pass over the data.

    Args:
        run: The run.
        workers: The workers that this process holds.
        read: Returns the samples at places of the training part.
    """

    def __init__(self, run: RunSpec, workers: tuple[int, ...], read: Batches) -> None:
        self._read, self._seed = read, run.seed
        self._step, self._offsets = _passes(run, workers)
        self._crop_flip = CropFlip(run.settings.augmentation_padding)

    def __call__(self, indices: Array, epoch: int) -> tuple[Array, Array]:
        """Read them, and crop and mirror each as the seed, the pass and its place in the training part say."""
        x, y = self._read(indices, epoch)
        turns = epoch * self._step + self._offsets
        return self._crop_flip(x, draw(self._seed, turns, indices, self._crop_flip.padding)), y


def batches_of(
    run: RunSpec, workers: tuple[int, ...], stored: np.dtype[Any], problem: Problem, read: Batches
) -> Batches:
    """Return what gives a process's steps their samples; synthetic ones are one batch of random numbers for all steps.

    Args:
        run: The run.
        workers: The workers that this process holds.
        stored: Type that samples are stored in.
        problem: What there is to learn.
        read: Returns the samples at places of the training part.

    Raises:
        UserError: The run wants pictures augmented, and the samples are none.
    """
    settings = run.settings
    if settings.input is Input.SYNTHETIC:
        batch = _random_batch(run, workers, stored, problem)
        return lambda indices, epoch: batch
    if settings.augmentation is Augmentation.NONE:
        return read
    if reason := not_pictures(problem.input_shape, problem.vocabulary, settings.augmentation_padding):
        raise UserError(reason)
    return CroppedAndFlipped(run, workers, read)


def _passes(run: RunSpec, workers: tuple[int, ...]) -> tuple[int, Array]:
    """Return a and b, of which a x epoch + b is the pass over the data that the samples of a step are of: [] or [n].

    With `divide: epochs` workers share the epochs, not the samples: worker r's epoch e is pass e x workers + r, so that
    together they see each sample changed in as many ways as one worker would.
    """
    if run.settings.divide is Divide.DATA:
        return 1, np.array(0)
    return run.settings.workers, np.repeat(workers, [run.local_batch_size(worker) for worker in workers])


def _random_batch(
    run: RunSpec, workers: tuple[int, ...], stored: np.dtype[Any], problem: Problem
) -> tuple[Array, Array]:
    """Return a process's part of one global batch, drawn sample by sample from the seed and its place in the batch."""
    starts = np.cumsum([0, *map(run.local_batch_size, range(run.settings.workers))])
    places = [place for worker in workers for place in range(starts[worker], starts[worker + 1])]
    generators = [np.random.default_rng([run.seed, place]) for place in places]
    x = np.stack([_random_sample(generator, stored, problem) for generator in generators])
    y = [generator.integers(0, problem.num_classes, problem.target_shape, np.int32) for generator in generators]
    return x, np.stack(y)


def _random_sample(generator: np.random.Generator, stored: np.dtype[Any], problem: Problem) -> Array:
    """Return a sample of the data's type: tokens; integers that enter the network as 0 to 1; or a normal one."""
    shape = problem.input_shape
    if problem.vocabulary is not None:
        return generator.integers(0, problem.vocabulary, shape, stored)
    if stored.kind == "f":
        return (generator.standard_normal(shape) / problem.scale).astype(stored)
    largest = min(np.iinfo(stored).max, max(1, round(1 / abs(problem.scale))))
    return generator.integers(0, largest, shape, stored, endpoint=True)
