"""CIFAR-10: 50,000 + 10,000 color pictures of 32 x 32 in 10 classes; the official archive."""

from typing import Any

from pydantic import Field

from dlbench.datasets import _cifar, _cifar_files
from dlbench.datasets._cifar import Edition
from dlbench.datasets._description import Description
from dlbench.datasets._writer import ArrayWriter
from dlbench.plugins import Options

EDITION = Edition(
    name="cifar10",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    archive_md5="c58f30108f718f92721af3b95e74349a",
    folder="cifar-10-batches-py",
    train=(
        ("data_batch_1", "c99cafc152244af753f735de768cd75f"),
        ("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
        ("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
        ("data_batch_4", "634d18415352ddfa80567beed471001a"),
        ("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
    ),
    test=(("test_batch", "40351d587109b95175f43aff81a1287e"),),
    meta=("batches.meta", "5ff9c542aee3614f3951f8cda6e48888"),
    labels=b"labels",
    label_names=b"label_names",
    keras_folder="cifar-10-batches-py-target",
)


class Cifar10Options(Options):
    """Where the files are."""

    path: str | None = Field(
        None,
        min_length=1,
        description="cifar-10-python.tar.gz or the folder of its batches; default: Keras's cache (KERAS_HOME or "
        "~/.keras, below datasets) or data in the current folder, and where there is nothing it is loaded (170 MB).",
    )


OPTIONS = Cifar10Options


def identity(options: Cifar10Options) -> dict[str, Any]:
    """Return the published checksum: nothing else is ever prepared, wherever it was found."""
    return {"md5": EDITION.archive_md5, "version": 1}


def describe(options: Cifar10Options) -> Description:
    """Return the published sizes; nothing is loaded for it."""
    if options.path is not None:
        _cifar_files.given(EDITION, options.path)
    return Description(_cifar.NUM_TRAIN, _cifar.NUM_VALIDATION, _cifar.SHAPE, 10)


def prepare(options: Cifar10Options, writer: ArrayWriter) -> None:
    """Write the pictures as uint8 [32, 32, 3]; the official test part is the validation part."""
    _cifar.write(EDITION, options.path, writer)
