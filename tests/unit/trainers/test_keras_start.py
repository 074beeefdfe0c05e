"""Which devices an engine takes, without any."""

import pytest

from dlbench.errors import UserError
from dlbench.trainers import Threads
from dlbench.trainers._keras_start import _own_devices


def test_a_process_takes_one_accelerator_for_each_of_its_workers() -> None:
    for devices, threads, own in (
        (["a", "b"], Threads(1, 1, 1), ["b"]),
        (["a"], Threads(1, 1, 1), ["a"]),
        (["a", "b", "c"], Threads(1, 1, 0, 2), ["a", "b"]),
    ):
        assert _own_devices(devices, threads) == own
    with pytest.raises(UserError, match="3 replicas in one process need as many accelerators, and this host has 2"):
        _own_devices(["a", "b"], Threads(1, 1, 0, 3))
