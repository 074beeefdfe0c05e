"""What TensorFlow's start keeps out and which devices it takes, without TensorFlow."""

import sys

import pytest

from dlbench.errors import UserError
from dlbench.trainers import Threads
from dlbench.trainers._keras_start import _own_devices, _without


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


def test_a_process_takes_one_accelerator_for_each_of_its_workers() -> None:
    for devices, threads, own in (
        (["a", "b"], Threads(1, 1, 1), ["b"]),
        (["a"], Threads(1, 1, 1), ["a"]),
        (["a", "b", "c"], Threads(1, 1, 0, 2), ["a", "b"]),
    ):
        assert _own_devices(devices, threads) == own
    with pytest.raises(UserError, match="3 replicas in one process need as many accelerators, and this host has 2"):
        _own_devices(["a", "b"], Threads(1, 1, 0, 3))
