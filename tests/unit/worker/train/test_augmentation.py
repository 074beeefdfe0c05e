import numpy as np

from dlbench.worker.train.augmentation import CropFlip, CropOffsets, draw


def pictures(n: int, height: int = 32, width: int = 32, channels: int = 3, dtype: str = "uint8") -> np.ndarray:
    return np.random.default_rng(0).integers(1, 255, (n, height, width, channels)).astype(dtype)


def plainly(x: np.ndarray, offsets: CropOffsets, padding: int) -> np.ndarray:
    """Crop and mirror one picture after the other, as it would be written down."""
    height, width = x.shape[1:3]
    found = []
    for one, row, column, mirrored in zip(x, offsets.row, offsets.column, offsets.mirrored, strict=True):
        padded = np.pad(one, ((padding, padding), (padding, padding), (0, 0)))
        cropped = padded[row : row + height, column : column + width]
        found.append(cropped[:, ::-1] if mirrored else cropped)
    return np.stack(found)


def test_it_is_what_padding_cropping_and_mirroring_one_by_one_gives() -> None:
    for dtype in ("uint8", "float32", "int16"):
        for height, width, channels, padding in ((32, 32, 3, 4), (5, 9, 1, 4), (8, 6, 2, 0)):
            x = pictures(200, height, width, channels, dtype)
            before, crop_flip = x.copy(), CropFlip(padding)
            for turn, num in ((1, 200), (1, 200), (2, 7)):  # the frame is kept between steps
                offsets = draw(3, np.array(turn), np.arange(num), padding)
                found = crop_flip(x[:num], offsets)
                assert found.dtype == x.dtype
                assert np.array_equal(found, plainly(x[:num], offsets, padding)), (dtype, height, turn)
            assert np.array_equal(x, before)


def test_what_is_returned_is_not_overwritten_by_the_next_step() -> None:
    crop_flip, x = CropFlip(4), pictures(10)
    first = crop_flip(x, draw(0, np.array(1), np.arange(10), 4))
    kept = first.copy()
    crop_flip(255 - x, draw(0, np.array(2), np.arange(10), 4))
    assert np.array_equal(first, kept)


def test_every_place_is_as_likely_as_any_other_and_independent_of_mirroring() -> None:
    num = 81 * 2 * 500
    offsets = draw(7, np.array(3), np.arange(num), 4)
    cells = (offsets.row * 9 + offsets.column) * 2 + offsets.mirrored
    counts = np.bincount(cells, minlength=162)
    assert len(counts) == 162
    chi_square = ((counts - 500) ** 2 / 500).sum()
    # 161 degrees of freedom: mean 161, standard deviation 17.9; the seed is fixed, so this never flickers.
    assert 90 < chi_square < 240


def test_seed_turn_and_sample_each_change_what_is_drawn() -> None:
    arguments = {"seed": 7, "turns": np.array(3), "samples": np.arange(1000), "padding": 4}
    first = draw(**arguments)  # type: ignore[arg-type]
    assert np.array_equal(first.row, draw(**arguments).row)  # type: ignore[arg-type]
    for other in ({"seed": 8}, {"turns": np.array(4)}, {"samples": np.arange(1000) + 1000}):
        second = draw(**arguments | other)  # type: ignore[arg-type]
        for name in ("row", "column", "mirrored"):
            assert abs(np.corrcoef(getattr(first, name), getattr(second, name))[0, 1]) < 0.12, (other, name)


def test_it_is_the_same_in_every_version() -> None:
    # Written down once: a change of these numbers would change what every published study trained on.
    offsets = draw(1, np.array(2), np.array([0, 1, 49_999]), 4)
    assert (offsets.row.tolist(), offsets.column.tolist(), offsets.mirrored.tolist()) == (
        [0, 7, 2],
        [1, 1, 8],
        [False, True, False],
    )


def test_turns_may_differ_from_sample_to_sample() -> None:
    joined = draw(5, np.array([1, 1, 2, 2]), np.array([10, 11, 10, 11]), 4)
    apart = [draw(5, np.array(turn), np.array([10, 11]), 4) for turn in (1, 2)]
    assert joined.row.tolist() == [*apart[0].row, *apart[1].row]
    assert joined.mirrored.tolist() == [*apart[0].mirrored, *apart[1].mirrored]
