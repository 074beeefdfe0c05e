import errno
import os
import socket

import pytest

from dlbench.errors import UserError
from dlbench.study.lock import is_held, locked


def test_a_second_dlbench_is_refused_with_the_holder(tmp_path):
    assert not is_held(tmp_path)
    with locked(tmp_path):
        assert is_held(tmp_path)
        with pytest.raises(UserError) as caught, locked(tmp_path):
            pass
        assert f"process {os.getpid()} on {socket.gethostname()}, since 20" in str(caught.value)
        (tmp_path / "lock").write_text("garbage")
        with pytest.raises(UserError, match="the holder is not recorded"), locked(tmp_path):
            pass
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    assert not is_held(tmp_path), "it is free again whatever happened"


@pytest.mark.parametrize("make", [os.symlink, os.link, lambda _, lock: os.mkfifo(lock)])
def test_what_is_no_file_of_that_name_alone_is_refused_and_what_it_leads_to_stays(tmp_path, make):
    precious = tmp_path / "precious"
    precious.write_text("all my work")
    make(precious, tmp_path / "lock")
    with pytest.raises(UserError, match="cannot be locked"), locked(tmp_path):
        pass
    assert precious.read_text() == "all my work"


def test_a_study_that_is_read_only_is_to_be_copied(tmp_path, monkeypatch):
    def refuse(path):
        raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr("dlbench.records.files.open_lock", refuse)
    with pytest.raises(UserError) as caught, locked(tmp_path):
        pass
    assert "a folder that can be written" in caught.value.hint


def test_an_old_lock_is_never_cut(tmp_path):
    (tmp_path / "lock").write_text("x" * 10_000)
    with locked(tmp_path):
        assert (tmp_path / "lock").stat().st_size == 10_000
    assert (tmp_path / "lock").stat().st_size == 10_000
