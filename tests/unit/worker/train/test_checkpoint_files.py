import errno
import json
from pathlib import Path

import numpy as np
import pytest

from dlbench.worker.train import checkpoint_files
from dlbench.worker.train.checkpoint_files import FORMAT_VERSION, Checkpoint, CheckpointError, newest, read, write

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
    assert names(tmp_path) == ["epoch-10.json", "epoch-10.npz", "epoch-6.json", "epoch-6.npz"]
    must_be(newest(tmp_path, IDENTITY)[0], made(10))


def flip(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(place * (len(content) - 1))] ^= 1
    path.write_bytes(content)


def test_a_flipped_bit_is_found_and_the_second_choice_taken(tmp_path: Path) -> None:
    for name in ("epoch-4.npz", "epoch-4.json"):
        for place in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
            write(tmp_path, made(2))
            write(tmp_path, made(4))
            flip(tmp_path / name, place)
            found, notes = newest(tmp_path, IDENTITY)
            must_be(found, made(2))
            assert len(notes) == 1, (name, place)
            assert notes[0].startswith("the checkpoint after epoch 4 was not used: ")


def test_files_that_are_cut_short_missing_or_something_else_are_refused(tmp_path: Path) -> None:
    write(tmp_path, made(4))
    others = [b"[]", b"null", b"{}", b'{"content": 1, "checksum": ""}', b"\xff"]
    for name in ("epoch-4.npz", "epoch-4.json"):
        path = tmp_path / name
        whole = path.read_bytes()
        for content in (*(whole[:length] for length in (0, 1, len(whole) // 2, len(whole) - 2)), *others):
            path.write_bytes(content)
            with pytest.raises(CheckpointError):
                read(tmp_path, 4, IDENTITY)
        path.write_bytes(whole)
    (tmp_path / "epoch-4.npz").unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        read(tmp_path, 4, IDENTITY)


def test_another_runs_checkpoint_is_refused(tmp_path: Path) -> None:
    write(tmp_path, made(4, "another run"))
    found, notes = newest(tmp_path, IDENTITY)
    assert found is None
    assert notes == [
        "the checkpoint after epoch 4 was not used: it is of another run, other data or another layout of processes"
    ]


def test_another_epochs_files_under_this_epochs_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path, made(4))
    for suffix in ("json", "npz"):
        (tmp_path / f"epoch-4.{suffix}").rename(tmp_path / f"epoch-8.{suffix}")
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
    write(tmp_path, made(4))
    np.savez(tmp_path / "epoch-4.npz", parameters=np.array([{}], dtype=object))
    manifest = json.loads((tmp_path / "epoch-4.json").read_text())
    manifest["content"]["arrays"] = checkpoint_files._checksum(tmp_path / "epoch-4.npz")
    manifest["checksum"] = checkpoint_files._checksum_of(manifest["content"])
    (tmp_path / "epoch-4.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="allow_pickle"):
        read(tmp_path, 4, IDENTITY)


def test_later_ones_that_were_not_used_do_not_push_out_new_ones(tmp_path: Path) -> None:
    for epoch in (8, 10):
        write(tmp_path, made(epoch, "another run"))
    write(tmp_path, made(2))
    assert names(tmp_path) == ["epoch-2.json", "epoch-2.npz"]


@pytest.mark.parametrize("call", range(3))
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
    must_be(found, made(4) if call == 2 else made(2))
    assert notes == []
    assert not list(tmp_path.glob(".*"))


class Killed(BaseException):
    """A process that is killed."""


@pytest.mark.parametrize("call", range(2))
def test_a_writer_killed_before_a_rename_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """Nothing cleans up after a kill: what lies about is taken away by the next writer."""
    write(tmp_path, made(2))
    original, calls = Path.replace, []

    def replace(path: Path, target: Path) -> Path:
        calls.append(path)
        if len(calls) > call:
            raise Killed
        return original(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        patch.setattr(Path, "unlink", lambda self, missing_ok=False: None)
        with pytest.raises(Killed):
            write(tmp_path, made(4))
    assert len(names(tmp_path)) > 2
    found, notes = newest(tmp_path, IDENTITY)
    must_be(found, made(2))
    assert notes == []
    write(tmp_path, made(6))
    assert names(tmp_path) == ["epoch-2.json", "epoch-2.npz", "epoch-6.json", "epoch-6.npz"]
