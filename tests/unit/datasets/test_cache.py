import errno
import json
import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from dlbench.datasets import _cache, _writer
from dlbench.datasets._cache import Recipe, cache_root, ensure, entry_name, lookup
from dlbench.datasets._format import open_arrays
from dlbench.datasets._prepare import PreparationRequest, prepare, prepared
from dlbench.errors import UserError


class Source:
    """A data set that counts how often it is prepared."""

    def __init__(self):
        self.num_fills = 0
        self.version = 1

    def identity(self):
        return {"version": self.version, "shape": (2, 2)}

    def fill(self, writer):
        self.num_fills += 1
        writer.describe(source="a test")
        writer.append(np.ones((4, 2, 2), np.uint8), [0, 1, 0, 1])

    @property
    def recipe(self):
        return Recipe("my.set:load", {"a": 1}, self.identity, self.fill)


@pytest.fixture
def source():
    return Source()


NAME = entry_name("my.set:load", {"version": 1, "shape": [2, 2]})


def ensure_in(cache, source):
    said = []
    return ensure(source.recipe, cache, said.append), said


def visible(cache: Path):
    return sorted(path.name for path in cache.iterdir() if not path.name.endswith(".lock"))


def test_it_is_prepared_once_and_described_in_meta(tmp_path, source, monkeypatch):
    first, said_first = ensure_in(tmp_path, source)
    with monkeypatch.context() as without_locks:  # as in a cache that can only be read
        without_locks.setattr(_cache, "locked", None)
        second, said = ensure_in(tmp_path, source)
    assert (source.num_fills, said) == (1, [])
    assert not any("damaged" in line for line in said_first)
    assert first == second
    assert {path.name for path in first.folder.iterdir()} == {"meta.json", "x.npy", "y.npy"}
    assert visible(tmp_path) == [first.folder.name]
    meta = json.loads((first.folder / "meta.json").read_text())
    assert (meta["schema_version"], meta["dataset"], meta["options"]) == (2, "my.set:load", {"a": 1})
    assert meta["identity"] == {"version": 1, "shape": [2, 2]}
    assert meta["content"]["arrays"]["x"]["shape"] == [4, 2, 2]
    assert meta["checksum"] == first.meta.checksum
    assert meta["created_at"].endswith("+00:00")
    source.version = 2
    third, _ = ensure_in(tmp_path, source)
    assert (third.folder != first.folder, source.num_fills) == (True, 2), "another identity is another entry"


def test_a_doubt_about_its_samples_is_said_each_time_where_it_is_of_more_than_one_in_a_hundred(tmp_path, prepared):
    x = np.arange(400, dtype=np.float32).reshape(200, 2)
    for num_same, is_doubted in ((1, False), (2, True)):
        path = tmp_path / f"{num_same}.npz"
        new = -1 - x[: 100 - num_same]
        np.savez(
            path,
            x=x,
            y=np.arange(200) % 2,
            validation_x=np.append(x[:num_same], new, 0),
            validation_y=np.arange(100) % 2,
        )
        doubt = f"{num_same} of 100 validation samples are also training samples"
        first = prepared.entry("npz", path=str(path))
        assert doubt in prepared.said[-1]
        prepared.said.clear()
        assert prepared.entry("npz", path=str(path)) == first
        assert first.meta.content.doubt == doubt * is_doubted
        assert [line for line in prepared.said if doubt in line] == [f"npz: {doubt}"] * is_doubted


def meta_is(**changes):
    def change(folder):
        path = folder / "meta.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def content_is(text):
    return lambda folder: (folder / "meta.json").write_text(text)


def cut(folder):
    path = folder / "x.npy"
    path.write_bytes(path.read_bytes()[:-1])


def rewritten(old, new):
    def change(folder):
        path = folder / "x.npy"
        path.write_bytes(path.read_bytes().replace(old, new))
        written_after_meta(path)

    return change


def written_after_meta(path):
    later = (path.parent / "meta.json").stat().st_mtime_ns + 10
    os.utime(path, ns=(later, later))


