"""What is known of the models without a framework: options, what they refuse, the builders they have."""

import subprocess
import sys
from dataclasses import replace

import pytest
from pydantic import ValidationError

from dlbench import plugins
from dlbench.models._batch_norm import BatchNorm
from dlbench.trainers import Problem

BUILDERS = {
    "cnn": ("keras",),
    "lstm": ("keras",),
    "mlp": ("keras", "numpy"),
    "resnet18": ("keras",),
    "resnet20": ("keras",),
    "resnet50": ("keras",),
    "softmax": ("keras", "numpy"),
    "transformer": ("keras",),
    "vgg16": ("keras",),
}
IMAGES = Problem((32, 32, 3), 10)
SEQUENCES = Problem((20, 4), 10)
TOKENS = Problem((20,), 2, vocabulary=50)
CHARACTERS = Problem((20,), 50, vocabulary=50, target_shape=(20,))


@pytest.mark.parametrize("name", BUILDERS)
def test_builders_options_and_doc(name: str) -> None:
    plugin = plugins.load("models", name)
    assert tuple(b for b in ("keras", "numpy") if callable(plugin.get(b))) == BUILDERS[name]
    assert plugin.doc.endswith(".") or ":" in plugin.doc
    assert plugin.options() is not None
    for field in plugin.options.model_fields.values():
        assert field.description


