"""Pictures that Keras loads: uint8, with Keras's test part for validation."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dlbench.datasets._description import Description
from dlbench.datasets._writer import ArrayWriter
from dlbench.datasets.keras import _load
from dlbench.datasets.keras._load import File


@dataclass(frozen=True)
class Pictures:
    """One data set of pictures.

    Attributes:
        name: Its name in Keras.
        shape: Shape of a picture: [height, width, channels].
        class_names: Names of the classes.
        num_train: Pictures of the training part.
        num_test: Pictures of the test part.
        files: Files whose checksums Keras does not look at.
    """

    name: str
    shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    num_train: int
    num_test: int = 10_000
    files: tuple[File, ...] = ()

    @property
    def description(self) -> Description:
        """What is known without loading anything."""
        return Description(self.num_train, self.num_test, self.shape, len(self.class_names))

    def write(self, writer: ArrayWriter, **arguments: Any) -> None:
        """Write the pictures as uint8; pixels enter the network as 0 to 1.

        Args:
            writer: Takes them.
            arguments: Of Keras's `load_data`.
        """
        train, test = _load.load(self.name, self.files, **arguments)
        writer.describe(
            source=f"keras.datasets.{self.name}; validation is its test part",
            class_names=self.class_names,
            scale=1 / 255,
            num_samples=len(train[0]) + len(test[0]),
        )
        for part, (x, y) in (("train", train), ("validation", test)):
            writer.append(np.asarray(x).reshape(-1, *self.shape), np.asarray(y).ravel(), part)
