"""What all networks for pictures ask of a data set."""

from dlbench.models import Samples


def refuse(samples: Samples, smallest: int, why: str) -> str:
    """Return why samples are no pictures with one class each of at least `smallest` pixels a side, or ""."""
    shape = list(samples.input_shape)
    if samples.vocabulary is not None:
        return "it takes images, not tokens"
    if len(shape) != 3:
        return f"it takes images [height, width, channels], not samples of shape {shape}"
    if samples.target_shape:
        return f"it gives one class for each image, not one at each of {list(samples.target_shape)} positions"
    if min(shape[:2]) < smallest:
        return f"{why} at least {smallest}x{smallest} pixels"
    return ""
