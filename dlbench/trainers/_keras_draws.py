"""First weights that are the same on all of Keras's engines: initializers draw with NumPy while a model is built.

Each engine has its own random numbers, so that one seed would begin three trainings at three places. Keras's
initializers take the seeds from Python's generator, which is the same everywhere, and draw through one module
(`keras/src/initializers/random_initializers.py`). What a model draws by itself, and dropout, is the engine's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dlbench.trainers import Array

# Keras's truncated normals are drawn anew beyond this many deviations.
TRUNCATED_AT = 2.0


@contextmanager
def drawn_by_numpy() -> Iterator[None]:
    """Let Keras's initializers draw with NumPy inside the block.

    Raises:
        RuntimeError: This version of Keras draws elsewhere.
    """
    from keras.src.initializers import random_initializers

    engine = getattr(random_initializers, "random", None)
    if not hasattr(engine, "truncated_normal"):
        raise RuntimeError("this version of Keras draws first weights where dlbench cannot make them equal on engines")
    random_initializers.random = _NumpyDraws(engine)
    try:
        yield
    finally:
        random_initializers.random = engine


class _NumpyDraws:
    """Keras's module of random numbers, whose draws from a seed that is a number are NumPy's.

    Its methods have the names and arguments of Keras's functions.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def normal(self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None) -> Any:
        """Return normal numbers."""
        if not isinstance(seed, int):
            return self._engine.normal(shape, mean, stddev, dtype, seed)
        return _tensor(mean + stddev * np.random.default_rng(seed).standard_normal(shape), dtype)

    def truncated_normal(
        self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None
    ) -> Any:
        """Return normal numbers within two deviations of their mean."""
        if not isinstance(seed, int):
            return self._engine.truncated_normal(shape, mean, stddev, dtype, seed)
        generator = np.random.default_rng(seed)
        values = np.asarray(generator.standard_normal(shape))
        while np.any(outside := np.abs(values) > TRUNCATED_AT):
            values[outside] = generator.standard_normal(np.count_nonzero(outside))
        return _tensor(mean + stddev * values, dtype)

    def uniform(self, shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None) -> Any:
        """Return uniform numbers."""
        if not isinstance(seed, int):
            return self._engine.uniform(shape, minval, maxval, dtype, seed)
        return _tensor(np.random.default_rng(seed).uniform(minval, maxval, shape), dtype)


def _tensor(values: Array, dtype: Any) -> Any:
    import keras

    return keras.ops.convert_to_tensor(values, dtype or keras.config.floatx())
