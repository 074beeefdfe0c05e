"""Fashion-MNIST as Keras ships it: 60,000 + 10,000 pictures of clothes, 28 x 28 pixels, in 10 classes."""

from typing import Any

from dlbench.datasets._description import Description
from dlbench.datasets._writer import ArrayWriter
from dlbench.datasets.keras import _load
from dlbench.datasets.keras._load import File
from dlbench.datasets.keras._pictures import Pictures
from dlbench.plugins import Options

FOLDER = "datasets/fashion-mnist"
# As its authors publish them: https://github.com/zalandoresearch/fashion-mnist.
MD5 = {
    "train-images-idx3": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1": "bb300cfdad3c16e7a12a480ee83cd310",
}
PICTURES = Pictures(
    name="fashion_mnist",
    shape=(28, 28, 1),
    class_names=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    num_train=60_000,
    files=tuple(
        File(f"https://storage.googleapis.com/tensorflow/tf-keras-datasets/{name}-ubyte.gz", md5, FOLDER)
        for name, md5 in MD5.items()
    ),
)


class FashionMnistOptions(Options):
    """There is nothing to choose."""


OPTIONS = FashionMnistOptions


def identity(options: FashionMnistOptions) -> dict[str, Any]:
    """Return the version of Keras, whose loader orders the samples."""
    return _load.identity()


def describe(options: FashionMnistOptions) -> Description:
    """Return the known sizes; nothing is loaded for it."""
    return PICTURES.description


def prepare(options: FashionMnistOptions, writer: ArrayWriter) -> None:
    """Write the pictures as uint8; Keras's test part is the validation part."""
    PICTURES.write(writer)
