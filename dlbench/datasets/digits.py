"""Handwritten digits: scikit-learn's 1,797 real images of 8 x 8 pixels in 17 grey levels; needs no download."""

from importlib.metadata import version
from typing import Any

import numpy as np

from dlbench.datasets import Description
from dlbench.datasets._writer import ArrayWriter
from dlbench.plugins import Options

OPTIONS = Options


def identity(options: Options) -> dict[str, Any]:
    """Return the version of the package that holds the images."""
    return {"scikit-learn": version("scikit-learn")}


def describe(options: Options) -> Description:
    """Return the known sizes; a test compares them with the images themselves."""
    return Description(num_train=1797, num_validation=None, input_shape=(8, 8, 1), num_classes=10)


def prepare(options: Options, writer: ArrayWriter) -> None:
    """Write the images as uint8 [8, 8, 1] from 0 to 16; they enter the network as 0 to 1."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    writer.describe(
        source="scikit-learn load_digits: test part of the UCI Optical Recognition of Handwritten Digits data set",
        class_names=tuple(str(name) for name in digits.target_names),
        scale=1 / 16,
        num_samples=len(digits.target),
    )
    writer.append(digits.images.astype(np.uint8)[..., np.newaxis], digits.target)
