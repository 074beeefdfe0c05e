"""CIFAR-100: 50,000 + 10,000 color pictures of 32 x 32 in 100 classes or 20 groups of them; the official archive."""

from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from dlbench.datasets import _cifar, _cifar_files
from dlbench.datasets._cifar import Edition
from dlbench.datasets._description import Description
from dlbench.datasets._writer import ArrayWriter
from dlbench.plugins import Options

EDITION = Edition(
    name="cifar100",
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    archive_md5="eb9058c3a382ffc7106e4002c42a8d85",
    folder="cifar-100-python",
    train=(("train", "16019d7e3df5f24257cddd939b257f8d"),),
    test=(("test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),),
    meta=("meta", "7973b15100ade9c7d40fb424638fde48"),
    labels=b"fine_labels",
    label_names=b"fine_label_names",
    keras_folder="cifar-100-python-target",
)
NUM_CLASSES = {"fine": 100, "coarse": 20}


class Cifar100Options(Options):
    """Where the files are, and which classes."""

    path: str | None = Field(
        None,
        min_length=1,
        description="cifar-100-python.tar.gz or the folder of its files; default: Keras's cache (KERAS_HOME or "
        "~/.keras, below datasets) or data in the current folder, and where there is nothing it is loaded (169 MB).",
    )
    labels: Literal["fine", "coarse"] = Field("fine", description="fine: the 100 classes; coarse: the 20 superclasses.")


OPTIONS = Cifar100Options


def identity(options: Cifar100Options) -> dict[str, Any]:
    """Return the published checksum and which classes are told."""
    return {"md5": EDITION.archive_md5, "labels": options.labels, "version": 1}


def describe(options: Cifar100Options) -> Description:
    """Return the published sizes; nothing is loaded for it."""
    if options.path is not None:
        _cifar_files.given(EDITION, options.path)
    return Description(_cifar.NUM_TRAIN, _cifar.NUM_VALIDATION, _cifar.SHAPE, NUM_CLASSES[options.labels])


def prepare(options: Cifar100Options, writer: ArrayWriter) -> None:
    """Write the pictures as uint8 [32, 32, 3]; the official test part is the validation part."""
    _cifar.write(labelled(EDITION, options.labels), options.path, writer)


def labelled(edition: Edition, labels: str) -> Edition:
    """Return an edition that tells the fine or the coarse classes."""
    return replace(edition, labels=f"{labels}_labels".encode(), label_names=f"{labels}_label_names".encode())
