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
