"""How TensorFlow's start is silenced, without TensorFlow."""

import os
import sys
from pathlib import Path

import pytest

from dlbench.errors import UserError
from dlbench.trainers import Threads
from dlbench.trainers._keras_start import _own_devices, _quiet, _without


def test_what_is_written_below_python_is_held_back(capfd: pytest.CaptureFixture[str]) -> None:
    with _quiet():
        os.write(2, b"noise\n")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


def _fail_quietly() -> None:
    with _quiet():
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
        with _quiet():
            pass
    assert _num_open() == before


def test_blocked_modules_cannot_be_imported_until_the_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with _without(("colorsys",)), pytest.raises(ImportError):
        import colorsys
    import colorsys

    assert colorsys.hsv_to_rgb(0, 0, 1) == (1, 1, 1)


def test_modules_that_are_loaded_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = sys.modules["os"]
    with _without(("os",)):
        assert sys.modules["os"] is loaded
    assert sys.modules["os"] is loaded


def test_a_process_of_one_worker_takes_its_own_accelerator() -> None:
    assert _own_devices(["a", "b"], Threads(1, 1, 1)) == ["b"]
    assert _own_devices(["a"], Threads(1, 1, 1)) == ["a"]


def test_a_process_of_all_workers_takes_one_for_each() -> None:
    assert _own_devices(["a", "b", "c"], Threads(1, 1, 0, 2)) == ["a", "b"]
    with pytest.raises(UserError, match="3 replicas in one process need as many accelerators, and this host has 2"):
        _own_devices(["a", "b"], Threads(1, 1, 0, 3))
