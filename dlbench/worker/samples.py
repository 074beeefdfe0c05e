"""What a worker trains and evaluates on."""

from dataclasses import dataclass

from dlbench.trainers import Array
from dlbench.worker.batches import Batches


@dataclass(frozen=True)
class Samples:
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

    def batch(self, indices: Array) -> tuple[Array, Array]:
        """Return the training samples at these places of the training part."""
        chosen = self.train[indices]
        return self.x[chosen], self.y[chosen]