def no_folder(folder):
    shutil.rmtree(folder)
    folder.write_text("a file in its place")


DAMAGES = {
    "half a meta.json": content_is('{"schema_version": 1'),
    "missing keys": content_is('{"schema_version": 1}'),
    "not an object": content_is("[]"),
    "another version": meta_is(schema_version=99),
    "another checksum": meta_is(checksum="0" * 64),
    "a cut array": cut,
    "other samples": rewritten(b"\1\1\1\1", b"\1\1\7\1"),
    "another shape": rewritten(b"(4, 2, 2)", b"(2, 4, 2)"),
    "a missing array": lambda folder: (folder / "y.npy").unlink(),
    "a file in its place": no_folder,
}


def test_a_damaged_entry_is_prepared_again(tmp_path, source):
    entry, _ = ensure_in(tmp_path, source)
    for number, (name, damage) in enumerate(DAMAGES.items()):
        damage(entry.folder)
        again, said = ensure_in(tmp_path, source)
        assert source.num_fills == 2 + number, name
        assert any("is damaged and" in line for line in said), name
        assert again.meta.checksum == entry.meta.checksum, name
        assert open_arrays(again.folder, again.meta.checksum).x.shape == (4, 2, 2), name


def test_an_array_written_since_is_verified_once(tmp_path, source, monkeypatch):
    entry, _ = ensure_in(tmp_path, source)
    written_after_meta(entry.folder / "y.npy")  # as a copy may be
    loaded = Mock(side_effect=np.load)
    monkeypatch.setattr(_cache.np, "load", loaded)
    said = f"{entry.folder / 'y.npy'} was written to since: its checksum is compared"
    with monkeypatch.context() as patched:  # a cache that can only be read
        patched.setattr(_cache.os, "utime", Mock(side_effect=PermissionError))
        assert [ensure_in(tmp_path, source) for _ in range(2)] == [(entry, [said])] * 2
    assert [ensure_in(tmp_path, source) for _ in range(2)] == [(entry, [said]), (entry, [])]
    assert (source.num_fills, loaded.call_count) == (1, 1)


def test_what_killed_processes_left_is_removed(tmp_path, source):
    for left in (f".{NAME}.tmp", ".digits-0123.tmp"):
        (tmp_path / left).mkdir()
        (tmp_path / left / "x.npy").write_bytes(b"half")
    entry, _ = ensure_in(tmp_path, source)
    assert visible(tmp_path) == [entry.folder.name] == [NAME]


def test_a_failure_leaves_nothing_half_done_and_that_of_the_disk_is_reported(tmp_path, source, monkeypatch):
    for error in (
        ValueError("no"),
        KeyboardInterrupt(),
        UserError("no"),
        SystemExit(1),
        FileNotFoundError(errno.ENOENT, "gone", "my-file"),  # not blamed on the cache
    ):

        def fail(writer, error=error):
            writer.append(np.ones((4, 2), np.uint8), [0, 1, 0, 1])
            raise error

        with pytest.raises(type(error)):
            ensure(Recipe("set", {}, source.identity, fail), tmp_path, print)
        assert visible(tmp_path) == [], error
    for number, message in (
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "is full"),
        (errno.EROFS, "cannot write"),
    ):
        monkeypatch.setattr(_writer.os, "fsync", Mock(side_effect=OSError(number, "fake")))
        with pytest.raises(UserError, match=message) as caught:
            ensure_in(tmp_path, source)
        assert "DLBENCH_CACHE" in caught.value.hint, message
        assert visible(tmp_path) == [], message


def test_a_source_that_changes_meanwhile_is_refused(tmp_path, source):
    def fill(writer):
        source.fill(writer)
        source.version += 1

    with pytest.raises(UserError, match="changed while"):
        ensure(Recipe("set", {}, source.identity, fill), tmp_path, print)
    assert visible(tmp_path) == []


