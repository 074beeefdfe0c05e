"""Which samples are trained on and which are evaluated: the seed alone decides, never the number of workers. Pure.

The caller passes `settings.seed`, without the repeat: all repeats of all arms then train and evaluate on the same
samples, and differ in initial weights and data order only.

Everything is drawn from one stratified order of a part: its prefixes hold each class in proportion to its frequency
in the part, as nearly as whole samples allow (Webster's method: the i-th sample of a class of c stands at
(i + 1/2) / c). Validation is a prefix of the order and a subset is a prefix, so a larger subset contains a smaller.
Samples with a class at each of several positions, or with a number, have no class of their own: their order is a plain
permutation.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dlbench.datasets._format import Array, Arrays
from dlbench.errors import UserError

Indices = npt.NDArray[np.int64]

# Which independent draw of the seed an order is.
_FIRST_DRAW, _SECOND_DRAW = 0, 1


@dataclass(frozen=True, eq=False)
class Split:
    """The samples of one run.

    Attributes:
        train: Rows of `x`, `y` to train on, ascending.
        validation: Rows to evaluate on, ascending.
        validation_part: Which arrays `validation` counts in: `train` (`x`, `y`) or `validation` (`validation_x`, ...).
    """

    train: Indices
    validation: Indices
    validation_part: Literal["train", "validation"]


def split(
    arrays: Arrays,
    seed: int,
    validation_fraction: float,
    train_samples: int | None = None,
    validation_samples: int | None = None,
) -> Split:
    """Return which samples are trained on and which are evaluated.

    Args:
        arrays: The prepared data set.
        seed: `settings.seed`, without the repeat.
        validation_fraction: Share of the training part kept for validation, at least one sample, where the data set has
            no validation part.
        train_samples: Train on a subset of this many, or None for all.
        validation_samples: Evaluate on a subset of this many, or None for all.

    Raises:
        UserError: More samples are asked for than there are, or one side of the split would be empty.
    """
    train = _stratified_order(arrays.y, seed, _FIRST_DRAW)
    if arrays.validation_y is not None:
        validation = _stratified_order(arrays.validation_y, seed, _SECOND_DRAW)
        part: Literal["train", "validation"] = "validation"
    else:
        num_validation = max(1, round(len(train) * validation_fraction))
        if num_validation >= len(train):
            raise UserError(
                f"validation_fraction {validation_fraction} of {len(train):,} samples leaves none to train on",
                hint="use a smaller validation_fraction or more samples",
            )
        # The rest of a stratified order is not stratified: each side gets its own order.
        train, validation = train[num_validation:], train[:num_validation]
        train = train[_stratified_order(arrays.y[train], seed, _SECOND_DRAW)]
        part = "train"
    chosen = _subset(train, train_samples, "train_samples", "training")
    evaluated = _subset(validation, validation_samples, "validation_samples", "validation")
    return Split(np.sort(chosen), np.sort(evaluated), part)


def _stratified_order(y: Array, seed: int, draw: int) -> Indices:
    """Return an order of samples with classes `y` whose prefixes keep the proportions of the classes."""
    # NumPy guarantees the same raw bits in every version, but not the same shuffles.
    bits = np.random.PCG64(np.random.SeedSequence([seed, draw])).random_raw(len(y))
    shuffled = np.argsort(bits, kind="stable")
    if y.ndim > 1 or y.dtype.kind == "f":
        return shuffled
    classes = np.asarray(y)[shuffled]
    by_class = np.argsort(classes, kind="stable")
    counts = np.bincount(classes)
    starts = np.cumsum(counts) - counts
    rank_in_class = np.empty(len(y), dtype=np.int64)
    rank_in_class[by_class] = np.arange(len(y)) - starts[classes[by_class]]
    quantile = (rank_in_class + 0.5) / counts[classes]
    order: Indices = shuffled[np.argsort(quantile, kind="stable")]
    return order


def _subset(order: Indices, size: int | None, setting: str, kind: str) -> Indices:
    if size is not None and size > len(order):
        raise UserError(
            f"{setting} is {size:,}, but the data set has {len(order):,} {kind} samples",
            hint=f"leave {setting} out to use all of them",
        )
    return order if size is None else order[:size]
