"""MNIST as Keras ships it: 60,000 + 10,000 handwritten digits of 28 x 28 pixels."""

from typing import Any

from dlbench.datasets._description import Description
from dlbench.datasets._writer import ArrayWriter
from dlbench.datasets.keras import _load
from dlbench.datasets.keras._pictures import Pictures
from dlbench.plugins import Options

PICTURES = Pictures(
    name="mnist",
    shape=(28, 28, 1),
    class_names=tuple("0123456789"),
    num_train=60_000,
)


class MnistOptions(Options):
    """There is nothing to choose."""


OPTIONS = MnistOptions


def identity(options: MnistOptions) -> dict[str, Any]:
    """Return the version of Keras, which checks what it loads."""
    return _load.identity()


def describe(options: MnistOptions) -> Description:
    """Return the known sizes; nothing is loaded for it."""
    return PICTURES.description


def prepare(options: MnistOptions, writer: ArrayWriter) -> None:
    """Write the pictures as uint8; Keras's test part is the validation part."""
    PICTURES.write(writer)
