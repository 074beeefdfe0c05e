"""Imports below which file descriptor 2 is held back."""

import os
from pathlib import Path

import pytest

from dlbench.datasets._quiet import quiet


def test_what_is_written_below_python_is_held_back(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet():
        os.write(2, b"noise\n")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


def _fail_quietly() -> None:
    with quiet():
        os.write(2, b"why it failed\n")
        raise ImportError("broken")


def test_it_comes_out_if_the_block_fails(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ImportError, match="broken"):
        _fail_quietly()
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "why it failed\nafter\n"


def _num_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_is_left_open() -> None:
    before = _num_open()
    for _ in range(3):
        with quiet():
            pass
    assert _num_open() == before
