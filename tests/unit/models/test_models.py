"""What is known of the models without a framework: options, what they refuse, the builders they have."""

import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from dlbench import plugins
from dlbench.models._layers import BatchNorm
from dlbench.models.transformer import sinusoidal_encoding
from dlbench.trainers import Problem

MODELS = "cnn feed_forward_lm lstm mlp resnet18 resnet20 resnet50 softmax transformer vgg16"
IMAGES = Problem((32, 32, 3), 10)
SEQUENCES = Problem((20, 4), 10)
TOKENS = Problem((20,), 2, vocabulary=50)
CHARACTERS = Problem((20,), 50, vocabulary=50, target_shape=(20,))


WRONG = [
    ("mlp", {"hidden": ()}),
    ("mlp", {"hidden": (0,)}),
    ("cnn", {"batch_norm": "global"}),
    ("cnn", {"batch_norm": 1}),
    ("resnet20", {"num_blocks": 0}),
    ("resnet18", {"num_blocks": ()}),
    ("resnet18", {"batch_norm_momentum": 1.0}),
    ("resnet50", {"stem": "tiny"}),
    ("vgg16", {"dropout": 1.0}),
    ("transformer", {"positions": "none"}),
]


def test_every_model_has_its_builders_and_defaults() -> None:
    assert tuple(MODELS.split()) == plugins.names("models")
    for name in MODELS.split():
        plugin = plugins.load("models", name)
        assert callable(plugin.get("keras")), name
        assert callable(plugin.get("numpy")) == (name in ("mlp", "softmax")), name
        # What makes N workers differ from one is off unless asked for.
        assert getattr(plugin.options(), "dropout", 0.0) == 0.0, name


def test_wrong_options_are_refused() -> None:
    for name, options in WRONG:
        with pytest.raises(ValidationError):
            plugins.load("models", name).options(**options)


def test_batch_norm_means_the_same_everywhere() -> None:
    having = [name for name in MODELS.split() if "batch_norm" in plugins.load("models", name).options.model_fields]
    assert having == ["cnn", "resnet18", "resnet20", "resnet50", "vgg16"]
    for name in having:
        options = plugins.load("models", name).options
        for value in BatchNorm:
            assert options(batch_norm=value.value).batch_norm is value, name
            assert options(batch_norm=value.value).model_dump(mode="json")["batch_norm"] == value.value, name
        assert options(batch_norm=True).batch_norm is BatchNorm.LOCAL, name
        assert options(batch_norm=False).batch_norm is BatchNorm.NONE, name
        assert options().batch_norm_momentum == 0.9, name
        assert options().batch_norm is (BatchNorm.LOCAL if name.startswith("resnet") else BatchNorm.NONE), name


def test_numpy_builders_return_hidden_widths() -> None:
    problem = Problem((8, 8, 1), 10)
    mlp, softmax = plugins.load("models", "mlp"), plugins.load("models", "softmax")
    assert mlp.get("numpy")(problem, mlp.options(hidden=[32, 16])) == (32, 16)
    assert softmax.get("numpy")(problem, softmax.options()) == ()


# Model, options, samples, and a part of the reason why it refuses them; "" where it takes them.
SAMPLES = [
    ("cnn", {}, Problem((4, 4, 1), 10), ""),
    ("cnn", {}, Problem((3, 8, 1), 10), "2 poolings need images of at least 4x4"),
    ("cnn", {}, Problem((64,), 10), "not samples of shape [64]"),
    ("resnet20", {}, Problem((3, 3, 3), 10), "at least 4x4"),
    ("resnet18", {}, Problem((7, 9, 3), 10), "3 halvings need images of at least 8x8"),
    ("resnet50", {}, Problem((28, 28, 1), 10), "5 halvings (or `stem: small`) need images of at least 32x32"),
    ("resnet50", {"stem": "small"}, Problem((28, 28, 1), 10), ""),
    ("resnet50", {"stem": "small"}, Problem((4, 4, 1), 10), "3 halvings need images of at least 8x8"),
    ("vgg16", {}, Problem((28, 28, 1), 10), "5 poolings need images of at least 32x32"),
    ("vgg16", {}, TOKENS, "it takes images, not tokens"),
    ("vgg16", {}, replace(IMAGES, target_shape=(32,)), "one class for each image, not one at each of [32]"),
    ("mlp", {}, IMAGES, ""),
    ("mlp", {}, TOKENS, "it takes numbers, not tokens"),
    ("mlp", {}, replace(SEQUENCES, target_shape=(20,)), "one class for each sample, not one at each of [20]"),
    ("softmax", {}, TOKENS, "it takes numbers, not tokens"),
    ("feed_forward_lm", {}, TOKENS, ""),
    ("feed_forward_lm", {}, SEQUENCES, "it takes tokens, and its samples are not tokens"),
    ("lstm", {}, SEQUENCES, ""),
    ("lstm", {}, replace(SEQUENCES, target_shape=(20,)), ""),
    ("lstm", {}, replace(SEQUENCES, target_shape=(19,)), "one at each of 20 positions, not [19]"),
    ("lstm", {}, IMAGES, ""),
    ("lstm", {}, Problem((64,), 10), "the rows of images, not samples of shape [64]"),
    ("lstm", {}, replace(TOKENS, input_shape=(4, 4)), "it takes tokens [steps], not tokens of shape [4, 4]"),
    ("lstm", {"embedding_size": 8}, TOKENS, ""),
    ("lstm", {"embedding_size": 8}, IMAGES, "embedding_size is for tokens"),
    ("transformer", {}, CHARACTERS, ""),
    ("transformer", {"width": 30}, TOKENS, "its width 30 is no multiple of its 4 heads"),
    ("transformer", {"width": 3, "num_heads": 1, "positions": "sinusoidal"}, TOKENS, "need an even width, not 3"),
]


def test_samples_they_refuse() -> None:
    for name, options, samples, words in SAMPLES:
        plugin = plugins.load("models", name)
        reason = plugin.get("refuse")(samples, plugin.options(**options))
        assert words in reason, (name, samples)
        assert bool(reason) == bool(words), (name, samples)


def test_waves_are_sines_and_cosines_of_falling_frequencies() -> None:
    table = sinusoidal_encoding(7, 6)
    assert table.shape == (7, 6)
    for position in range(7):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            assert math.isclose(table[position, 2 * i], math.sin(angle), abs_tol=1e-12)
            assert math.isclose(table[position, 2 * i + 1], math.cos(angle), abs_tol=1e-12)
    assert len(np.unique(sinusoidal_encoding(500, 32).round(6), axis=0)) == 500
