from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlbench.datasets import _cifar, _cifar_files, _download, cifar10, cifar100
from dlbench.datasets._cache import Recipe, ensure
from dlbench.datasets._cifar import Edition
from dlbench.datasets._open import Arrays, open_arrays
from dlbench.errors import UserError
from tests.unit.datasets import cifar

FILES = cifar.cifar10()
SMALL = cifar.edition_of(cifar10.EDITION, FILES)


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the usual places empty, and nothing to load from."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KERAS_HOME", raising=False)


def arrays(edition: Edition, path: Path | str | None, cache: Path) -> Arrays:
    recipe = Recipe("cifar", {}, dict, lambda writer: _cifar.write(edition, path and str(path), writer))
    entry = ensure(recipe, cache, lambda line: None)
    return open_arrays(entry.folder, entry.meta.checksum)


def offline(edition: Edition) -> Edition:
    """Return an edition whose archive is nowhere."""
    return replace(edition, url="file:///nowhere/cifar-10-python.tar.gz")


def check(found: Arrays) -> None:
    assert (found.x.shape, found.x.dtype) == ((100, 32, 32, 3), np.uint8)
    for number in range(5):
        assert np.array_equal(found.x[number * 20 : number * 20 + 20], cifar.pictures(number, 20))
        assert found.y[number * 20 : number * 20 + 20].tolist() == [(number + row) % 10 for row in range(20)]
    assert found.validation_x is not None
    assert np.array_equal(found.validation_x, cifar.pictures(5, 20))
    assert found.class_names == tuple(f"class {number}" for number in range(10))
    assert (found.scale, found.num_classes) == (1 / 255, 10)


@pytest.mark.parametrize("place", ["archive", "tar", "folder", "parent", "parent of archive"])
def test_archive_and_folder_hold_the_same(tmp_path: Path, place: str) -> None:
    top = tmp_path / "놓인 곳"
    if place in ("archive", "parent of archive"):
        path = cifar.write_archive(top / SMALL.archive, SMALL.folder, FILES)
    elif place == "tar":
        path = cifar.write_archive(top / "any name", SMALL.folder, FILES, "w")
    else:
        path = cifar.write_folder(top / SMALL.folder, FILES)
    check(arrays(SMALL, top if place.startswith("parent") else path, tmp_path / "cache"))


@pytest.mark.parametrize(
    "place",
    [
        "home/.keras/datasets/cifar-10-python.tar.gz",
        "home/.keras/datasets/cifar-10-batches-py.tar.gz",
        "home/.keras/datasets/cifar-10-batches-py-target_archive",
        "home/.keras/datasets/cifar-10-batches-py/",
        "home/.keras/datasets/cifar-10-batches-py-target/cifar-10-batches-py/",
        "keras/datasets/cifar-10-python.tar.gz",
        "here/data/cifar-10-batches-py/",
        "here/data/cifar-10-python.tar.gz",
    ],
)
def test_the_usual_places_are_looked_at(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if place.startswith("keras"):
        monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    if place.endswith("/"):
        cifar.write_folder(tmp_path / place, FILES)
    else:
        cifar.write_archive(tmp_path / place, SMALL.folder, FILES)
    check(arrays(offline(SMALL), None, tmp_path / "cache"))


def test_a_folder_that_is_not_whole_is_passed_over(tmp_path: Path) -> None:
    part = {name: content for name, content in FILES.items() if name != "test_batch"}
    cifar.write_folder(tmp_path / "home/.keras/datasets/cifar-10-batches-py", part)
    cifar.write_folder(tmp_path / "here/data/cifar-10-batches-py", FILES)
    check(arrays(offline(SMALL), None, tmp_path / "cache"))


def test_what_is_nowhere_is_loaded_checked_and_kept(tmp_path: Path) -> None:
    archive = cifar.write_archive(tmp_path / "server" / SMALL.archive, SMALL.folder, FILES)
    edition = replace(SMALL, url=archive.as_uri(), archive_md5=cifar.md5(archive.read_bytes()))
    check(arrays(edition, None, tmp_path / "cache"))
    kept = tmp_path / "home/.keras/datasets"
    assert [path.name for path in kept.iterdir()] == [SMALL.archive]
    archive.unlink()
    check(arrays(edition, None, tmp_path / "other cache"))


def test_what_is_loaded_and_is_not_what_was_published_is_not_kept(tmp_path: Path) -> None:
    archive = cifar.write_archive(tmp_path / "server" / SMALL.archive, SMALL.folder, FILES)
    with pytest.raises(UserError, match="is not the published file: its md5 is"):
        arrays(replace(SMALL, url=archive.as_uri()), None, tmp_path / "cache")
    assert list((tmp_path / "home/.keras/datasets").iterdir()) == []


def test_without_a_network_the_way_out_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be loaded") as caught:
        arrays(offline(SMALL), None, tmp_path / "cache")
    assert str(tmp_path / "home/.keras/datasets/cifar-10-python.tar.gz") in caught.value.hint
    assert "dataset.path" in caught.value.hint


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_download, "PROGRESS_INTERVAL_S", 0.0)
    monkeypatch.setattr(_download, "BLOCK_BYTES", 500_000)
    source, said = tmp_path / "file", []
    source.write_bytes(bytes(2_000_000))
    _download.fetch(source.as_uri(), cifar.md5(bytes(2_000_000)), tmp_path / "to" / "target", said.append)
    assert said[0] == f"loading {source.as_uri()}"
    assert said[1:] == ["0 of 2 MB loaded", "1 of 2 MB loaded", "2 of 2 MB loaded", "2 of 2 MB loaded"]


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_compared_with_its_published_checksum(tmp_path: Path, name: str) -> None:
    changed = {**FILES, name: FILES[name][:-40] + bytes([FILES[name][-40] ^ 1]) + FILES[name][-39:]}
    for path in (
        cifar.write_folder(tmp_path / "folder", changed),
        cifar.write_archive(tmp_path / "archive", SMALL.folder, changed),
    ):
        with pytest.raises(UserError, match=f"{name} in .* is not the published file: its md5 is"):
            arrays(SMALL, path, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("cifar-*"))


