"""What compressors promise: nothing is lost, all is exact where nothing is left out, and the packing is right."""

import numpy as np
import pytest

from dlbench import plugins
from dlbench.compressors import low_rank, threshold, top_k
from dlbench.scenario.settings import Settings

# Name, options.
ENCODING = [
    ("threshold", {"threshold": 0.3}),
    ("threshold", {"threshold": 0.3, "entropy_coded": True}),
    ("top_k", {"density": 0.07}),
    ("top_k", {"density": 0.01, "warmup_steps": 8}),
    ("half", {"format": "bfloat16"}),
    ("half", {"format": "float16"}),
    ("eight_bit", {"values_per_unit": 10}),
]
SIZES = [1, 7, 1003, 70_001]


def made(name, options, size, dtype="float64", scale=1.0):
    plugin = plugins.load("compressors", name)
    return plugin.get("create")(plugin.options(**options), size, np.dtype(dtype), scale)


def gradients(size, steps=12, dtype="float64", seed=0):
    random = np.random.default_rng([seed, size])
    return [random.standard_normal(size).astype(dtype) * random.lognormal() for _ in range(steps)]


def decoded(compressor, payload, size, dtype="float64"):
    out = np.zeros(size, dtype)
    compressor.decode(payload, out)
    return out


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "options"), ENCODING)
def test_what_was_sent_and_what_remains_are_the_sum_of_gradients(name, options, size):
    compressor, sent = made(name, options, size), np.zeros(size)
    for gradient in gradients(size):
        given = gradient.copy()
        compressor.decode(compressor.encode(gradient), sent)
        assert np.array_equal(gradient, given)
    total = np.sum(gradients(size), axis=0)
    remaining = compressor.state()["residual"]
    assert np.abs(sent + remaining - total).max() <= 1e-15 * 12 * np.abs(gradients(size)).max()
    assert sent.any() or size == 1


@pytest.mark.parametrize(("name", "options"), ENCODING)
def test_another_worker_reads_the_same(name, options):
    compressor, other = (made(name, options, 1003, scale=0.5) for _ in range(2))
    for gradient in gradients(1003, steps=3):
        payload = compressor.encode(gradient)
        assert payload.dtype == np.uint8
        assert payload.size != 1
        assert np.array_equal(decoded(other, payload, 1003), decoded(compressor, payload, 1003))


def test_a_threshold_is_that_of_the_mean_gradient_however_many_workers_share_a_sum():
    gradient = np.array([0.2, -0.1, 0.0, 0.16])
    compressor = made("threshold", {"threshold": 0.6}, 4, scale=0.25)
    assert np.array_equal(decoded(compressor, compressor.encode(gradient), 4), [0.15, 0, 0, 0.15])
    # A value far above it is sent step after step; what remains may stay above it.
    far = made("threshold", {"threshold": 1.0}, 1)
    sent = [decoded(far, far.encode(np.array([value])), 1)[0] for value in (3.5, 0.0, 0.0, 0.0)]
    assert sent == [1, 1, 1, 0]


def test_words_hold_places_of_31_bits():
    places = np.array([0, 5, 2**31 - 1])
    words = threshold.pack(places, np.array([True, False, True]))
    assert words.tolist() == [2**31, 5, 2**32 - 1]
    with pytest.raises(ValueError, match="does not fit into 31 bits"):
        threshold.pack(np.array([2**31]), np.array([False]))


@pytest.mark.parametrize("places", [[], [0], [2**31 - 1], [0, 2**31 - 1], range(100), [3, 4, 900, 901, 70_000]])
def test_gaps_come_back_from_their_codes(places):
    is_negative = np.arange(len(places)) % 3 == 0
    payload = threshold.rice_encode(np.array(places, np.uint32), is_negative)
    back, signs = threshold.rice_decode(payload)
    assert np.array_equal(back, np.array(places, np.int64))
    assert np.array_equal(signs, is_negative)


def test_codes_of_random_gaps_are_near_their_entropy():
    random = np.random.default_rng(3)
    for density in (0.3, 0.01, 0.0005):
        places = np.flatnonzero(random.random(10**6) < density).astype(np.uint32)
        bits = 8 * threshold.rice_encode(places, random.random(len(places)) < 0.5).size / len(places)
        entropy = 1 - (density * np.log2(density) + (1 - density) * np.log2(1 - density)) / density
        assert entropy <= bits < entropy + 0.25, density


@pytest.mark.parametrize(("size", "count"), [(1, 1), (10, 3), (10, 10), (70_001, 1), (70_001, 700), (70_001, 65_000)])
def test_the_largest_values_are_found(size, count):
    values = np.random.default_rng(size).standard_normal(size)
    places = top_k.largest(values, count)
    assert places.tolist() == sorted(np.argsort(-np.abs(values), kind="stable")[:count].tolist())


