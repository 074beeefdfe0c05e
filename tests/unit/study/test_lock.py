import os
import socket

import pytest

from dlbench.errors import UserError
from dlbench.study.lock import locked


def test_a_second_dlbench_is_refused_with_the_holder(tmp_path):
    with locked(tmp_path), pytest.raises(UserError) as caught, locked(tmp_path):
        pass
    assert f"process {os.getpid()} on {socket.gethostname()}, since 20" in str(caught.value)


def test_the_lock_is_free_again_whatever_happened(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path):
        pass


def test_an_unknown_holder_still_holds_the_lock(tmp_path):
    with locked(tmp_path):
        (tmp_path / "lock").write_text("garbage")
        with pytest.raises(UserError, match="the holder is not recorded"), locked(tmp_path):
            pass


@pytest.mark.parametrize("make", [os.symlink, os.link])
def test_a_link_in_the_place_of_the_lock_is_refused_and_what_it_leads_to_stays(tmp_path, make):
    precious = tmp_path / "precious"
    precious.write_text("all my work")
    study = tmp_path / "study"
    study.mkdir()
    make(precious, study / "lock")
    with pytest.raises(UserError, match="cannot be locked"), locked(study):
        pass
    assert precious.read_text() == "all my work"


def test_a_pipe_in_the_place_of_the_lock_is_refused(tmp_path):
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(UserError, match="it is no lock file"), locked(tmp_path):
        pass


def test_an_old_lock_is_never_cut(tmp_path):
    (tmp_path / "lock").write_text("x" * 10_000)
    with locked(tmp_path):
        assert (tmp_path / "lock").stat().st_size == 10_000
    assert (tmp_path / "lock").stat().st_size == 10_000
