import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

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
    plugins._installed.cache_clear()
    plugins.built_in.cache_clear()


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
    assert "write a list: [mpi, multi_worker]" in refused("mpi, multi-worker", "strategies")
    assert "write a list: [keras:mnist, keras:imdb]" in refused("keras:mnist,keras:imdb", "datasets")
    assert "write a list" not in refused("mpi,singel", "strategies")


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


def test_what_comes_near_to_a_reference_is_suggested(subtests: pytest.Subtests) -> None:
    for name in (
        "users_module_of_a_test:plane",
        "users_module_of_a_test.py:plain",
        "./users_module_of_a_test.py:plain",
        "users_module_of_a_test.plain",
    ):
        with subtests.test(name=name):
            assert "did you mean 'users_module_of_a_test:plain'?" in refused(name)


def test_a_script_is_not_run_for_a_suggestion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "training_of_a_test.py").write_text("open('ran', 'w')\ndef build(): ...\ndef py(): ...\n")
    assert "did you mean 'training_of_a_test:build'?" in refused("training_of_a_test.build")
    assert "`dlbench list models`" in refused("training_of_a_test.py")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("open('ran', 'w')")
    (tmp_path / "package" / "net.py").write_text("def build(): ...\n")
    assert "did you mean 'package.net:build'?" in refused("package.net.biuld")
    assert not (tmp_path / "ran").exists()


INSTALLED = {
    "good-1.0.dist-info": "[dlbench.models]\nmy-net = plugin_of_a_test\nbroken = plugin_of_a_test:nothing\n"
    "mlp = plugin_of_a_test\n[dlbench.strategies]\nmpi = plugin_of_a_test\n[dlbench.nothings]\nx = y\n",
    "old.egg-info": "[dlbench.datasets]\nkeras:mnist = plugin_of_a_test\nold = plugin_of_a_test\n",
    "later-2.0.dist-info": "[dlbench.datasets]\nold = another\n[console_scripts]\nlater = a:b\n",
    "damaged-1.0.dist-info": "[dlbench.models]\nno sign of equality\n",
    "unreadable-1.0.dist-info": "[dlbench.models]\n\udcff = x\n",
    "other-1.0.dist-info": "[console_scripts]\nother = a:b\n",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of installed packages; the working folder holds one that nothing has installed."""
    for folder, packages in (
        ("site", INSTALLED),
        ("here", {"evil-1.0.dist-info": "[dlbench.models]\nevil = plugin_of_a_test\n"}),
    ):
        for name, text in packages.items():
            (tmp_path / folder / name).mkdir(parents=True)
            (tmp_path / folder / name / "entry_points.txt").write_text(text, errors="surrogateescape")
            metadata = "PKG-INFO" if name.endswith(".egg-info") else "METADATA"
            (tmp_path / folder / name / metadata).write_text(f"Name: {name.partition('-')[0]}\nVersion: 1\n")
    (tmp_path / "plugin_of_a_test.py").write_text('"""A plugin."""\n')
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(tmp_path / "here")
    monkeypatch.setattr(plugins, "site_folders", lambda: (str(tmp_path / "site"), str(tmp_path / "none")))
    _forget()
    return tmp_path / "site"


@pytest.mark.usefixtures("site")
def test_installed_plugins_join_the_folder() -> None:
    assert {"my_net", "broken", "mlp"} <= set(plugins.names("models"))
    assert plugins.load("models", "my-net").doc == "A plugin."
    assert "AttributeError" in refused("broken")
    assert plugins.load("datasets", "old").doc == "A plugin."


@pytest.mark.usefixtures("site")
def test_only_what_is_installed_registers_plugins() -> None:
    assert "evil" not in plugins.names("models")
    assert "there is no 'evil' among the models" in refused("evil")


@pytest.mark.usefixtures("site")
def test_a_plugin_replaces_none_of_dlbench() -> None:
    assert plugins.load("models", "mlp").target.__name__ == "dlbench.models.mlp"
    assert plugins.load("datasets", "keras:mnist").doc != "A plugin."
    lines = sorted(plugins.replaced())
    assert [line.split(" is not used")[0] for line in lines] == [
        "datasets: the plugin keras:mnist of old.egg",
        "models: the plugin mlp of good",
        "strategies: the plugin mpi of good",
    ]


def test_what_is_installed_is_looked_through_once_and_read_only_where_it_registers_a_plugin(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []
    read = plugins.PathDistribution
    monkeypatch.setattr(plugins, "PathDistribution", lambda path: looked.append(path) or read(path))
    for kind in plugins.FOLDERS:
        plugins.names(kind)
    names = {path.name for path in looked}
    assert len(looked) == len(names)
    assert names == set(INSTALLED) - {"other-1.0.dist-info", "unreadable-1.0.dist-info"}
    assert looked[0].parent == site


def test_rows_of_a_table_are_plugins() -> None:
    found = [name for name in plugins.names("datasets") if ":" in name]
    assert found == [f"keras:{name}" for name in ("fashion_mnist", "imdb", "mnist", "reuters")]
    assert {"cifar10", "cifar100"} <= set(plugins.names("datasets"))
    plugin = plugins.load("datasets", "keras:mnist")
    assert (plugin.name, plugin.get("describe")(plugin.options()).input_shape) == ("keras:mnist", (28, 28, 1))
    assert plugins.load("datasets", "keras:fashion-mnist").name == "keras:fashion_mnist"
    assert plugins.canonical("keras:fashion-mnist") == "keras:fashion_mnist"
    assert plugins.canonical("my-module:load") == "my-module:load"


def test_a_name_that_begins_as_rows_do_is_no_module_and_refused_with_the_nearest() -> None:
    for name, near in (("keras:mnits", "keras:mnist"), ("keras:cifar-10", "cifar10")):
        assert f"did you mean '{near}'?" in refused(name, "datasets")


def test_of_another_kind_such_a_name_is_a_module_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", ModuleType("keras"))  # the real one takes long to import
    assert "package.module:function" in refused("keras:no_such_thing_at_all", "strategies")


def test_the_reference_of_a_user_is_found_beside_them() -> None:
    assert plugins.load("datasets", "users_module_of_a_test:plain").doc == "A plain function."
