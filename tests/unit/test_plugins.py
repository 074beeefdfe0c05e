from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from dlbench import plugins
from dlbench.errors import UserError

SOURCE = '''
"""Functions of a user."""

from dlbench.plugins import Options

class Wide(Options):
    width: int = 3

class Net:
    """A net."""
    OPTIONS = Wide
    def __call__(self): ...

net = Net()

def plain(problem, *, width: int, depth: int = 2):
    """A plain function.

    More of it.
    """

def unknown_type(problem, *, width: "Nowhere"): ...

class Strange:
    OPTIONS = 3
    def __call__(self): ...

strange = Strange()
number = 5
'''


@pytest.fixture(autouse=True)
def user_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "users_module_of_a_test.py").write_text(SOURCE)
    (tmp_path / "ends_of_a_test.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    _forget()
    yield
    _forget()


def _forget() -> None:
    plugins.names.cache_clear()
    plugins.load.cache_clear()
    plugins._table.cache_clear()


def refused(name: str, kind: str = "models") -> str:
    with pytest.raises(UserError) as caught:
        plugins.load(kind, name)
    return str(caught.value)


def test_files_are_plugins_but_for_those_with_an_underscore() -> None:
    found = plugins.names("strategies")
    assert {"mpi", "single"} <= set(found)
    assert list(found) == sorted(found)
    assert not any(name.startswith("_") for kind in plugins.FOLDERS for name in plugins.names(kind))


def test_a_hyphen_and_an_underscore_mean_the_same() -> None:
    assert plugins.load("trainers", "keras-tensorflow").name == "keras_tensorflow"


def test_the_nearest_name_is_suggested() -> None:
    message = refused("singel", "strategies")
    assert "there is no 'singel' among the strategies; there are: " in message
    assert "did you mean 'single'?" in message
    assert "`dlbench list models`" in refused("zebra")


def test_a_function_has_its_keyword_parameters_as_options() -> None:
    plugin = plugins.load("models", "users_module_of_a_test:plain")
    assert plugin.doc == "A plain function."
    assert plugin.options(width=4).model_dump() == {"width": 4, "depth": 2}  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        plugin.options()
    with pytest.raises(ValidationError):
        plugin.options(width=4, height=1)  # type: ignore[call-arg]


def test_an_object_may_bring_options_of_its_own() -> None:
    plugin = plugins.load("models", "users_module_of_a_test:net")
    assert plugin.options().model_dump() == {"width": 3}


def test_a_reference_that_leads_nowhere_is_an_error_of_the_user(subtests: pytest.Subtests) -> None:
    for name in [
        "users_module_of_a_test:nothing",
        "users_module_of_a_test:number",
        "users_module_of_a_test:unknown_type",
        "users_module_of_a_test:strange",
        "users_module_of_a_test:",
        "no.such.module:function",
        ":function",
        ":",
        "a b:c",
        "..:c",
        "\x00:c",
        "ends_of_a_test:x",
    ]:
        with subtests.test(name=name):
            message = refused(name)
            assert "models: cannot import" in message
            assert "package.module:function" in message


class _Point(SimpleNamespace):
    def load(self) -> Any:
        if isinstance(self.target, Exception):
            raise self.target
        return self.target


def test_installed_plugins_join_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = _Point(name="my-net", target=SimpleNamespace()), _Point(name="broken", target=ImportError("no torch"))
    monkeypatch.setattr(plugins, "entry_points", lambda group: [good, bad] if group == "dlbench.models" else [])
    _forget()
    assert {"my_net", "broken", "mlp"} <= set(plugins.names("models"))
    assert plugins.load("models", "my-net").target is good.target
    assert "ImportError: no torch" in refused("broken")


def test_rows_of_a_table_are_plugins() -> None:
    found = [name for name in plugins.names("datasets") if ":" in name]
    assert found == [f"keras:{name}" for name in ("fashion_mnist", "imdb", "mnist", "reuters")]
    assert {"cifar10", "cifar100"} <= set(plugins.names("datasets"))
    plugin = plugins.load("datasets", "keras:mnist")
    assert (plugin.name, plugin.get("describe")(plugin.options()).input_shape) == ("keras:mnist", (28, 28, 1))
    assert plugins.load("datasets", "keras:fashion-mnist").name == "keras:fashion_mnist"
    assert plugins.canonical("keras:fashion-mnist") == "keras:fashion_mnist"
    assert plugins.canonical("my-module:load") == "my-module:load"


def test_a_name_that_is_not_a_row_is_refused_with_the_nearest_or_the_reason() -> None:
    message = refused("keras:mnits", "datasets")
    assert "there are: keras:fashion_mnist, keras:imdb" in message
    assert "did you mean 'keras:mnist'?" in message
    assert "use cifar10" in refused("keras:cifar10", "datasets")
    assert "which is regression; dlbench trains classifiers" in refused("keras:boston_housing", "datasets")
    assert "which is regression" in refused("keras:california-housing", "datasets")


def test_of_another_kind_such_a_name_is_a_module_of_the_users() -> None:
    assert "package.module:function" in refused("keras:no_such_thing_at_all", "strategies")


def test_the_reference_of_a_user_is_found_beside_them() -> None:
    assert plugins.load("datasets", "users_module_of_a_test:plain").doc == "A plain function."
