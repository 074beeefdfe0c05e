import json

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.datasets import load_digits

from dlbench.datasets import _writer, digits, synthetic
from dlbench.errors import UserError

SMALL = {"num_samples": 60, "num_validation": 12, "shape": [4, 5], "num_classes": 3}
TOKENS = {"num_samples": 600, "num_validation": 60, "shape": [20], "num_classes": 3, "vocabulary": 301, "noise": 0.5}


def test_it_is_as_described(prepared):
    arrays = prepared.arrays("synthetic", **SMALL)
    description = synthetic.describe(synthetic.OPTIONS(**SMALL))
    assert arrays.x.shape == (description.num_train, *description.input_shape) == (60, 4, 5)
    assert arrays.validation_x.shape == (description.num_validation, 4, 5)
    assert arrays.num_classes == description.num_classes == 3
    assert arrays.x.dtype == np.float32
    assert list(np.bincount(arrays.y)) == [20, 20, 20]
    assert synthetic.describe(synthetic.OPTIONS()).num_validation is None
    identity = synthetic.identity(synthetic.OPTIONS(**SMALL))
    assert json.loads(json.dumps(identity)) == identity


def test_the_same_options_make_the_same_samples_whatever_the_pieces(prepared, monkeypatch, tmp_path):
    for options in (SMALL, TOKENS):
        with monkeypatch.context() as in_pieces:
            first = prepared.entry("synthetic", **options).meta.checksum
            in_pieces.setattr(_writer, "PIECE_BYTES", 100)
            in_pieces.setattr(synthetic, "PIECE_BYTES", 240)
            in_pieces.setattr(prepared, "cache", tmp_path / "other")
            assert prepared.entry("synthetic", **options).meta.checksum == first
            assert prepared.entry("synthetic", **options, seed=1).meta.checksum != first


def test_it_can_be_learned_from_one_part_for_the_other(prepared):
    arrays = prepared.arrays("synthetic", num_samples=600, num_validation=300, shape=[64], num_classes=5, noise=2.0)
    centres = np.stack([arrays.x[arrays.y == label].mean(axis=0) for label in range(5)])
    distances = ((arrays.validation_x[:, None] - centres) ** 2).sum(axis=-1)
    accuracy = np.mean(distances.argmin(axis=1) == arrays.validation_y)
    assert 0.9 < accuracy < 1.0
    assert not np.array_equal(arrays.x[:300], arrays.validation_x)


def test_it_enters_the_network_with_a_variance_of_one_and_without_noise_is_its_class_mean(prepared):
    arrays = prepared.arrays("synthetic", num_samples=500, shape=[400], noise=3.0)
    assert np.std(arrays.x * arrays.scale) == pytest.approx(1.0, abs=0.05)
    arrays = prepared.arrays("synthetic", num_samples=6, shape=[2], num_classes=3, noise=0)
    assert np.array_equal(arrays.x[:3], arrays.x[3:])


def test_with_a_vocabulary_samples_are_tokens(prepared):
    arrays = prepared.arrays("synthetic", **TOKENS)
    assert synthetic.describe(synthetic.OPTIONS(**TOKENS)).vocabulary == arrays.vocabulary == 301
    assert (arrays.x.shape, arrays.x.dtype, arrays.num_classes) == ((600, 20), np.int32, 3)
    assert list(np.bincount(arrays.y)) == [200, 200, 200]
    # Two thirds are words of the class, and a third of the others.
    assert np.mean(arrays.x % 3 == arrays.y[:, None]) == pytest.approx(2 / 3 + 1 / 9, abs=0.02)
    # Zipf's law: the first word is twice as frequent as the second, and ten times as frequent as the tenth.
    counts = np.bincount(arrays.x.ravel() // 3, minlength=100)
    assert counts[0] / counts[1] == pytest.approx(2, rel=0.15)
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.25)
    assert arrays.x.max() < 301


def test_a_batch_touches_less_of_a_larger_vocabulary(prepared):
    shares = []
    for vocabulary in (30, 300, 3_000, 30_000):
        x = prepared.arrays("synthetic", **TOKENS | {"vocabulary": vocabulary}).x[:32]
        shares.append(len(np.unique(x)) / vocabulary)
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.9
    assert shares[-1] < 0.02


IMPOSSIBLE = [
    {"vocabulary": 20},
    {"vocabulary": 2, "shape": [5], "num_classes": 3},
    {"vocabulary": 10, "shape": [5, 2], "num_classes": 3},
    {"num_samples": 5},
    {"num_classes": 1},
    {"shape": []},
    {"shape": [10**6, 10**6]},
    {"shape": [1, 1, 1, 1, 1]},
    {"noise": -1},
    {"noise": float("nan")},
]


def test_impossible_options_are_refused(prepared):
    for options in IMPOSSIBLE:
        with pytest.raises(ValidationError):
            synthetic.OPTIONS.model_validate(options)
        with pytest.raises(UserError, match=r"dataset\."):
            prepared.entry("synthetic", **options)


def test_digits_are_the_real_ones_and_as_described(prepared):
    arrays, real = prepared.arrays("digits"), load_digits()
    assert arrays.x.dtype == np.uint8
    assert np.array_equal(arrays.x[..., 0], real.images)
    assert np.array_equal(arrays.y, real.target)
    assert (arrays.x * arrays.scale + arrays.offset).max() == 1.0
    found = digits.describe(digits.OPTIONS())
    assert (found.num_train, found.num_validation, arrays.validation_x) == (len(arrays.y), None, None)
    assert found.input_shape == arrays.input_shape == arrays.x.shape[1:]
    assert found.num_classes == arrays.num_classes == len(set(real.target))
