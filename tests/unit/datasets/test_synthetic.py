import json

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.datasets import load_digits

from dlbench.datasets import _writer, digits, synthetic
from dlbench.errors import UserError

SMALL = {"num_samples": 60, "num_validation": 12, "shape": [4, 5], "num_classes": 3}


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
    first = prepared.entry("synthetic", **SMALL)
    monkeypatch.setattr(_writer, "PIECE_BYTES", 100)
    monkeypatch.setattr(synthetic, "PIECE_BYTES", 240)
    prepared.cache = tmp_path / "other"
    assert prepared.entry("synthetic", **SMALL).meta.checksum == first.meta.checksum
    assert prepared.entry("synthetic", **SMALL, seed=1).meta.checksum != first.meta.checksum


def test_it_can_be_learned_from_one_part_for_the_other(prepared):
    arrays = prepared.arrays("synthetic", num_samples=600, num_validation=300, shape=[64], num_classes=5, noise=2.0)
    centres = np.stack([arrays.x[arrays.y == label].mean(axis=0) for label in range(5)])
    distances = ((arrays.validation_x[:, None] - centres) ** 2).sum(axis=-1)
    accuracy = np.mean(distances.argmin(axis=1) == arrays.validation_y)
    assert 0.9 < accuracy < 1.0
    assert not np.array_equal(arrays.x[:300], arrays.validation_x)


def test_it_enters_the_network_with_a_variance_of_one(prepared):
    arrays = prepared.arrays("synthetic", num_samples=500, shape=[400], noise=3.0)
    assert np.std(arrays.x * arrays.scale) == pytest.approx(1.0, abs=0.05)


def test_without_noise_a_sample_is_its_class_mean(prepared):
    arrays = prepared.arrays("synthetic", num_samples=6, shape=[2], num_classes=3, noise=0)
    assert np.array_equal(arrays.x[:3], arrays.x[3:])


IMPOSSIBLE = [
    {"num_samples": 0},
    {"num_samples": 5},
    {"num_samples": True},
    {"num_classes": 1},
    {"shape": []},
    {"shape": [0]},
    {"shape": [10**6, 10**6]},
    {"shape": [1, 1, 1, 1, 1]},
    {"noise": -1},
    {"noise": float("nan")},
    {"noise": True},
    {"nois": 1},
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
