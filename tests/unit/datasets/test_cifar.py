import hashlib
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlbench import plugins
from dlbench.datasets import Description, _download
from dlbench.datasets._cache import Recipe, ensure
from dlbench.datasets._cifar import Cifar
from dlbench.datasets._format import Arrays, open_arrays
from dlbench.datasets._table import TABLE
from dlbench.errors import UserError
from tests.unit.datasets import cifar

CIFAR10, CIFAR100 = TABLE["cifar10"], TABLE["cifar100"]
SMALL, BINARY, PYTHON = cifar.small(CIFAR10)


def arrays(row: Cifar, path: Path | str | None, cache: Path, **options: Any) -> Arrays:
    given = row.OPTIONS(path=path and str(path), **options)
    recipe = Recipe("cifar", {}, lambda: row.identity(given), lambda writer: row.prepare(given, writer))
    entry = ensure(recipe, cache, lambda line: None)
    return open_arrays(entry.folder, entry.meta.checksum)


def check(found: Arrays, row: Cifar = SMALL, kind: str = "labels") -> None:
    num_train = len(row.binary.train)
    parts = [(found.x, found.y, 0, num_train), (found.validation_x, found.validation_y, num_train, num_train + 1)]
    for x, y, first, end in parts:
        assert np.array_equal(x, np.concatenate([cifar.images(seed) for seed in range(first, end)]))
        assert y.tolist() == [label for seed in range(first, end) for label in cifar.labels(seed, row)[kind]]
    assert (found.scale, found.class_names) == (1 / 255, row.class_names[kind])


def test_every_place_and_version_holds_the_same(tmp_path: Path) -> None:
    top = tmp_path / "놓인 곳"
    for version, files in ((SMALL.binary, BINARY), (SMALL.python, PYTHON)):
        places = {
            "archive": cifar.write_archive(top / "archive" / version.name, version.folder, files),
            "tar of any name": cifar.write_archive(top / f"{version.folder} any name", version.folder, files, "w"),
            "folder of the archive": top / "archive",
            "folder": cifar.write_folder(top / "unpacked" / version.folder, files),
            "folder above": top / "unpacked",
        }
        checksums = set()
        for name, path in places.items():
            cache = tmp_path / f"{version.folder} {name}"
            check(arrays(SMALL, path, cache))
            checksums |= {meta.read_text().partition('"checksum"')[2][:80] for meta in cache.glob("*/meta.json")}
        assert len(checksums) == 1


def test_every_kind_of_label_is_read_from_both_versions(tmp_path: Path) -> None:
    row, binary, python = cifar.small(CIFAR100)
    for kind, num_classes in (("fine", 100), ("coarse", 20)):
        for version, files in ((row.binary, binary), (row.python, python)):
            path = cifar.write_folder(tmp_path / f"{kind} {version.folder}", files)
            found = arrays(row, path, tmp_path / f"cache {kind} {version.folder}", labels=kind)
            check(found, row, kind)
            assert found.num_classes == num_classes == row.describe(row.OPTIONS(labels=kind)).num_classes


def test_every_file_is_compared_with_its_published_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loads(*_: Any, **__: Any) -> None:
        pytest.fail("a file that is not the published one was unpickled")

    monkeypatch.setattr(pickle, "loads", loads)
    for version, files in ((SMALL.binary, BINARY), (SMALL.python, PYTHON)):
        # The first file of the Python version: the others would be read before it is found.
        for name in files if version is SMALL.binary else list(files)[:1]:
            changed = {**files, name: files[name][:-40] + bytes([files[name][-40] ^ 1]) + files[name][-39:]}
            folder = cifar.write_folder(tmp_path / name / "folder", changed)
            archive = cifar.write_archive(tmp_path / name / "archive", version.folder, changed)
            for path in (folder, archive):
                with pytest.raises(UserError, match=f"{name} in .* is not the published file: its checksum is"):
                    arrays(SMALL, path, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("cifar-*"))


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    good = cifar.write_archive(tmp_path / "good", SMALL.binary.folder, BINARY).read_bytes()
    partial = {name: BINARY[name] for name in list(BINARY)[1:]}
    cases = {
        "cut": good[: len(good) // 2],
        "text": b"<html>Not found</html>",
        "empty": b"",
        "partial": cifar.write_archive(tmp_path / "partial", SMALL.binary.folder, partial).read_bytes(),
    }
    for name, content in cases.items():
        path = tmp_path / f"{name}.tar.gz"
        path.write_bytes(content)
        with pytest.raises(
            UserError, match="does not hold the files" if name == "partial" else "cannot be read"
        ) as caught:
            arrays(SMALL, path, tmp_path / "cache")
        assert str(path) in str(caught.value), name
        with pytest.raises(UserError) as verified:
            SMALL.verify(SMALL.OPTIONS(path=str(path)))
        assert str(caught.value).endswith(str(verified.value)), name
    assert "all files were read" in SMALL.verify(SMALL.OPTIONS(path=str(tmp_path / "good")))
    assert SMALL.verify(SMALL.OPTIONS()) == ""


def test_without_a_path_the_archive_is_downloaded_once_into_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = cifar.write_archive(tmp_path / "published.tar.gz", SMALL.binary.folder, BINARY)
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    row = replace(SMALL, source=replace(SMALL.source, sha256=sha256))
    asked = []

    def retrieve(url: str, known_hash: str, fname: str, path: Path, downloader: Any) -> None:
        asked.append((url, known_hash))
        (path / fname).write_bytes(archive.read_bytes())

    monkeypatch.setattr("pooch.retrieve", retrieve)
    check(arrays(row, None, tmp_path / "cache"))
    assert asked == [(CIFAR10.source.url, f"sha256:{sha256}")]
    assert (tmp_path / "cache/downloads" / SMALL.binary.name).exists()


def test_describing_downloads_nothing_and_refuses_a_place_without_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_download, "download", None)
    for name, num_classes in (("cifar10", 10), ("cifar100", 100)):
        plugin = plugins.load("datasets", name)
        assert plugin.target.describe(plugin.options()) == Description(50_000, 10_000, (32, 32, 3), num_classes)
        for path in (tmp_path, tmp_path / "nothing", "~nobody-of-this-name/x", "a\x00b"):
            with pytest.raises(UserError):
                plugin.target.describe(plugin.options(path=str(path)))


def test_the_identity_is_what_was_published_wherever_it_is() -> None:
    assert CIFAR10.identity(CIFAR10.OPTIONS(path="x")) == CIFAR10.identity(CIFAR10.OPTIONS())
    fine, coarse = (CIFAR100.identity(CIFAR100.OPTIONS(labels=labels)) for labels in ("fine", "coarse"))
    assert fine != coarse