def test_cache_root_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setattr("pwd.getpwuid", Mock(side_effect=KeyError))
    for name in ("DLBENCH_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="HOME is not set"):
        cache_root()
    for name, value, expected in (
        ("HOME", str(tmp_path), ".cache/dlbench"),
        ("XDG_CACHE_HOME", "relative", ".cache/dlbench"),
        ("XDG_CACHE_HOME", str(tmp_path / "xdg"), "xdg/dlbench"),
        ("DLBENCH_CACHE", "~/own", "own"),
    ):
        monkeypatch.setenv(name, value)
        assert cache_root() == tmp_path / expected


def test_entry_names_are_safe():
    for dataset in ("digits", "a.b:c", "../../etc", "한글:함수", "", "x" * 500):
        name = entry_name(dataset, {})
        assert name == Path(name).name, dataset
        assert len(name) < 80, dataset
        assert name.isascii(), dataset
        assert not name.startswith("."), dataset


def test_open_maps_read_only_what_is_asked_for(tmp_path, source):
    entry, _ = ensure_in(tmp_path, source)
    arrays = open_arrays(entry.folder, entry.meta.checksum)
    assert isinstance(arrays.x, np.memmap)
    assert (arrays.validation_x, arrays.num_classes, arrays.input_shape) == (None, 2, (2, 2))
    with pytest.raises(ValueError, match="read-only"):
        arrays.x[0] = 1
    with pytest.raises(UserError, match="other samples"):
        open_arrays(entry.folder, "0" * 64)
    with pytest.raises(UserError, match="no prepared data set"):
        open_arrays(tmp_path / "nowhere", entry.meta.checksum)
    cut(entry.folder)
    with pytest.raises(UserError, match="damaged"):
        open_arrays(entry.folder, entry.meta.checksum)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda folder: folder.chmod(0o777), id="others may write to it"),
        pytest.param(
            lambda folder: os.chown(folder, 12345, 12345),
            id="another user's",
            marks=pytest.mark.skipif(os.getuid() != 0, reason="needs another user"),
        ),
    ],
)
def test_what_others_may_have_changed_is_not_used(tmp_path, source, change):
    first, _ = ensure_in(tmp_path, source)
    change(first.folder)
    second, _ = ensure_in(tmp_path, source)
    assert second.folder.name == f"{first.folder.name}.{os.getuid()}"
    assert ensure_in(tmp_path, source)[0].folder == second.folder
    assert source.num_fills == 2


def test_what_lies_in_the_place_of_the_cache_or_a_lock_is_reported_and_stays(tmp_path, source):
    precious, cache = tmp_path / "precious", tmp_path / "cache"
    precious.write_text("all my work")
    cache.mkdir()
    (cache / f".{NAME}.lock").symlink_to(precious)
    for place, message in ((cache, "Too many levels of symbolic links"), (precious / "cache", "cannot write")):
        with pytest.raises(UserError, match=message):
            ensure_in(place, source)
    assert precious.read_text() == "all my work"


def test_looking_one_up_prepares_nothing(source, tmp_path):
    assert lookup(source.recipe, tmp_path) is None
    entry = ensure(source.recipe, tmp_path, print)
    assert lookup(source.recipe, tmp_path) == entry
    (entry.folder / "meta.json").write_text("{")
    assert lookup(source.recipe, tmp_path) is None, "a process of its own says that it is damaged, and prepares it"
    assert source.num_fills == 1


def test_only_data_that_takes_no_reading_is_looked_up_here(tmp_path, monkeypatch):
    monkeypatch.setenv("DLBENCH_CACHE", str(tmp_path))
    np.savez(tmp_path / "a.npz", x=np.ones((4, 2)), y=[0, 1, 0, 1])
    wanted = [
        PreparationRequest(dataset="digits"),
        PreparationRequest(dataset="npz", options={"path": str(tmp_path / "a.npz")}),
    ]
    assert list(map(prepared, wanted)) == [None, None]
    entries = [prepare(request, print) for request in wanted]
    assert list(map(prepared, wanted)) == [entries[0], None]
