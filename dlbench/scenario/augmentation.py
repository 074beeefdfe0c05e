"""Which samples can be augmented: pictures that are larger than the border added to them."""

from typing import Protocol

from dlbench.scenario.settings import Augmentation, Input, Settings


class Samples(Protocol):
    """What is asked of a data set; see `dlbench.datasets._description.Description`."""

    @property
    def input_shape(self) -> tuple[int, ...] | None:
        """Shape of one sample; None where only preparing tells."""

    @property
    def vocabulary(self) -> int | None:
        """Number of different tokens, where samples are tokens."""


def refuse(settings: Settings, samples: Samples | None) -> str:
    """Return why a run's pictures cannot be augmented as it asks for, or an empty string.

    Args:
        settings: The run's settings.
        samples: What is known of its data set, or None.
    """
    if settings.augmentation is Augmentation.NONE:
        return ""
    if settings.input is Input.SYNTHETIC:
        return f"augmentation {settings.augmentation} changes pictures that are read; input synthetic reads none"
    if samples is None or samples.input_shape is None:
        return ""
    return not_pictures(samples.input_shape, samples.vocabulary, settings.augmentation_padding)


def not_pictures(shape: tuple[int, ...], vocabulary: int | None, padding: int) -> str:
    """Return why samples of this shape cannot be cropped and mirrored, or an empty string.

    Args:
        shape: Shape of one sample.
        vocabulary: Number of different tokens, where samples are tokens.
        padding: Pixels added on each side.
    """
    if len(shape) != 3 or vocabulary is not None:
        return f"augmentation crop-flip needs pictures [height, width, channels], not samples of shape {list(shape)}"
    if padding >= min(shape[:2]):
        return f"augmentation_padding {padding} is not less than the pictures' size, {shape[0]} x {shape[1]}"
    return ""
