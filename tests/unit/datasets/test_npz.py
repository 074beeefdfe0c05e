"""A .npz file: its arrays by the names that people give them, with clear words where they are not there."""

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from dlbench.datasets import _writer, npz
from dlbench.errors import UserError
from tests.unit.datasets import npz_files
from tests.unit.datasets.npz_files import BYTES, CLASSES, DAMAGES, FLOATS

# Far more than any file here has, far less than their headers claim.
MOST_BYTES = 16 * 2**20


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


# Samples, the option, the scale and a part of what is said.
SCALES = {
    "pictures": (BYTES, {}, 1 / 255, "bytes enter the network as x/255 (`dataset.scale_bytes: false` leaves"),
    "pixels in rows": (BYTES.reshape(30, 64), {}, 1 / 255, "x/255"),
    "tokens": (BYTES.reshape(30, 64), {"scale_bytes": False}, 1, f"bytes of 0 to {BYTES.max()} are not scaled"),
    "0 and 1": (BYTES.reshape(30, 64) % 2, {}, 1, ""),
    "bool": (BYTES > 3, {}, 1, ""),
    "whole numbers": (BYTES.astype(np.int16), {}, 1, ""),
}


def test_bytes_enter_the_network_as_0_to_1_unless_all_are_0_and_1_or_an_option_leaves_them(prepared, here, subtests):
    for name, (x, options, scale, words) in SCALES.items():
        with subtests.test(samples=name):
            options = {"path": saved(here, x=x, y=CLASSES), **options}
            assert prepared.arrays("npz", **options).scale == scale
            for line in (prepared.said[-1], npz.verify(npz.OPTIONS(**options))):
                assert words in line
                assert ("bytes " in line) == bool(words)


def test_samples_without_a_validation_part_are_compared_with_no_others(prepared, here, monkeypatch):
    monkeypatch.setattr(_writer, "hash", Mock(side_effect=AssertionError), raising=False)
    assert len(prepared.arrays("npz", path=saved(here, x=FLOATS, y=CLASSES)).x) == 30


def test_a_part_of_its_own_validates(prepared, here):
    path = saved(here, x_train=FLOATS[:20], y_train=CLASSES[:20], x_test=FLOATS[20:], y_test=CLASSES[20:])
    found = prepared.arrays("npz", path=path)
    assert (len(found.x), len(found.validation_x)) == (20, 10)
    described = npz.describe(npz.OPTIONS(path=path))
    assert (described.num_train, described.num_validation, described.input_shape) == (20, 10, (5,))
    assert described.num_classes == found.num_classes == 3
    named = prepared.arrays("npz", path=path, x="x_test", y="y_test")
    assert (len(named.x), named.validation_x) == (10, None)
    path = saved(here, arr_0=FLOATS[:20], arr_1=CLASSES[:20], arr_2=FLOATS[20:], arr_3=CLASSES[20:])
    names = dict(zip(("x", "y", "validation_x", "validation_y"), (f"arr_{number}" for number in range(4)), strict=True))
    named = prepared.arrays("npz", path=path, **names)
    assert (len(named.x), len(named.validation_x)) == (20, 10)
    with pytest.raises(UserError, match="name both"):
        npz.describe(npz.OPTIONS(path=path, **names | {"validation_y": None}))


# Names of arrays as people write them: all in the file, those that validate, and those that are not used.
NAMES = {
    "X_train y_train X_test y_test": ("X_test y_test", ""),
    "X y X_test y_test": ("X_test y_test", ""),
    "x_train y_train x_test y_test x_val y_val": ("x_val y_val", "'x_test', 'y_test'"),
    "train_images train_labels val_images val_labels test_images test_labels": (
        "val_images val_labels",
        "'test_images', 'test_labels'",
    ),
    "xtrain ytrain xtest ytest": ("xtest ytest", ""),
    "trainX trainY testX testY": ("testX testY", ""),
    "Xtr ytr Xte yte": ("Xte yte", ""),
    "x_train y_train x_tst y_tst": ("x_tst y_tst", ""),
    "data target": ("", ""),
    "x y x_test": ("", "'x_test'"),
    "arr_0 arr_1": ("", ""),
}


def test_names_of_arrays_tell_samples_classes_and_parts(here, subtests):
    for names, (validation, unused) in NAMES.items():
        with subtests.test(names=names):
            arrays = dict(zip(names.split(), (FLOATS, CLASSES) * 3, strict=False))
            arrays |= dict(zip(validation.split(), (FLOATS[:9], CLASSES[:9]), strict=False))
            options = npz.OPTIONS(path=saved(here, **arrays))
            described, said = npz.describe(options), npz.verify(options)
            assert (described.num_train, described.num_validation) == (30, 9 if validation else None)
            assert ("not used" in said, unused in said) == (bool(unused), True)
    path = saved(here, X_train=FLOATS, y_train=CLASSES, X_test=FLOATS[:9], y_test=CLASSES[:9])
    assert npz.describe(npz.OPTIONS(path=path, x="X_train", y="y_train")).num_validation == 9


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
        ("one.npy", "np.savez"),
        ("pipe.npz", "it is a pipe"),
    ):
        with subtests.test(path=path), pytest.raises(UserError) as caught:
            prepared.arrays("npz", path=path)
        assert said in str(caught.value)


