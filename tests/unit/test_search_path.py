"""Where modules come from: what may be imported from the working folder by whom, and what `PYTHONPATH` is cut to."""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from dlbench import __main__ as command
from dlbench import search_path
from dlbench.search_path import SHELL_LINE, find_named, import_named, inherited, libraries_alone, relative_entries

LIBRARY = """
try:
    import optional
except ImportError:
    optional = None

def later():
    import optional
"""
FOLDER = {
    "optional.py": "raise SystemExit('only its name was found')",
    "named.py": "import library, beside\nfrom importlib import import_module\n\n"
    "def later():\n    import lazy\n    return lazy.VALUE\n\n"
    "def by_name():\n    return import_module('lazy').VALUE\n",
    "beside.py": "import package.inner as inner\nVALUE = inner.VALUE\n",
    "lazy.py": "import further\nVALUE = further.VALUE\n",
    "further.py": "VALUE = 'further'\n",
    "installed.py": "VALUE = 'of the folder'\n",
    "package/__init__.py": "",
    "package/inner.py": "import further\nfrom package import neighbour\nfrom . import neighbour as same\n"
    "VALUE = neighbour.VALUE\n\ndef later():\n    import lazy\n    return lazy.VALUE\n",
    "package/neighbour.py": "VALUE = 'neighbour'\n",
    "spaces/part.py": "import further\nVALUE = further.VALUE\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Enter a working folder of modules; libraries are elsewhere. What is imported is forgotten afterwards."""
    site, here = tmp_path / "site", tmp_path / "here"
    site.mkdir()
    (site / "library.py").write_text(LIBRARY)
    (site / "installed.py").write_text("VALUE = 'installed'\n")
    for name, text in FOLDER.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    others = [finder for finder in sys.meta_path if not isinstance(finder, search_path._WorkingFolderFinder)]
    monkeypatch.setattr(sys, "meta_path", others)
    before = set(sys.modules)
    yield here
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {Path(path).parts[0].removesuffix(".py") for path in FOLDER} | {"library"}:
            del sys.modules[name]


def test_a_named_module_and_what_it_imports_come_from_the_folder(folder: Path) -> None:
    path = list(sys.path)
    named = import_named("named")
    assert named.__file__ == str(folder / "named.py")
    assert named.beside.VALUE == "neighbour"
    assert named.later() == "further"
    assert named.by_name() == "further"
    assert sys.path == path


@pytest.mark.parametrize("line", ["exec('import further', {})", "import runpy; runpy.run_module('further')"])
def test_code_without_a_name_imports_for_the_module_that_runs_it(folder: Path, line: str) -> None:
    (folder / "named.py").write_text(f"{line}\n")
    import_named("named")
    (folder.parent / "site" / "library.py").write_text(f"{line}\n")
    (folder / "named.py").write_text("import library\n")
    del sys.modules["named"]
    sys.modules.pop("further", None)
    with pytest.raises(ImportError):
        import_named("named")


def test_a_library_gets_nothing_from_the_folder_then_or_later(folder: Path) -> None:
    library = import_named("named").library
    assert library.optional is None
    with pytest.raises(ModuleNotFoundError):
        library.later()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("optional")  # nor does this module
    with pytest.raises(SystemExit, match="its name was found"):
        import_named("optional")


COMPILED = """
class Compiled:
    def find_spec(self, name, path, target=None):
        return ModuleSpec(name, self, origin=origin) if name == "compiled" else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        try:
            module.further = __import__("further")
        except ImportError:
            module.further = None
"""


@pytest.mark.parametrize("place", ["here", "site"])
def test_a_compiled_module_imports_as_itself(folder: Path, place: str) -> None:
    # No frame of such a module's code is there, only those of the import system.
    names = {"__name__": "importlib._bootstrap_external", "ModuleSpec": ModuleSpec}
    names["origin"] = str(folder.parent / place / "compiled.so")
    exec(COMPILED, names)
    sys.meta_path.insert(0, names["Compiled"]())
    (folder / "lazy.py").write_text("import compiled\n")
    module = import_named("compiled") if place == "here" else import_named("lazy").compiled
    del sys.modules["compiled"]
    assert (module.further is not None) == (place == "here")


def test_a_module_in_a_package_may_import_from_beside_the_package(folder: Path) -> None:
    assert import_named("spaces.part").VALUE == "further"
    del sys.modules["further"]
    inner = import_named("package.inner")
    assert (inner.VALUE, "further" in sys.modules, inner.later()) == ("neighbour", True, "further")
    assert import_named("installed").VALUE == "installed"  # which comes first


def test_a_module_that_is_on_the_path_and_lies_in_the_folder_may_import_from_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "project").mkdir()
    (folder / "project" / "listed.py").write_text("import further\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder / "project")])
    assert import_named("listed").further.VALUE == "further"
    del sys.modules["listed"]


def test_a_module_that_is_installed_within_the_folder_is_a_library(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = folder / ".venv" / "site-packages"
    site.mkdir(parents=True)
    (folder.parent / "site" / "library.py").rename(site / "library.py")
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    monkeypatch.setattr(search_path, "site_folders", lambda: (str(site),))
    assert import_named("library").optional is None


def test_a_module_keeps_its_folder_where_another_is_entered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = import_named("named")
    other = folder.parent / "other"
    other.mkdir()
    (other / "lazy.py").write_text("VALUE = 'other'\n")
    monkeypatch.chdir(other)
    assert named.later() == "further"


def test_a_module_is_found_without_being_imported(folder: Path) -> None:
    spec = find_named("package.inner")
    assert spec is not None
    assert spec.origin == str(folder / "package" / "inner.py")
    assert "package.inner" not in sys.modules
    assert find_named("no_such_module_at_all") is None


def test_a_folder_that_is_gone_has_no_modules(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ModuleNotFoundError):
        import_named("named")
    monkeypatch.chdir(tmp_path)


PATHS = {
    "": ("", []),
    "/x": ("/x", []),
    "/x:/y z": ("/x:/y z", []),
    ":/x": ("/x", [""]),
    "/x:": ("/x", [""]),
    ":": ("", ["", ""]),
    ".": ("", ["."]),
    "lib:/x:../y:~/z:/*:/y": ("/x:/*:/y", ["lib", "../y", "~/z"]),
}


def test_relative_entries_are_taken_out_of_what_is_inherited(subtests: pytest.Subtests) -> None:
    assert inherited({"A": "b"}) == {"A": "b"}
    assert relative_entries({}) == []
    for written, (kept, relative) in PATHS.items():
        with subtests.test(written=written):
            assert inherited({"PYTHONPATH": written, "A": "b"}) == {"PYTHONPATH": kept, "A": "b"}
            assert relative_entries({"PYTHONPATH": written}) == relative


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_line_for_shells_does_the_same(shell: str, subtests: pytest.Subtests) -> None:
    argv = [shell, "-uc", f"{SHELL_LINE}; env"]
    for written, (kept, _) in PATHS.items():
        with subtests.test(written=written):
            done = subprocess.run(argv, env={"PYTHONPATH": written}, capture_output=True, text=True, check=True)
            assert f"PYTHONPATH={kept}" in done.stdout.splitlines()
    unset = subprocess.run(argv, env={}, capture_output=True, text=True, check=True)
    assert "PYTHONPATH" not in unset.stdout


def test_the_command_leaves_the_working_folder_before_it_imports_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # As Python's own `site` leaves it.
    written, made = ["", "lib", "/x", str(tmp_path / "named")], ["", "/lib", "/named"]
    monkeypatch.setenv("PYTHONPATH", ":".join([*written, "named"]))
    monkeypatch.setattr(sys, "path", ["/bin", *(f"{tmp_path}{end}" for end in made), "/x", *sys.path])
    seen: list[str] = []
    monkeypatch.setattr("dlbench.cli.main", lambda: seen.extend(sys.path))
    command.main()
    assert seen[:3] == ["/bin", str(tmp_path / "named"), "/x"]


def test_what_a_library_starts_inherits_nothing_of_the_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (":/x", None):
        if before is None:
            monkeypatch.delenv("PYTHONPATH")
        else:
            monkeypatch.setenv("PYTHONPATH", before)
        monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
        with libraries_alone():
            assert os.environ.get("PYTHONPATH") == ("/x" if before else None)
            assert os.environ["PYTHONSAFEPATH"] == "1"
        assert os.environ.get("PYTHONPATH") == before
        assert "PYTHONSAFEPATH" not in os.environ
