"""What a step is given: samples of the prepared data, augmented or not, or one batch of random numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlbench.errors import UserError
from dlbench.scenario.check.training import not_pictures
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Augmentation, Divide, Input
from dlbench.trainers import Array, Gather, Problem
from dlbench.worker.train.augmentation import CropFlip, CropOffsets, draw
from dlbench.worker.train.order import Share

# Returns the samples of a share as a step of an epoch gets them, x [n, ...] and y [n, ...]; n may be 0.
Batches = Callable[[Share, int], tuple[Array, Array]]
# A trainer's: keeps samples on its device, and returns what gathers some of them there.
Hold = Callable[[Array, Array, int | None], Gather]


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

    def batch(self, share: Share, epoch: int = 0) -> tuple[Array, Array]:
        """Return a share's training samples as they are stored, in every epoch."""
        chosen = self.train[share.indices]
        return self.x.take(chosen, 0), self.y.take(chosen, 0)


@dataclass(frozen=True)
class Crops:
    """How pictures are cropped and mirrored anew in each pass over the data.

    Attributes:
        run: The run.
        workers: The workers that this process holds.
    """

    run: RunSpec
    workers: tuple[int, ...]

    def of(self, share: Share, epoch: int) -> CropOffsets:
        """Return what is done to each picture, as the seed, the pass and its place in the training part say.

        With `divide: epochs` workers share the epochs, not the samples: worker r's epoch e is pass e x workers + r, so
        that together they see each sample changed in as many ways as one worker would.
        """
        settings, passes = self.run.settings, np.array(epoch)
        if settings.divide is Divide.EPOCHS:
            workers = np.resize(self.workers, len(share.sizes))  # once for each step that the share is of
            passes = epoch * settings.workers + np.repeat(workers, share.sizes)
        return draw(self.run.seed, passes, share.indices, settings.augmentation_padding)


def _cropped_and_flipped(crops: Crops, read: Batches) -> Batches:
    """Return what gives steps pictures that the processor crops and mirrors, once `read` has returned them."""
    crop_flip = CropFlip(crops.run.settings.augmentation_padding)

    def batches(share: Share, epoch: int) -> tuple[Array, Array]:
        x, y = read(share, epoch)
        return (crop_flip(x, crops.of(share, epoch)), y) if len(y) else (x, y)

    return batches


def _on_device(x: Array, y: Array, hold: Hold, crops: Crops | None) -> Batches:
    """Return what gives steps samples that the trainer's device holds: each step sends it their numbers alone.

    Args:
        x: Training samples as they are stored [n, ...].
        y: What is to be predicted of them [n, ...].
        hold: The trainer's.
        crops: How the device crops and mirrors them; None where they stay as they are.
    """
    gather = hold(x, y, None if crops is None else crops.run.settings.augmentation_padding)

    def batches(share: Share, epoch: int) -> tuple[Any, Any]:
        if not len(share.indices):
            return x[:0], y[:0]
        places = [share.indices]
        if crops is not None:
            offsets = crops.of(share, epoch)
            places += [offsets.row, offsets.column, offsets.mirrored]
        return gather(np.stack(places, axis=1, dtype=np.int32, casting="unsafe"))

    return batches


class Synthetic:
    """The parts of one global batch of random numbers, drawn sample by sample from the seed and its place in the batch.

    Args:
        run: The run.
        stored: Type that samples are stored in.
        problem: What there is to learn.
    """

    def __init__(self, run: RunSpec, stored: np.dtype[Any], problem: Problem) -> None:
        self._seed, self._stored, self._problem = run.seed, stored, problem
        self._drawn: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[Array, Array]] = {}

    def __call__(self, share: Share, epoch: int) -> tuple[Array, Array]:
        """Return the samples at the share's places, the same arrays each time."""
        places = share.firsts, share.sizes
        if places not in self._drawn:
            self._drawn[places] = self._draw(*places)
        return self._drawn[places]

    def _draw(self, firsts: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Array, Array]:
        problem, stored = self._problem, self._stored
        places = [first + number for first, size in zip(firsts, sizes, strict=True) for number in range(size)]
        x = np.empty((len(places), *problem.input_shape), stored)
        y = np.empty((len(places), *problem.target_shape), np.int32 if problem.num_classes else np.float64)
        for row, place in enumerate(places):
            generator = np.random.default_rng([self._seed, place])
            x[row] = _random_sample(generator, stored, problem)
            if problem.num_classes:
                y[row] = generator.integers(0, problem.num_classes, problem.target_shape, np.int32)
            else:
                y[row] = generator.standard_normal()
        return x, y


def batches_of(
    run: RunSpec, workers: tuple[int, ...], data: TrainingData, problem: Problem, hold: Hold | None = None
) -> Batches:
    """Return what gives a process's steps their samples; synthetic ones are one batch of random numbers for all steps.

    Args:
        run: The run.
        workers: The workers that this process holds.
        data: The samples.
        problem: What there is to learn.
        hold: The trainer's, where its device can keep samples (see `dlbench.trainers.Trainer`).

    Raises:
        UserError: The run wants pictures augmented, and the samples are none.
    """
    settings, crops = run.settings, None
    if settings.input is Input.SYNTHETIC:
        return Synthetic(run, data.x.dtype, problem)
    if settings.augmentation is not Augmentation.NONE:
        if reason := not_pictures(problem.input_shape, problem.vocabulary, settings.augmentation_padding):
            raise UserError(reason)
        crops = Crops(run, workers)
    if settings.input is Input.DEVICE:
        assert hold is not None  # other trainers are refused before the run
        return _on_device(data.x[data.train], data.y[data.train], hold, crops)
    return data.batch if crops is None else _cropped_and_flipped(crops, data.batch)


def _random_sample(generator: np.random.Generator, stored: np.dtype[Any], problem: Problem) -> Array:
    """Return a sample of the data's type: tokens; integers that enter the network as 0 to 1; or a normal one."""
    shape = problem.input_shape
    if problem.vocabulary is not None:
        return generator.integers(0, problem.vocabulary, shape, stored)
    if stored.kind == "f":
        return (generator.standard_normal(shape) / problem.scale).astype(stored)
    largest = min(np.iinfo(stored).max, max(1, round(1 / abs(problem.scale))))
    return generator.integers(0, largest, shape, stored, endpoint=True)
