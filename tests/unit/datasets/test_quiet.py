"""Imports below which file descriptor 2 is held back, or modules are blocked."""

import os
import sys
from pathlib import Path

import pytest

from dlbench.datasets._quiet import quiet, without


def test_what_is_written_below_python_is_held_back(capfd: pytest.CaptureFixture[str]) -> None:
    descriptors = set(Path("/proc/self/fd").iterdir())
    with quiet():
        os.write(2, b"noise\n")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"
    assert set(Path("/proc/self/fd").iterdir()) == descriptors


def _fail_quietly() -> None:
    with quiet():
        os.write(2, b"why it failed\n")
        raise ImportError("broken")


def test_it_comes_out_if_the_block_fails(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ImportError, match="broken"):
        _fail_quietly()
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "why it failed\nafter\n"


def test_blocked_modules_cannot_be_imported_until_the_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = sys.modules["os"]
    with without(("os",)):
        assert sys.modules["os"] is loaded
    assert sys.modules["os"] is loaded
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with without(("colorsys",)), pytest.raises(ImportError):
        import colorsys
    import colorsys

    assert colorsys.hsv_to_rgb(0, 0, 1) == (1, 1, 1)
