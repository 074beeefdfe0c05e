"""What networks that flatten a sample into one vector ask of a data set."""

from dlbench.models import Samples


def refuse(samples: Samples) -> str:
    """Return why samples are no numbers with one class each, or ""."""
    if samples.vocabulary is not None:
        return "it takes numbers, not tokens: token 4 is not twice token 2; use lstm or transformer"
    if samples.target_shape:
        return f"it gives one class for each sample, not one at each of {list(samples.target_shape)} positions"
    return ""
