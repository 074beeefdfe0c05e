import errno
import os

import pytest

from dlbench.records import files


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "결과 'x'\n.csv"
    path.write_text("old")
    old_inode = path.stat().st_ino
    with files.replacing(path) as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
        # In the same folder: only within one file system is a file replaced at once.
        assert len(list(tmp_path.iterdir())) == 2
    assert path.read_text() == "new"
    # Renamed, not copied: no reader sees a part.
    assert path.stat().st_ino != old_inode
    files.write_text(path, "a,b\r\n값,2\r\n")
    assert path.read_bytes() == "a,b\r\n값,2\r\n".encode()
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        files.write_text(tmp_path / "absent" / "runs.csv", "text")


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "runs.csv"
    path.write_text("old")

    def write_half(error=None):
        with files.replacing(path) as file:
            file.write("half")
            if error is not None:
                raise error

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    for error in (ValueError("stop"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            write_half(error)
    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_others_may_read_as_the_umask_says_and_a_private_file_not_at_all(tmp_path, umask):
    before = os.umask(umask)
    try:
        files.write_text(tmp_path / "runs.csv", "")
        files.write_text(tmp_path / "assignment.json", "", is_private=True)
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert (tmp_path / "runs.csv").stat().st_mode & 0o777 == 0o666 & ~umask
    assert (tmp_path / "assignment.json").stat().st_mode & 0o777 == 0o600


def test_only_a_file_is_replaced_and_its_text_is_not_computed_in_vain(tmp_path):
    (tmp_path / "kept").write_text("kept")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "dangling").symlink_to("absent")
    before = sorted(tmp_path.iterdir())
    for name, reason in {
        "pipe": "it is a pipe", "folder": "it is a folder", "link": "a link to kept", "dangling": "a link to absent",
    }.items():  # fmt: skip
        with pytest.raises(OSError, match=reason) as caught, files.replacing(tmp_path / name):
            pytest.fail("the block was entered")
        assert caught.value.filename == str(tmp_path / name)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_folder_is_made_below_links_and_through_none(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to("disk")
    assert files.make_folder(tmp_path / "home" / "a" / "b", "c", "d").is_dir()
    assert files.make_folder(tmp_path / "home" / "a" / "b", "c", "d") == tmp_path / "home" / "a" / "b" / "c" / "d"
    (tmp_path / "disk" / "a" / "link").symlink_to("b")
    (tmp_path / "disk" / "a" / "file").touch()
    for path, *parts in (("home",), ("disk/a/link",), ("disk/a", "link"), ("disk/a", "link", "c"), ("disk/a/file",)):
        with pytest.raises(OSError, match="writes only into folders"):
            files.make_folder(tmp_path / path, *parts)
