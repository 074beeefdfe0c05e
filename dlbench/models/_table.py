"""The residual networks: one row each. Sizes and costs are for 10 classes, those of `resnet50` for 1000."""

from collections.abc import Mapping

from dlbench.models._residual import (
    ResidualNetwork,
    Resnet18Options,
    Resnet20Options,
    Resnet50Options,
    padded,
    projected,
)

TABLE: Mapping[str, ResidualNetwork] = {
    # The stem used for CIFAR, a 3x3 convolution without pooling, and four stages of two 3x3 convolutions a block; on
    # 32x32x3. `num_blocks` of [3, 4, 6, 3] gives ResNet-34.
    "resnet18": ResidualNetwork(
        doc="ResNet-18 for small images (He et al. 2016 with the stem used for CIFAR): 11,173,962 parameters, "
        "0.5554 GMAC.",
        OPTIONS=Resnet18Options,
        shortcut=projected,
    ),
    # `num_blocks` of 5, 7, 9 gives ResNet-32, 44, 56.
    "resnet20": ResidualNetwork(
        doc="ResNet-20 for small images (He et al. 2016, section 4.2): 269,722 parameters, 40.55 million MAC on "
        "32x32x3.",
        OPTIONS=Resnet20Options,
        shortcut=padded,
    ),
    # `num_blocks` of [3, 4, 23, 3] gives ResNet-101.
    "resnet50": ResidualNetwork(
        doc="ResNet-50 v1.5 (He et al. 2016, stride in the 3x3 convolution): 25,557,032 parameters, 4.089 GMAC at "
        "224x224x3.",
        OPTIONS=Resnet50Options,
        shortcut=projected,
        sizes=(1, 3, 1),
        expansion=4,
    ),
}