def test_users_are_given_the_published_checksums_alone(tmp_path: Path, prepared: Any) -> None:
    path = cifar.write_archive(tmp_path / "small.tar.gz", SMALL.folder, FILES)
    for name, folder in (("cifar10", path), ("cifar100", cifar.write_folder(tmp_path / "100", cifar.cifar100()))):
        with pytest.raises(UserError, match="is not the published file"):
            prepared.entry(name, path=str(folder))


@pytest.mark.parametrize("damage", ["cut", "text", "missing", "empty"])
def test_a_damaged_archive_is_named(tmp_path: Path, damage: str) -> None:
    path = cifar.write_archive(tmp_path / "archive.tar.gz", SMALL.folder, FILES)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif damage in ("text", "empty"):
        path.write_bytes(b"<html>Not found</html>" * (damage == "text"))
    else:
        path = cifar.write_archive(path, SMALL.folder, {"batches.meta": FILES["batches.meta"]})
    message = "has no data_batch_1" if damage == "missing" else "is no archive, or a damaged one"
    with pytest.raises(UserError, match=message) as caught:
        arrays(SMALL, path, tmp_path / "cache")
    assert str(path) in str(caught.value)


def broken(name: str, content: bytes) -> tuple[Edition, dict[str, bytes]]:
    """Return an edition that has published a batch with this content."""
    files = {**FILES, name: content}
    return cifar.edition_of(cifar10.EDITION, files), files


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data_batch_2", b"\x80\x02cos\nsystem\nU\x04exit\x85R.", "it asks for os.system"),
        ("data_batch_2", cifar.pickled({b"labels": [1]}), "it has no pictures"),
        ("data_batch_2", cifar.pickled({b"data": np.zeros((2, 7), np.uint8), b"labels": [1, 2]}), "it has no pictures"),
        ("test_batch", cifar.pickled({b"data": np.zeros((2, 3072), np.uint8)}), "no class number 'labels' for each"),
        ("test_batch", cifar.pickled({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}), "no class number"),
        ("batches.meta", cifar.pickled({b"label_names": [1, 2]}), "it has no list 'label_names'"),
        ("batches.meta", b"", "it is damaged"),
    ],
)
def test_a_batch_that_is_none_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    edition, files = broken(name, content)
    with pytest.raises(UserError, match=f"{name} in .* cannot be read: .*{message}"):
        arrays(edition, cifar.write_folder(tmp_path / "folder", files), tmp_path / "cache")


@pytest.mark.parametrize(("labels", "num_classes"), [("fine", 100), ("coarse", 20)])
def test_fine_and_coarse_classes(tmp_path: Path, labels: str, num_classes: int) -> None:
    files = cifar.cifar100()
    edition = cifar100.labelled(cifar.edition_of(cifar100.EDITION, files), labels)
    found = arrays(edition, cifar.write_archive(tmp_path / "a.tgz", edition.folder, files), tmp_path / "cache")
    assert found.class_names == tuple(f"{labels} {number}" for number in range(num_classes))
    assert found.y.tolist() == [row % 100 // (100 // num_classes) for row in range(200)]
    assert found.num_classes == num_classes == cifar100.describe(cifar100.OPTIONS(labels=labels)).num_classes
    assert np.array_equal(found.x, cifar.pictures(0, 200))


@pytest.mark.parametrize("plugin", [cifar10, cifar100])
def test_describing_loads_nothing_and_refuses_a_place_without_the_files(tmp_path: Path, plugin: Any) -> None:
    found = plugin.describe(plugin.OPTIONS())
    assert (found.num_train, found.num_validation, found.input_shape) == (50_000, 10_000, (32, 32, 3))
    assert not (tmp_path / "home").exists()
    for path in (tmp_path, tmp_path / "nothing", "~nobody-of-this-name/x", "a\x00b"):
        with pytest.raises(UserError, match=r"is neither|cannot be read"):
            plugin.describe(plugin.OPTIONS(path=str(path)))


def test_a_file_too_large_for_the_data_set_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cifar_files, "MOST_BYTES", 1000)
    for path in (
        cifar.write_folder(tmp_path / "folder", FILES),
        cifar.write_archive(tmp_path / "archive", SMALL.folder, FILES),
    ):
        with pytest.raises(UserError, match="more than any file of the data set"):
            arrays(SMALL, path, tmp_path / "cache")


def test_the_identity_is_what_was_published_wherever_it_is() -> None:
    assert cifar10.identity(cifar10.OPTIONS(path="x")) == cifar10.identity(cifar10.OPTIONS())
    fine, coarse = (cifar100.identity(cifar100.OPTIONS(labels=labels)) for labels in ("fine", "coarse"))
    assert fine != coarse