def test_every_model_is_tested_here() -> None:
    assert set(BUILDERS) <= set(plugins.names("models"))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mlp", {"hidden": ()}),
        ("mlp", {"hidden": (0,)}),
        ("mlp", {"hidden": (True,)}),
        ("mlp", {"width": 3}),
        ("cnn", {"filters": ()}),
        ("cnn", {"filters": (-1,)}),
        ("cnn", {"batch_norm": "global"}),
        ("cnn", {"batch_norm": 1}),
        ("resnet20", {"num_blocks": 0}),
        ("resnet18", {"num_blocks": ()}),
        ("resnet18", {"num_blocks": 2}),
        ("resnet18", {"batch_norm_momentum": 1.0}),
        ("resnet50", {"stem": "tiny"}),
        ("vgg16", {"num_convolutions": ()}),
        ("vgg16", {"dropout": 1.0}),
        ("vgg16", {"dropout": -0.1}),
        ("lstm", {"units": 0}),
        ("lstm", {"num_layers": 0}),
        ("transformer", {"positions": "none"}),
        ("transformer", {"num_heads": 0}),
        ("softmax", {"hidden": (1,)}),
    ],
)
def test_wrong_options_are_refused(name: str, options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        plugins.load("models", name).options(**options)


@pytest.mark.parametrize(
    "name", [name for name in BUILDERS if "batch_norm" in plugins.load("models", name).options.model_fields]
)
def test_batch_norm_means_the_same_everywhere(name: str) -> None:
    options = plugins.load("models", name).options
    for value, meant in (
        ("none", BatchNorm.NONE),
        ("local", BatchNorm.LOCAL),
        ("synchronized", BatchNorm.SYNCHRONIZED),
    ):
        assert options(batch_norm=value).batch_norm is meant
        assert options(batch_norm=value).model_dump(mode="json")["batch_norm"] == value
    assert options(batch_norm=True).batch_norm is BatchNorm.LOCAL
    assert options(batch_norm=False).batch_norm is BatchNorm.NONE
    assert options().batch_norm_momentum == 0.9
    assert options().batch_norm is (BatchNorm.LOCAL if name.startswith("resnet") else BatchNorm.NONE)


@pytest.mark.parametrize("name", BUILDERS)
def test_nothing_that_makes_workers_differ_from_one_is_on_unless_asked_for(name: str) -> None:
    assert getattr(plugins.load("models", name).options(), "dropout", 0.0) == 0.0


def test_numpy_builders_return_hidden_widths() -> None:
    problem = Problem((8, 8, 1), 10)
    mlp, softmax = plugins.load("models", "mlp"), plugins.load("models", "softmax")
    assert mlp.get("numpy")(problem, mlp.options(hidden=[32, 16])) == (32, 16)
    assert softmax.get("numpy")(problem, softmax.options()) == ()


@pytest.mark.parametrize(
    ("name", "options", "samples", "words"),
    [
        ("cnn", {}, Problem((8, 8, 1), 10), ""),
        ("cnn", {}, Problem((4, 4, 1), 10), ""),
        ("cnn", {}, Problem((3, 8, 1), 10), "2 poolings need images of at least 4x4"),
        ("cnn", {}, Problem((64,), 10), "not samples of shape [64]"),
        ("resnet20", {}, IMAGES, ""),
        ("resnet20", {}, Problem((3, 3, 3), 10), "at least 4x4"),
        ("resnet20", {}, Problem((8, 8), 10), "not samples of shape [8, 8]"),
        ("resnet18", {}, IMAGES, ""),
        ("resnet18", {}, Problem((7, 9, 3), 10), "3 halvings need images of at least 8x8"),
        ("resnet50", {}, IMAGES, ""),
        ("resnet50", {}, Problem((28, 28, 1), 10), "5 halvings (or `stem: small`) need images of at least 32x32"),
        ("resnet50", {"stem": "small"}, Problem((28, 28, 1), 10), ""),
        ("resnet50", {"stem": "small"}, Problem((4, 4, 1), 10), "3 halvings need images of at least 8x8"),
        ("vgg16", {}, IMAGES, ""),
        ("vgg16", {}, Problem((28, 28, 1), 10), "5 poolings need images of at least 32x32"),
        ("vgg16", {}, TOKENS, "it takes images, not tokens"),
        ("vgg16", {}, replace(IMAGES, target_shape=(32,)), "one class for each image, not one at each of [32]"),
        ("mlp", {}, IMAGES, ""),
        ("mlp", {}, TOKENS, "it takes numbers, not tokens"),
        ("mlp", {}, replace(SEQUENCES, target_shape=(20,)), "one class for each sample, not one at each of [20]"),
        ("softmax", {}, TOKENS, "it takes numbers, not tokens"),
        ("lstm", {}, TOKENS, ""),
        ("lstm", {}, CHARACTERS, ""),
        ("lstm", {}, SEQUENCES, ""),
        ("lstm", {}, replace(SEQUENCES, target_shape=(20,)), ""),
        ("lstm", {}, replace(SEQUENCES, target_shape=(19,)), "one at each of 20 positions, not [19]"),
        ("lstm", {}, IMAGES, ""),
        ("lstm", {}, Problem((64,), 10), "the rows of images, not samples of shape [64]"),
        ("lstm", {}, replace(TOKENS, input_shape=(4, 4)), "it takes tokens [steps], not tokens of shape [4, 4]"),
        ("lstm", {"embedding_size": 8}, TOKENS, ""),
        ("lstm", {"embedding_size": 8}, IMAGES, "embedding_size is for tokens"),
        ("transformer", {}, CHARACTERS, ""),
        ("transformer", {}, Problem((64,), 10), "not samples of shape [64]"),
        ("transformer", {"width": 30}, TOKENS, "its width 30 is no multiple of its 4 heads"),
        ("transformer", {"width": 3, "num_heads": 1, "positions": "sinusoidal"}, TOKENS, "need an even width, not 3"),
    ],
)
def test_samples_they_refuse(name: str, options: dict[str, object], samples: Problem, words: str) -> None:
    plugin = plugins.load("models", name)
    reason = plugin.get("refuse")(samples, plugin.options(**options))
    assert words in reason
    assert bool(reason) == bool(words)


def test_loading_them_imports_no_framework() -> None:
    code = (
        "import sys\n"
        "for name in ('keras', 'tensorflow', 'mpi4py', 'horovod'): sys.modules[name] = None\n"
        "from dlbench import plugins\n"
        "for kind in ('models', 'trainers'):\n"
        "    for name in plugins.names(kind): plugins.load(kind, name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
