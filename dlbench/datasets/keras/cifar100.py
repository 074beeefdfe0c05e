"""CIFAR-100 as Keras ships it: `cifar100` reads the same pictures from any place, without Keras."""

from typing import Any, Literal

from pydantic import Field

from dlbench.datasets._description import Description
from dlbench.datasets._writer import ArrayWriter
from dlbench.datasets.keras import _load
from dlbench.datasets.keras._pictures import Pictures
from dlbench.plugins import Options

NUM_CLASSES = {"fine": 100, "coarse": 20}


class Cifar100Options(Options):
    """Which classes."""

    labels: Literal["fine", "coarse"] = Field("fine", description="fine: the 100 classes; coarse: the 20 superclasses.")


OPTIONS = Cifar100Options


def identity(options: Cifar100Options) -> dict[str, Any]:
    """Return the version of Keras, which checks what it loads, and which classes are told."""
    return {**_load.identity(), "labels": options.labels}


def describe(options: Cifar100Options) -> Description:
    """Return the known sizes; nothing is loaded for it."""
    return _pictures(options).description


def prepare(options: Cifar100Options, writer: ArrayWriter) -> None:
    """Write the pictures as uint8; Keras's test part is the validation part. Keras knows no names of the classes."""
    _pictures(options).write(writer, label_mode=options.labels)


def _pictures(options: Cifar100Options) -> Pictures:
    names = tuple(str(number) for number in range(NUM_CLASSES[options.labels]))
    return Pictures(name="cifar100", shape=(32, 32, 3), class_names=names, num_train=50_000)
