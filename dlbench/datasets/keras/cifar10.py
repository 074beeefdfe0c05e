"""CIFAR-10 as Keras ships it: `cifar10` reads the same pictures from any place, without Keras."""

from typing import Any

from dlbench.datasets._description import Description
from dlbench.datasets._writer import ArrayWriter
from dlbench.datasets.keras import _load
from dlbench.datasets.keras._pictures import Pictures
from dlbench.plugins import Options

PICTURES = Pictures(
    name="cifar10",
    shape=(32, 32, 3),
    class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    num_train=50_000,
)


class Cifar10Options(Options):
    """There is nothing to choose."""


OPTIONS = Cifar10Options


def identity(options: Cifar10Options) -> dict[str, Any]:
    """Return the version of Keras, which checks what it loads."""
    return _load.identity()


def describe(options: Cifar10Options) -> Description:
    """Return the known sizes; nothing is loaded for it."""
    return PICTURES.description


def prepare(options: Cifar10Options, writer: ArrayWriter) -> None:
    """Write the pictures as uint8; Keras's test part is the validation part."""
    PICTURES.write(writer)
