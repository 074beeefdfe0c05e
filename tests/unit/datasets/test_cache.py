import errno
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from dlbench.datasets import _cache, _npy, synthetic
from dlbench.datasets._cache import Recipe, cache_root, ensure, entry_name
from dlbench.datasets._open import open_arrays
from dlbench.errors import UserError

ENTRY_FILES = {"meta.json", "x.npy", "y.npy"}


class Source:
    """A data set that counts how often it is made."""

    def __init__(self):
        self.made = 0
        self.version = 1

    def identity(self):
        return {"version": self.version, "shape": (2, 2)}

    def fill(self, writer):
        self.made += 1
        writer.describe(source="a test")
        writer.append(np.ones((4, 2, 2), np.uint8), [0, 1, 0, 1])

    @property
    def recipe(self):
        return Recipe("my.set:load", {"a": 1}, self.identity, self.fill)


@pytest.fixture
def source():
    return Source()


def ensure_in(cache, source, **keywords):
    said = []
    return ensure(source.recipe, cache, said.append, **keywords), said


def visible(cache: Path):
    return sorted(path.name for path in cache.iterdir() if not path.name.endswith(".lock"))


def test_it_is_made_once(tmp_path, source):
    first, _ = ensure_in(tmp_path, source)
    second, said = ensure_in(tmp_path, source)
    assert source.made == 1
    assert first == second
    assert said == []
    assert {path.name for path in first.folder.iterdir()} == ENTRY_FILES
    assert visible(tmp_path) == [first.folder.name]


def test_meta_says_what_it_is(tmp_path, source):
    entry, _ = ensure_in(tmp_path, source)
    meta = json.loads((entry.folder / "meta.json").read_text())
    assert meta["schema_version"] == 1
    assert meta["dataset"] == "my.set:load"
    assert meta["options"] == {"a": 1}
    assert meta["identity"] == {"version": 1, "shape": [2, 2]}
    assert meta["content"]["arrays"]["x"]["shape"] == [4, 2, 2]
    assert meta["checksum"] == entry.meta.checksum
    assert meta["created_at"].endswith("+00:00")


def test_another_identity_is_another_entry(tmp_path, source):
    first, _ = ensure_in(tmp_path, source)
    source.version = 2
    second, _ = ensure_in(tmp_path, source)
    assert first.folder != second.folder
    assert source.made == 2


def damage_meta(folder):
    (folder / "meta.json").write_text('{"schema_version": 1')


def other_version(folder):
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | {"schema_version": 99}))


def other_checksum(folder):
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | {"checksum": "0" * 64}))


def missing_key(folder):
    (folder / "meta.json").write_text('{"schema_version": 1}')


def no_object(folder):
    (folder / "meta.json").write_text("[]")


def cut(folder):
    path = folder / "x.npy"
    path.write_bytes(path.read_bytes()[:-1])


def no_y(folder):
    (folder / "y.npy").unlink()


def no_folder(folder):
    shutil.rmtree(folder)
    folder.write_text("a file in its place")


@pytest.mark.parametrize(
    "damage", [damage_meta, other_version, other_checksum, missing_key, no_object, cut, no_y, no_folder]
)
def test_a_damaged_entry_is_made_anew(tmp_path, source, damage):
    entry, _ = ensure_in(tmp_path, source)
    damage(entry.folder)
    again, said = ensure_in(tmp_path, source)
    assert source.made == 2
    assert "damaged" in said[0]
    assert again.meta.checksum == entry.meta.checksum
    assert open_arrays(again.folder, again.meta.checksum).x.shape == (4, 2, 2)


def test_a_flipped_bit_is_found_on_demand(tmp_path, source):
    entry, _ = ensure_in(tmp_path, source)
    path = entry.folder / "x.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    ensure_in(tmp_path, source)
    assert source.made == 1
    _, said = ensure_in(tmp_path, source, verify=True)
    assert source.made == 2
    assert "checksum" in said[0]
    ensure_in(tmp_path, source, verify=True)
    assert source.made == 2


