"""Layers that tell the vectors of a sequence their positions."""

import functools
from typing import Any

import numpy as np
import numpy.typing as npt


def waves(steps: int, width: int) -> npt.NDArray[np.float64]:
    """Return [steps, width], sines in even columns and cosines in odd ones (Vaswani et al. 2017, section 3.5).

    Column 2i and 2i + 1 hold waves of position / 10000^(2i / width).
    """
    angles = np.arange(steps)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(steps, width)


@functools.cache
def learned_layer() -> Any:
    """Return the class of a layer that adds a trained vector to each position."""
    import keras

    class LearnedPositions(keras.layers.Layer):  # type: ignore[misc]  # keras is untyped
        has_products = False

        def __init__(self, initializer: Any, **options: Any) -> None:
            super().__init__(**options)
            self._initializer = initializer

        def build(self, shape: Any) -> None:
            self.table = self.add_weight(shape=tuple(shape[1:]), initializer=self._initializer, name="table")

        def call(self, inputs: Any) -> Any:
            return inputs + keras.ops.cast(self.table, inputs.dtype)

    return LearnedPositions


@functools.cache
def fixed_layer() -> Any:
    """Return the class of a layer that adds `waves`."""
    import keras

    class FixedPositions(keras.layers.Layer):  # type: ignore[misc]  # keras is untyped
        has_products = False

        def call(self, inputs: Any) -> Any:
            _, steps, width = inputs.shape
            return inputs + keras.ops.convert_to_tensor(waves(steps, width), dtype=inputs.dtype)

    return FixedPositions
