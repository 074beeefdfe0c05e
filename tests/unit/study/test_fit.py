import pytest

from dlbench.study.fit import RESOLUTION, grid_floor, largest


def tried(limit, most, parts=1):
    """Return what a search finds where sizes up to `limit` fit, and the sizes it tried."""
    sizes = []

    def fits(size):
        sizes.append(size)
        return size <= limit

    return largest(fits, most, parts), sizes


@pytest.mark.parametrize("limit", [1, 2, 7, 15, 16, 17, 23, 24, 31, 32, 33, 40, 63, 64, 100, 1000, 4095, 4096, 99_999])
def test_the_answer_fits_and_is_known_to_a_sixteenth(limit):
    found, sizes = tried(limit, 10**6)
    assert 0 < found <= limit
    assert found in sizes
    above = min(size for size in sizes if size > limit)
    assert above - found <= max(RESOLUTION * above, 8 if found >= 16 else 1)


@pytest.mark.parametrize("parts", [1, 3, 4, 5, 12])
@pytest.mark.parametrize("limit", [12, 60, 333, 5000])
def test_every_size_is_on_the_grid_and_is_tried_once(limit, parts):
    found, sizes = tried(limit, 10**5, parts)
    assert len(sizes) == len(set(sizes))
    for size in (found, *sizes):
        assert size % parts == 0
        assert size < 16 or size % 8 == 0 or size < 8 * parts


@pytest.mark.parametrize(("most", "expected"), [(5, 5), (16, 16), (20, 16), (31, 24), (32, 32), (1437, 1432)])
def test_no_size_above_the_samples_is_tried(most, expected):
    found, sizes = tried(10**9, most)
    assert found == expected
    assert max(sizes) <= most


def test_nothing_is_found_where_the_smallest_does_not_fit():
    assert tried(0, 1000) == (0, [32, 16, 8, 4, 2, 1])
    assert tried(3, 1000, parts=4)[0] == 0


def test_fewer_samples_than_parts_are_no_batch():
    assert tried(10**9, 3, parts=4) == (0, [])


def test_few_sizes_are_tried():
    assert len(tried(10_000, 10**6)[1]) <= 15


def test_the_answer_was_tried_and_fits_where_some_smaller_size_does_not():
    sizes = {}

    def fits(size):
        sizes[size] = size <= 700 and size not in range(300, 400)
        return sizes[size]

    assert sizes[largest(fits, 10**6)]


@pytest.mark.parametrize(
    ("size", "parts", "expected"), [(15, 1, 15), (16, 1, 16), (17, 1, 16), (100, 3, 96), (20, 3, 18), (2, 3, 0)]
)
def test_grid(size, parts, expected):
    assert grid_floor(size, parts) == expected