def test_leftovers_of_killed_preparers_are_removed(tmp_path, source):
    name = entry_name("my.set:load", {"version": 1, "shape": [2, 2]})
    for left in (f".{name}.tmp", ".digits-0123.tmp"):
        (tmp_path / left).mkdir()
        (tmp_path / left / "x.npy").write_bytes(b"half")
    entry, _ = ensure_in(tmp_path, source)
    assert entry.folder.name == name
    assert visible(tmp_path) == [name]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), UserError("no"), SystemExit(1)])
def test_a_failure_leaves_nothing_half_made(tmp_path, source, error):
    def fail(writer):
        writer.append(np.ones((4, 2), np.uint8), [0, 1, 0, 1])
        raise error

    with pytest.raises(type(error)):
        ensure(Recipe("set", {}, source.identity, fail), tmp_path, lambda line: None)
    assert visible(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "the disk is full"), (errno.EDQUOT, "the disk is full"), (errno.EROFS, "cannot write")],
)
def test_the_disks_failure_is_said_and_leaves_nothing(tmp_path, source, monkeypatch, number, message):
    def fail(descriptor):
        raise OSError(number, "fake")

    monkeypatch.setattr(_npy.os, "fsync", fail)
    with pytest.raises(UserError, match=message) as caught:
        ensure_in(tmp_path, source)
    assert "DLBENCH_CACHE" in caught.value.hint
    assert visible(tmp_path) == []


def test_an_error_of_the_source_is_not_blamed_on_the_cache(tmp_path, source):
    def fail(writer):
        raise FileNotFoundError(errno.ENOENT, "gone", "my-file")

    with pytest.raises(FileNotFoundError):
        ensure(Recipe("set", {}, source.identity, fail), tmp_path, lambda line: None)


def test_a_source_that_changes_meanwhile_is_refused(tmp_path, source):
    def fill(writer):
        source.fill(writer)
        source.version += 1

    with pytest.raises(UserError, match="changed while"):
        ensure(Recipe("set", {}, source.identity, fill), tmp_path, lambda line: None)
    assert visible(tmp_path) == []


def test_a_file_in_the_place_of_the_cache_is_said(tmp_path, source):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        ensure_in(tmp_path / "file" / "cache", source)


def test_cache_root_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DLBENCH_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_root() == tmp_path / ".cache" / "dlbench"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_root() == tmp_path / ".cache" / "dlbench"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg" / "dlbench"
    monkeypatch.setenv("DLBENCH_CACHE", "~/own")
    assert cache_root() == tmp_path / "own"


@pytest.mark.parametrize("dataset", ["digits", "a.b:c", "../../etc", "한글:함수", "", "x" * 500])
def test_entry_names_are_safe(dataset):
    name = entry_name(dataset, {})
    assert name == Path(name).name
    assert len(name) < 80
    assert not name.startswith(".")
    assert name.isascii()


def test_a_whole_entry_in_a_read_only_cache_needs_no_lock(tmp_path, source, monkeypatch):
    ensure_in(tmp_path, source)
    monkeypatch.setattr(_cache, "_locked", None)
    ensure_in(tmp_path, source)
    assert source.made == 1


def test_open_refuses_what_is_not_asked_for(tmp_path, source):
    entry, _ = ensure_in(tmp_path, source)
    with pytest.raises(UserError, match="other samples"):
        open_arrays(entry.folder, "0" * 64)
    with pytest.raises(UserError, match="no prepared data set"):
        open_arrays(tmp_path / "nowhere", entry.meta.checksum)
    cut(entry.folder)
    with pytest.raises(UserError, match="damaged"):
        open_arrays(entry.folder, entry.meta.checksum)


def test_open_maps_read_only(tmp_path, source):
    entry, _ = ensure_in(tmp_path, source)
    arrays = open_arrays(entry.folder, entry.meta.checksum)
    assert isinstance(arrays.x, np.memmap)
    assert arrays.validation_x is None
    assert arrays.num_classes == 2
    assert arrays.input_shape == (2, 2)
    with pytest.raises(ValueError, match="read-only"):
        arrays.x[0] = 1


def test_synthetic_has_an_identity_of_json(prepared):
    options = synthetic.OPTIONS(num_samples=10, num_classes=2, shape=(3,))
    assert json.loads(json.dumps(synthetic.identity(options))) == synthetic.identity(options)
