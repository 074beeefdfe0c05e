"""A .npz file: its arrays by the names that people give them, with clear words where they are not there."""

import os
from pathlib import Path

import numpy as np
import pytest

from dlbench.datasets import npz
from dlbench.errors import UserError

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (30, 8, 8)).astype(np.uint8)
FLOATS = RNG.normal(size=(30, 5)).astype(np.float32)
CLASSES = np.arange(30) % 3


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def saved(folder: Path, **arrays: np.ndarray) -> str:
    np.savez(folder / "my data.npz", **arrays)
    return str(folder / "my data.npz")


def test_bytes_are_images_with_a_channel_and_floats_are_as_they_are(prepared, here):
    found = prepared.arrays("npz", path=saved(here, x=BYTES, y=CLASSES[:, np.newaxis]))
    assert found.input_shape == (8, 8, 1)
    assert np.array_equal(found.x[..., 0], BYTES)
    assert np.array_equal(found.y, CLASSES)
    assert found.scale == 1 / 255
    floats = prepared.arrays("npz", path=saved(here, images=FLOATS, labels=CLASSES))
    assert np.array_equal(floats.x, FLOATS)
    assert floats.scale == 1


def test_a_part_of_its_own_validates(prepared, here):
    path = saved(here, x_train=FLOATS[:20], y_train=CLASSES[:20], x_test=FLOATS[20:], y_test=CLASSES[20:])
    found = prepared.arrays("npz", path=path)
    assert (len(found.x), len(found.validation_x)) == (20, 10)
    described = npz.describe(npz.OPTIONS(path=path))
    assert (described.num_train, described.num_validation, described.input_shape) == (20, 10, (5,))
    assert described.num_classes == found.num_classes == 3
    named = prepared.arrays("npz", path=path, x="x_test", y="y_test")
    assert (len(named.x), named.validation_x) == (10, None)


def test_one_hot_rows_are_classes(prepared, here):
    path = saved(here, x=FLOATS, y=np.eye(3, dtype=np.float32)[CLASSES])
    assert np.array_equal(prepared.arrays("npz", path=path).y, CLASSES)
    assert npz.describe(npz.OPTIONS(path=path)).num_classes == 3
    with pytest.raises(UserError, match="one class number for each sample"):
        prepared.arrays("npz", path=saved(here, x=FLOATS, y=np.eye(3)[CLASSES] * 2))


def test_a_file_that_is_none_is_said(prepared, here, subtests):
    os.mkfifo(here / "pipe.npz")
    (here / "text.npz").write_text("no zip")
    np.save(here / "one.npy", FLOATS)
    for path, said in (
        ("tex.npz", "did you mean 'text.npz'"),
        ("text.npz", "cannot be read"),
        ("one.npy", "one array"),
        ("pipe.npz", "it is a pipe"),
    ):
        with subtests.test(path=path), pytest.raises(UserError) as caught:
            prepared.arrays("npz", path=path)
        assert said in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "options", "said"),
    [
        ({"a": FLOATS, "b": CLASSES}, {}, "has a, b, neither x and y"),
        ({"a": FLOATS, "b": CLASSES}, {"x": "a", "y": "c"}, "has no array 'c'; it has a, b"),
        ({"x": FLOATS, "y": CLASSES[:9]}, {}, "30 samples but y has 9"),
        ({"x": np.array([{}, {}]), "y": np.array([0, 1])}, {}, "cannot be read"),
    ],
)
def test_arrays_that_cannot_be_samples_are_refused(prepared, here, arrays, options, said):
    with pytest.raises(UserError, match=said):
        prepared.arrays("npz", path=saved(here, **arrays), **options)


def test_the_content_identifies_it_not_the_place(here):
    path = saved(here, x=FLOATS, y=CLASSES)
    first = npz.identity(npz.OPTIONS(path=path))
    moved = here / "elsewhere.npz"
    moved.write_bytes(Path(path).read_bytes())
    assert npz.identity(npz.OPTIONS(path=str(moved))) == first
    assert npz.identity(npz.OPTIONS(path=saved(here, x=FLOATS + 1, y=CLASSES))) != first
