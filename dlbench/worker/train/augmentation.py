"""Crop and flip: what the field does to small training pictures before each step, drawn by sample, never by worker.

Each picture is padded with zeros on every side, cropped back to its size at a random place and mirrored left to right
with probability 1/2: the augmentation of He et al., Deep Residual Learning for Image Recognition (2016), section 4.2,
who took it from Lee et al., Deeply-Supervised Nets (2015), with 4 pixels for 32 x 32. Here zero is the stored number 0
(black), as where pictures are cropped before they are scaled; no mean is subtracted before.

What is drawn depends on the run's seed, the pass over the data and the sample alone, by a hash in place of a stream of
random numbers: however many workers share an epoch, and in whichever order, each sample is changed in the same way.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators (2014): the constants of SplitMix64.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
# Each place is drawn from this many bits.
_BITS = 24


@dataclass(frozen=True, eq=False)
class CropOffsets:
    """What is done to each of n pictures.

    Attributes:
        row: First row of its crop, from 0 to 2 x padding.
        column: First column of its crop, from 0 to 2 x padding.
        mirrored: Whether it is mirrored left to right.
    """

    row: Array
    column: Array
    mirrored: Array


def draw(seed: int, turns: Array, samples: Array, padding: int) -> CropOffsets:
    """Return what is done to these samples in these turns.

    Args:
        seed: The run's seed.
        turns: Which pass over the data each is of [n] or [], from 0.
        samples: Numbers of the samples [n], from 0.
        padding: Pixels added on each side.
    """
    key = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    # Arrays wrap around silently, as a hash must; NumPy's scalars warn.
    turn_keys = _mixed(key + np.atleast_1d(turns).astype(np.uint64) * _GOLDEN)
    bits = _mixed(turn_keys + samples.astype(np.uint64) * _GOLDEN)
    num_places, mask = np.uint64(2 * padding + 1), np.uint64(2**_BITS - 1)
    row = (bits & mask) * num_places >> np.uint64(_BITS)
    column = (bits >> np.uint64(_BITS) & mask) * num_places >> np.uint64(_BITS)
    return CropOffsets(row.astype(np.int64), column.astype(np.int64), bits >> np.uint64(63) != 0)


def _mixed(bits: Array) -> Array:
    bits = (bits ^ bits >> np.uint64(30)) * _FIRST
    bits = (bits ^ bits >> np.uint64(27)) * _SECOND
    mixed: Array = bits ^ bits >> np.uint64(31)
    return mixed


@dataclass
class CropFlip:
    """Crops and mirrors batches of pictures; keeps the padded frame between steps.

    Attributes:
        padding: Pixels added on each side.
    """

    padding: int
    _frame: Array = field(default_factory=lambda: np.zeros((0, 0, 0, 0), np.uint8), init=False, repr=False)

    def __call__(self, pictures: Array, offsets: CropOffsets) -> Array:
        """Return new pictures [n, height, width, channels] of the same type, each cropped and mirrored at its place."""
        n, height, width, channels = pictures.shape
        frame = self._filled(pictures)
        # A row of a crop is one element of these overlapping views: gathering rows, not pixels, is what makes it quick.
        rows: Array = np.ndarray(
            (n, height + 2 * self.padding, 2 * self.padding + 1),
            np.dtype((np.void, width * channels * pictures.itemsize)),
            frame.data,
            strides=frame.strides[:3],
        )
        chosen = rows[np.arange(n)[:, None], offsets.row[:, None] + np.arange(height), offsets.column[:, None]]
        pixels = chosen.view(np.dtype((np.void, channels * pictures.itemsize))).reshape(n, height, width)
        pixels[offsets.mirrored] = pixels[offsets.mirrored][:, :, ::-1]
        cropped: Array = chosen.view(pictures.dtype).reshape(pictures.shape)
        return cropped

    def _filled(self, pictures: Array) -> Array:
        """Return the frame with these pictures in its middle; its border is zero and stays so."""
        n, height, width, channels = pictures.shape
        shape = (n, height + 2 * self.padding, width + 2 * self.padding, channels)
        if self._frame.shape != shape or self._frame.dtype != pictures.dtype:
            self._frame = np.zeros(shape, pictures.dtype)
        self._frame[:, self.padding : self.padding + height, self.padding : self.padding + width] = pictures
        return self._frame
