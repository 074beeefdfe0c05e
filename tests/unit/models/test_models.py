"""What is known of the models without a framework: options, what they refuse, the builders they have."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from dlbench import plugins
from dlbench.trainers import Problem

BUILDERS = {"cnn": ("keras",), "mlp": ("keras", "numpy"), "resnet20": ("keras",), "softmax": ("keras", "numpy")}


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
        ("resnet20", {"num_blocks": 0}),
        ("softmax", {"hidden": (1,)}),
    ],
)
def test_wrong_options_are_refused(name: str, options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        plugins.load("models", name).options(**options)


def test_numpy_builders_return_hidden_widths() -> None:
    problem = Problem((8, 8, 1), 10)
    mlp, softmax = plugins.load("models", "mlp"), plugins.load("models", "softmax")
    assert mlp.get("numpy")(problem, mlp.options(hidden=[32, 16])) == (32, 16)
    assert softmax.get("numpy")(problem, softmax.options()) == ()


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("cnn", (8, 8, 1), ""),
        ("cnn", (4, 4, 1), ""),
        ("cnn", (3, 8, 1), "at least 4x4"),
        ("cnn", (64,), "not samples of shape [64]"),
        ("resnet20", (32, 32, 3), ""),
        ("resnet20", (3, 3, 3), "at least 4x4"),
        ("resnet20", (8, 8), "not samples of shape [8, 8]"),
    ],
)
def test_shapes_they_refuse(name: str, shape: tuple[int, ...], words: str) -> None:
    plugin = plugins.load("models", name)
    reason = plugin.get("refuse")(shape, plugin.options())
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
