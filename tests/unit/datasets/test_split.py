from dataclasses import replace

import numpy as np
import pytest

from dlbench.datasets._format import Arrays
from dlbench.datasets._split import split
from dlbench.errors import UserError


def arrays_of(y, validation_y=None) -> Arrays:
    y = np.asarray(y, dtype=np.int32)
    own = None if validation_y is None else np.asarray(validation_y, dtype=np.int32)
    return Arrays(
        x=np.zeros((len(y), 1)),
        y=y,
        validation_x=None if own is None else np.zeros((len(own), 1)),
        validation_y=own,
        scale=1.0,
        offset=0.0,
        class_names=(),
    )


def skewed(seed=0):
    """Return 1,000 labels of classes with 700, 200, 90 and 10 samples, in any order."""
    return np.random.default_rng(seed).permutation(np.repeat([0, 1, 2, 3], [700, 200, 90, 10]))


def test_the_seed_draws_validation_in_the_proportions_of_the_classes():
    y = skewed()
    found, again, other = (split(arrays_of(y), seed, 0.2) for seed in (7, 7, 8))
    assert found.validation_part == "train"
    assert sorted([*found.train, *found.validation]) == list(range(1000))
    assert list(np.bincount(y[found.validation])) == [140, 40, 18, 2]
    assert list(np.bincount(y[found.train])) == [560, 160, 72, 8]
    assert np.array_equal(found.train, again.train)
    assert not np.array_equal(found.validation, other.validation)


def test_split_is_the_same_in_every_version_of_numpy():
    # Written down once: a change of these numbers would change what every published study trained on.
    found = split(arrays_of(np.arange(20) % 2), seed=1, validation_fraction=0.2, train_samples=5)
    assert found.validation.tolist() == [2, 9, 16, 19]
    assert found.train.tolist() == [1, 5, 6, 7, 12]


def test_own_validation_part_is_used():
    found = split(arrays_of(skewed(), validation_y=[0, 1, 2, 3] * 5), seed=0, validation_fraction=0.2)
    assert found.validation_part == "validation"
    assert found.train.tolist() == list(range(1000))
    assert found.validation.tolist() == list(range(20))


def test_subset_is_stratified_within_one_sample_of_each_class():
    y = skewed()
    share = np.array([560, 160, 72, 8]) / 800
    for size in (1, 3, 10, 100, 799):
        found = split(arrays_of(y), seed=5, validation_fraction=0.2, train_samples=size, validation_samples=20)
        assert (len(found.train), len(found.validation)) == (size, 20)
        assert not set(found.train) & set(found.validation), size
        counts = np.bincount(y[found.train], minlength=4)
        assert np.all(np.abs(counts - size * share) <= 1), size


def test_larger_subset_contains_the_smaller_and_neither_is_the_first():
    arrays = arrays_of(skewed())
    small, large = (split(arrays, 2, 0.2, train_samples=size) for size in (50, 300))
    assert set(small.train) < set(large.train)
    assert np.array_equal(small.validation, large.validation)
    found = split(arrays_of(np.repeat([0, 1], 500), validation_y=[0, 1]), 4, 0.2, train_samples=100)
    assert found.train.tolist() != [*range(50), *range(500, 550)]
    assert np.all(np.diff(found.train) > 0)


def test_impossible_sizes_are_refused():
    for y, sizes, message in (
        (skewed(), {"train_samples": 801}, "train_samples is 801, but the data set has 800 training"),
        (skewed(), {"validation_samples": 201}, "validation_samples is 201, but the data set has 200 validation"),
        ([0], {}, "leaves none to train on"),
    ):
        with pytest.raises(UserError, match=message):
            split(arrays_of(y), 0, 0.2, **sizes)


def test_at_least_one_sample_validates():
    for num, fraction, expected in ((3, 0.01, 1), (1797, 0.2, 359), (2, 0.5, 1)):
        assert len(split(arrays_of(np.arange(num) % 2), 0, fraction).validation) == expected


def positions(num=100, length=4):
    return np.random.default_rng(0).integers(0, 5, (num, length)).astype(np.int32)


def test_numbers_to_predict_and_classes_at_each_position_are_split_by_a_plain_permutation():
    for y in (positions(), np.linspace(-1, 1, 100)):
        arrays = replace(arrays_of(np.arange(100)), y=y)
        found, other = split(arrays, 3, 0.2), split(arrays, 4, 0.2)
        assert (len(found.train), len(found.validation)) == (80, 20)
        assert sorted([*found.train, *found.validation]) == list(range(100))
        assert set(split(arrays, 3, 0.2, train_samples=50).train) < set(found.train)
        assert not np.array_equal(found.validation, other.validation)
    arrays = replace(arrays_of(np.arange(100), validation_y=[0]), y=positions(), validation_y=positions(7))
    found = split(arrays, 0, 0.2)
    assert (found.train.tolist(), found.validation.tolist()) == (list(range(100)), list(range(7)))