def test_arrays_that_cannot_be_samples_are_refused(here):
    for arrays, options, message in (
        ({"a": FLOATS, "b": CLASSES}, {}, "has a, b, neither x and y"),
        ({"a": FLOATS, "b": CLASSES}, {"x": "a", "y": "c"}, "has no array 'c'; it has a, b"),
        ({"x": FLOATS, "y": CLASSES[:9]}, {}, "30 samples but y in .* has 9"),
        ({"x1": FLOATS, "x2": FLOATS, "y": CLASSES}, {}, "neither x and y"),
        ({"x_train": FLOATS, "train_x": FLOATS, "a": CLASSES}, {}, "neither x and y"),
    ):
        with pytest.raises(UserError, match=message):
            npz.describe(npz.OPTIONS(path=saved(here, **arrays), **options))


def test_the_content_identifies_it_not_the_place(here):
    path = saved(here, x=FLOATS, y=CLASSES)
    first = npz.identity(npz.OPTIONS(path=path))
    moved = here / "elsewhere.npz"
    moved.write_bytes(Path(path).read_bytes())
    assert npz.identity(npz.OPTIONS(path=str(moved))) == first
    assert npz.identity(npz.OPTIONS(path=saved(here, x=FLOATS + 1, y=CLASSES))) != first


def refusal(function: Callable[[], object]) -> str:
    try:
        function()
    except UserError as error:
        return error.message.removeprefix("data set 'npz': ")
    return ""


def verify_refusal(path: Path) -> str:
    return refusal(lambda: npz.verify(npz.OPTIONS(path=str(path))))


def prepare_refusal(prepared, path: Path) -> str:
    return refusal(lambda: prepared.entry("npz", path=str(path)))


def test_whatever_is_damaged_is_one_message_and_check_says_what_run_says(prepared, tmp_path, subtests):
    path = tmp_path / "d.npz"
    for name, make in DAMAGES.items():
        make(path)
        with subtests.test(damage=name):
            tracemalloc.start()
            try:
                found = verify_refusal(path)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert str(path) in found
            assert prepare_refusal(prepared, path) == found
            assert peak < MOST_BYTES


DATES = CLASSES.astype("datetime64[s]")
STRUCTURED = np.zeros(30, [("a", "f4"), ("b", "f4")])
# Arrays that are refused, by what is wrong; see `test_writer.py` for others.
REFUSED = {
    "numbers to predict of two columns": (FLOATS, FLOATS[:, :2]),
    "classes beyond int64": (FLOATS, CLASSES.astype(np.uint64) + np.uint64(2**63)),
    "classes as objects": (FLOATS, CLASSES.astype(object)),
    "classes from 1": (FLOATS, CLASSES + 1),
    "one-hot with two": (FLOATS, np.ones((30, 3))),
    "classes of three axes": (FLOATS, CLASSES.reshape(30, 1, 1)),
    "one class alone": (FLOATS, np.int64(2)),
    "one sample alone": (np.float32(3), CLASSES),
    "NaN in Fortran order": (np.asfortranarray(np.where(FLOATS > 1, np.nan, FLOATS)), CLASSES),
    "bytes of text": (FLOATS.astype("S8"), CLASSES),
    "objects": (FLOATS.astype(object), CLASSES),
    "structured": (STRUCTURED, CLASSES),
}


def test_arrays_that_cannot_be_trained_on_are_refused_alike_before_and_at_preparing(prepared, tmp_path, subtests):
    for name, (x, y) in REFUSED.items():
        for pair in (("x", "y"), ("x_test", "y_test")):
            arrays = {"x": FLOATS, "y": CLASSES} if pair == ("x_test", "y_test") else {}
            if arrays and name == "classes from 1":
                continue  # wrong only in a training part
            path = Path(saved(tmp_path, **arrays, **{pair[0]: x, pair[1]: y}))
            with subtests.test(wrong=name, names=pair):
                found = verify_refusal(path)
                assert found
                assert prepare_refusal(prepared, path) == found


def test_what_makes_classes_of_other_labels_is_in_the_hint(tmp_path, subtests):
    for labels, hint in (
        (CLASSES.astype(str), "return_inverse"),
        (CLASSES * 2 - 1, "return_inverse"),
        (CLASSES > 0, "astype(int)"),
        (CLASSES.astype(float), "astype(int)"),
        (np.ones((30, 3), int), "several labels of a sample"),
    ):
        with subtests.test(labels=labels[:3]), pytest.raises(UserError) as caught:
            npz.describe(npz.OPTIONS(path=saved(tmp_path, x=FLOATS, y=labels)))
        assert hint in caught.value.hint


