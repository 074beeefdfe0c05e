import numpy as np
from sklearn.datasets import load_digits

from dlbench.datasets import digits


def test_digits_are_the_real_ones_and_as_described(prepared):
    arrays = prepared.arrays("digits")
    real = load_digits()
    assert arrays.x.dtype == np.uint8
    assert np.array_equal(arrays.x[..., 0], real.images)
    assert np.array_equal(arrays.y, real.target)
    assert (arrays.x * arrays.scale + arrays.offset).max() == 1.0
    description = digits.describe(digits.OPTIONS())
    assert description.num_train == len(arrays.y)
    assert description.num_validation is None
    assert arrays.validation_x is None
    assert description.input_shape == arrays.input_shape == arrays.x.shape[1:]
    assert description.num_classes == arrays.num_classes == len(set(real.target))