def test_of_equal_values_the_first_are_taken():
    assert top_k.largest(np.array([1.0, -2.0, 2.0, 2.0, 0.0]), 2).tolist() == [1, 2]
    assert top_k.largest(np.zeros(100_000), 5).tolist() == [0, 1, 2, 3, 4]
    mostly_zero = np.zeros(100_000)
    mostly_zero[77_777] = 1.0
    assert top_k.largest(mostly_zero, 2).tolist() == [0, 77_777]


def test_the_density_falls_in_stages():
    compressor = made("top_k", {"density": 0.25 / 4**4, "warmup_steps": 8}, 4**6)
    counts = [compressor.encode(gradient).size // 12 for gradient in gradients(4**6, steps=10)]
    assert counts == [1024, 1024, 256, 256, 64, 64, 16, 16, 4, 4]


def test_momentum_goes_on_in_what_is_not_yet_sent_and_is_forgotten_in_what_is():
    compressor = made("top_k", {"density": 0.2, "momentum": 0.5}, 5)
    small, large = np.array([0, 0, 0, 0, 1.0]), np.array([100.0, 0, 0, 0, 0])
    sent = [decoded(compressor, compressor.encode(gradient), 5)[0] for gradient in (small + large, large, large)]
    assert sent == [100.0, 100.0, 100.0]
    assert compressor.state()["residual"].tolist() == [0, 0, 0, 0, 1 + 0.5 + 0.25]
    assert compressor.state()["velocity"].tolist() == [0, 0, 0, 0, 0.25]


def test_momentum_takes_the_place_of_the_optimizers():
    options = top_k.OPTIONS(momentum=0.9)
    assert top_k.refuse(options, Settings(optimizer="sgd")) == ""
    assert "set optimizer: sgd and momentum: 0" in top_k.refuse(options, Settings(optimizer="sgd", momentum=0.9))
    assert "set optimizer: sgd" in top_k.refuse(options, Settings(optimizer="adam"))
    assert top_k.refuse(top_k.OPTIONS(), Settings(optimizer="adam")) == ""


def test_half_and_eight_bits_round_to_the_nearest():
    values = np.array([1.0, 1.0 + 2**-8, 1.0 + 3 * 2**-8, -3.0, 0.0, 1e-30])
    brain = made("half", {}, 6, "float32")
    assert decoded(brain, brain.encode(values.astype("float32")), 6, "float32").tolist() == pytest.approx(
        [1.0, 1.0, 1.0 + 2**-6, -3.0, 0.0, 1e-30], rel=2**-9
    )
    half = made("half", {"format": "float16"}, 3)
    assert decoded(half, half.encode(np.array([1e20, -3e-30, 1e19])), 3) == pytest.approx([1e20, 0, 1e19], rel=2**-11)
    eight = made("eight_bit", {"values_per_unit": 2}, 5)
    out = decoded(eight, eight.encode(np.array([127.0, 3.4, 0.0, 0.0, -1e-9])), 5)
    assert out == pytest.approx([127.0, 3.0, 0.0, 0.0, -1e-9], rel=1e-6)


SHAPES = [(6, 4), (4,), (3, 3, 2, 8), (2,), (9, 9)]
SIZE = sum(int(np.prod(shape)) for shape in SHAPES)


def alone(flat):
    return flat


def reduction(rank, dtype="float64", shapes=SHAPES, all_reduce=alone):
    return low_rank.bind(low_rank.OPTIONS(rank=rank), shapes, np.dtype(dtype), all_reduce, 3)


@pytest.mark.parametrize("rank", [1, 2])
def test_low_rank_loses_nothing(rank):
    compressor, sent = reduction(rank), np.zeros(SIZE)
    for gradient in gradients(SIZE):
        sent += compressor.reduce(gradient.copy())
    total = np.sum(gradients(SIZE), axis=0)
    remaining = compressor.state()["residual"]
    assert np.abs(remaining).max() > 0.1
    assert np.abs(sent + remaining - total).max() < 1e-13 * np.abs(total).max()
    # Vectors are sent whole.
    assert not remaining[24:28].any()


def test_full_rank_and_matrices_of_that_rank_are_exact():
    (gradient,) = gradients(SIZE, steps=1)
    assert np.array_equal(reduction(9).reduce(gradient.copy()), gradient)
    thin = np.outer(np.arange(1, 31), np.arange(1.0, 41)).ravel()
    compressor = reduction(1, shapes=[(30, 40)])
    np.testing.assert_allclose(compressor.reduce(thin.copy()), thin, rtol=1e-13)
