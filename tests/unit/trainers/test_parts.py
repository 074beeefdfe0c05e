"""How a batch is cut."""

import pytest

from dlbench.errors import UserError
from dlbench.trainers._parts import cut


@pytest.mark.parametrize(("num_samples", "num_parts"), [(12, 1), (12, 3), (13, 4), (7, 7), (1000, 7)])
def test_parts_follow_each_other_and_are_nearly_equal(num_samples: int, num_parts: int) -> None:
    parts = cut(num_samples, num_parts)
    assert len(parts) == num_parts
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(num_samples))
    sizes = {part.stop - part.start for part in parts}
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1


def test_a_part_without_a_sample_is_refused() -> None:
    with pytest.raises(UserError, match="a batch of 3 samples cannot be computed in 4 parts"):
        cut(3, 4)
