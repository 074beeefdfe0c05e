import contextlib
import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlbench.worker.train import checkpoint_files
from dlbench.worker.train.checkpoint_files import (
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    Checkpoint,
    CheckpointError,
    newest,
    read,
    write,
)

IDENTITY = "this run"


def made(epoch: int, identity: str = IDENTITY) -> Checkpoint:
    """Return a checkpoint whose numbers say of which epoch it is; some no decimal text would hold."""
    random = np.random.default_rng(epoch)
    arrays = {
        "parameters": random.normal(size=100).astype(np.float32),
        "optimizer-0": np.array([np.nan, -0.0, np.inf, 2.0**53, 5e-324, epoch]),
        "statistics": np.empty(0, np.float32),
    }
    return Checkpoint(identity, epoch, [{"epoch": epoch, "loss": 0.1 + 0.2}, {"rows": [{"epoch": 1}]}], arrays)


def must_be(found: Checkpoint | None, expected: Checkpoint) -> None:
    assert found is not None
    assert (found.identity, found.epoch, found.states) == (expected.identity, expected.epoch, expected.states)
    assert {name: (a.dtype, a.tobytes()) for name, a in found.arrays.items()} == {
        name: (a.dtype, a.tobytes()) for name, a in expected.arrays.items()
    }


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_read_is_what_was_written_bit_for_bit(tmp_path: Path) -> None:
    folder = tmp_path / "not there yet" / "run"
    size = write(folder, made(4))
    must_be(read(folder, 4, IDENTITY), made(4))
    assert size == sum(path.stat().st_size for path in folder.iterdir())


def test_the_newest_two_stay(tmp_path: Path) -> None:
    assert newest(tmp_path / "nowhere", IDENTITY) == (None, [])
    for epoch in (2, 4, 6, 10):
        write(tmp_path, made(epoch))
    assert names(tmp_path) == ["epoch-10.npz", "epoch-6.npz"]
    must_be(newest(tmp_path, IDENTITY)[0], made(10))


def test_a_file_with_a_flipped_bit_is_refused_unless_all_it_holds_is_as_it_was(tmp_path: Path) -> None:
    write(tmp_path, made(4))
    path = tmp_path / "epoch-4.npz"
    whole = path.read_bytes()
    unharmed = 0
    for place in range(0, len(whole), 11):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with contextlib.suppress(CheckpointError):
            must_be(read(tmp_path, 4, IDENTITY), made(4))
            unharmed += 1
    assert unharmed < len(whole) / 11 / 4, "bytes that say nothing, such as times of the zip file"


def test_no_array_is_made_of_a_damaged_shape(tmp_path: Path) -> None:
    """As much memory as a wrong shape asks for may not be there, and a shorter array is not read to its checksum."""
    write(tmp_path, Checkpoint(IDENTITY, 4, [], {"parameters": np.zeros(3000)}))
    path = tmp_path / "epoch-4.npz"
    whole = path.read_bytes()
    for shape in (b"(2000,), }", b"(999999999999999,), }"):
        path.write_bytes(whole.replace(b"(3000,), }".ljust(len(shape)), shape))
        with pytest.raises(CheckpointError, match="its arrays are damaged"):
            read(tmp_path, 4, IDENTITY)


def test_files_that_are_cut_short_missing_or_something_else_are_refused(tmp_path: Path) -> None:
    write(tmp_path, made(4))
    path = tmp_path / "epoch-4.npz"
    whole = path.read_bytes()
    for content in (*(whole[:length] for length in (0, 1, len(whole) // 2, len(whole) - 2)), b"[]", b"\xff"):
        path.write_bytes(content)
        with pytest.raises(CheckpointError):
            read(tmp_path, 4, IDENTITY)
    path.unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        read(tmp_path, 4, IDENTITY)


@pytest.mark.parametrize("manifest", [[], None, {}, {"format": FORMAT}])
def test_a_file_with_another_manifest_is_refused(tmp_path: Path, manifest: Any) -> None:
    text = np.frombuffer(json.dumps(manifest).encode(), np.uint8)
    np.savez(tmp_path / "epoch-4.npz", **{MANIFEST: text})
    with pytest.raises(CheckpointError, match="cannot be read"):
        read(tmp_path, 4, IDENTITY)


def test_another_runs_checkpoint_is_refused(tmp_path: Path) -> None:
    write(tmp_path, made(4, "another run"))
    found, notes = newest(tmp_path, IDENTITY)
    assert found is None
    assert notes == [
        "the checkpoint after epoch 4 was not used: it is of another run, other data or another layout of processes"
    ]


def test_another_epochs_file_under_this_epochs_name_is_refused(tmp_path: Path) -> None:
    write(tmp_path, made(4))
    (tmp_path / "epoch-4.npz").rename(tmp_path / "epoch-8.npz")
    assert newest(tmp_path, IDENTITY)[0] is None


def test_another_version_of_the_format_is_refused_with_both_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_files, "FORMAT_VERSION", 7)
        write(tmp_path, made(4))
    with pytest.raises(CheckpointError, match=f"version 7, not {FORMAT_VERSION}"):
        read(tmp_path, 4, IDENTITY)


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "epoch-4.npz", **{MANIFEST: np.array([{}], dtype=object)})
    with pytest.raises(CheckpointError, match="allow_pickle"):
        read(tmp_path, 4, IDENTITY)


def test_a_checkpoint_of_two_files_as_before_version_3_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "epoch-4.npz", parameters=np.zeros(3))
    (tmp_path / "epoch-4.json").write_text("{}")
    assert newest(tmp_path, IDENTITY) == (
        None, ["the checkpoint after epoch 4 was not used: it has no manifest, as one of a version before 3"]
    )  # fmt: skip


def test_later_ones_that_were_not_used_do_not_push_out_new_ones(tmp_path: Path) -> None:
    for epoch in (8, 10):
        write(tmp_path, made(epoch, "another run"))
    write(tmp_path, made(2))
    assert names(tmp_path) == ["epoch-2.npz"]


@pytest.mark.parametrize("call", range(2))
def test_a_full_disk_leaves_the_earlier_one_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    write(tmp_path, made(2))
    calls = []

    def fsync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > call:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fsync)
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path, made(4))
    found, notes = newest(tmp_path, IDENTITY)
    must_be(found, made(4) if call == 1 else made(2))
    assert notes == []
    assert not list(tmp_path.glob(".*"))


class Killed(BaseException):
    """A process that is killed."""


def test_a_writer_killed_before_the_rename_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing cleans up after a kill: what lies about is taken away by the next writer."""
    write(tmp_path, made(2))

    def replace(path: Path, target: Path) -> Path:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        patch.setattr(Path, "unlink", lambda self, missing_ok=False: None)
        with pytest.raises(Killed):
            write(tmp_path, made(4))
    assert len(names(tmp_path)) > 1
    found, notes = newest(tmp_path, IDENTITY)
    must_be(found, made(2))
    assert notes == []
    write(tmp_path, made(6))
    assert names(tmp_path) == ["epoch-2.npz", "epoch-6.npz"]