def test_targets_of_a_floating_type_with_fractions_are_numbers_to_predict(prepared, tmp_path):
    numbers = FLOATS[:, 0] * 3
    for dtype, shape in (("float32", (30,)), ("float64", (30,)), ("float32", (30, 1))):
        path = saved(tmp_path, x=FLOATS, y=numbers.astype(dtype).reshape(shape), x_test=FLOATS[:2], y_test=[1.0, 2.0])
        assert npz.describe(npz.OPTIONS(path=path)).num_classes == 0
        assert "a regression" in npz.verify(npz.OPTIONS(path=path))
        arrays = prepared.arrays("npz", path=path)
        assert np.array_equal(arrays.y, numbers.astype(dtype))
        # Whole numbers are no classes where the training part has fractions.
        assert arrays.validation_y.tolist() == [1.0, 2.0]
        assert (arrays.y.dtype, arrays.validation_y.dtype, arrays.num_classes) == (np.float64, np.float64, 0)


def test_classes_that_no_training_sample_has_are_reported_or_refused(prepared, tmp_path):
    path = saved(tmp_path, x=FLOATS, y=CLASSES * 2)
    assert "2 of 5 classes have no sample: 1, 3" in npz.verify(npz.OPTIONS(path=path))
    prepared.entry("npz", path=path)
    assert any("2 of 5 classes" in line for line in prepared.said)
    path = saved(tmp_path, x=FLOATS, y=CLASSES, x_test=FLOATS, y_test=CLASSES * 2)
    assert "does not have: 4" in verify_refusal(path)
    assert prepare_refusal(prepared, path) == verify_refusal(path)


def test_sound_arrays_of_any_order_and_type_are_read_as_numpy_reads_them(prepared, tmp_path, monkeypatch, subtests):
    monkeypatch.setattr(npz, "PIECE_BYTES", 100)  # several pieces, and rows beyond a piece
    cases = {
        "Fortran": (np.asfortranarray(FLOATS), CLASSES),
        "big endian": (FLOATS.astype(">f8"), CLASSES.astype(">i2")),
        "bool": (FLOATS > 0, CLASSES.astype(np.uint8)),
        "one-hot in Fortran order": (BYTES, np.asfortranarray(np.eye(3)[CLASSES])),
        "rows longer than a piece": (np.tile(FLOATS, 9), np.eye(3, dtype=bool)[CLASSES]),
        "gaps in classes": (FLOATS, CLASSES * 2),
    }
    for name, (x, y) in cases.items():
        for save in (np.savez, np.savez_compressed):
            save(tmp_path / "d.npz", x=x, y=y)
            with subtests.test(case=name, save=save.__name__):
                arrays = prepared.arrays("npz", path=str(tmp_path / "d.npz"))
                assert np.array_equal(arrays.x.reshape(x.shape), x)
                assert np.array_equal(arrays.y, y if y.ndim == 1 else y.argmax(axis=1))
                assert npz.verify(npz.OPTIONS(path=str(tmp_path / "d.npz"))).endswith("all samples were read")


def test_random_damage_is_refused_alike_or_read_alike(tmp_path, prepared):
    random, path = np.random.default_rng(0), tmp_path / "d.npz"
    outcomes = []
    for compressed in (False, True):
        npz_files.saved(path, compressed)
        good = np.frombuffer(path.read_bytes(), np.uint8)
        for _ in range(40):
            bad = good.copy()
            bad[random.integers(0, len(bad), random.integers(1, 4))] = random.integers(0, 256)
            path.write_bytes(bad[: len(bad) - random.integers(0, 2) * random.integers(0, 60)].tobytes())
            outcomes.append(verify_refusal(path))
            assert prepare_refusal(prepared, path) == outcomes[-1]
    assert 50 < sum(map(bool, outcomes)) < len(outcomes)


def test_of_a_huge_file_the_first_samples_and_all_classes_are_verified(tmp_path, prepared, monkeypatch):
    monkeypatch.setattr(npz, "VERIFIED_BYTES", 200)
    monkeypatch.setattr(npz, "PIECE_BYTES", 100)
    late, early = FLOATS.copy(), FLOATS.copy()
    early[4, 0] = late[-1, 0] = np.nan
    for x, is_seen in ((early, True), (late, False)):
        path = Path(saved(tmp_path, x=x, y=CLASSES))
        assert bool(verify_refusal(path)) is is_seen
        assert "not finite" in prepare_refusal(prepared, path)
    assert "'x' (0.0 GB) and all classes" in npz.verify(npz.OPTIONS(path=str(path)))
