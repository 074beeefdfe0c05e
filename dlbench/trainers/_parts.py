"""A batch in parts that are computed one after the other."""

from itertools import pairwise

from dlbench.errors import UserError


def cut(num_samples: int, num_parts: int) -> list[slice]:
    """Return the parts of a batch, whose sizes differ by one at most.

    Raises:
        UserError: There are more parts than samples.
    """
    if num_parts > num_samples:
        raise UserError(
            f"a batch of {num_samples} samples cannot be computed in {num_parts} parts",
            hint="lower gradient_accumulation_steps, or use a larger batch",
        )
    ends = [num_samples * part // num_parts for part in range(num_parts + 1)]
    return [slice(*part) for part in pairwise(ends)]
