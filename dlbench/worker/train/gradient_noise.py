"""Squared norms of gradients, from which the gradient noise scale follows, without any message of their own."""

from dataclasses import dataclass

import numpy as np

from dlbench.strategies import Array

# Two passes over the gradient at every few steps are a small part of a step.
EVERY = 8


@dataclass
class GradientNorms:
    """Adds up |g_i|^2 of this worker's gradients and |g|^2 of their means over all workers, at every eighth step.

    Attributes:
        count: Steps that were added up.
        local: Sum of the squared norms of this worker's gradients.
        mean: Sum of the squared norms of the means.
    """

    count: int = 0
    local: float = 0.0
    mean: float = 0.0
    _steps: int = 0
    _waits: float | None = None

    def before(self, gradient: Array, scale: float) -> None:
        """Take a local gradient before it is reduced.

        Args:
            gradient: Of this worker, times `scale`.
            scale: What makes the sum of all workers' gradients the mean over the step: 1 / workers of equal batches.
        """
        self._steps += 1
        if self._steps % EVERY == 0:
            self._waits = float(np.vdot(gradient, gradient)) / scale**2

    def after(self, mean: Array) -> None:
        """Take the mean over all workers of the same step."""
        if self._waits is not None:
            self.count += 1
            self.local += self._waits
            self.mean += float(np.vdot(mean, mean))
            self._waits = None
