import os
import threading

import pytest

from dlbench.errors import UserError
from dlbench.scenario.layout import Place
from dlbench.worker.process import cores


@pytest.fixture
def restored():
    affinity = os.sched_getaffinity(0)
    yield affinity
    os.sched_setaffinity(0, affinity)


def place(**changes):
    return Place(**{"rank": 0, "workers": (0,), **changes})


def test_a_process_and_its_later_threads_are_bound(restored):
    core = min(restored)
    assert cores.bind(place(cores=(core,)), "test") == "affinity"
    assert os.sched_getaffinity(0) == {core}
    seen = []
    thread = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
    thread.start()
    thread.join()
    assert seen == [{core}]


def test_without_cores_nothing_is_bound(restored):
    assert cores.bind(place(), "test") == "none"
    assert os.sched_getaffinity(0) == restored


@pytest.mark.parametrize("wanted", [(100_000,), (0, 4000)])
def test_cores_that_are_not_there_are_a_clear_error(restored, wanted):
    with pytest.raises(UserError, match=r"rank 0 the cores .* cannot be used; usable:"):
        cores.bind(place(cores=wanted), "test")


def test_thread_pools_are_set_for_every_library(monkeypatch):
    for name in cores.THREAD_VARIABLES:
        monkeypatch.setenv(name, "77")
    cores.limit_threads(3)
    assert {os.environ[name] for name in cores.THREAD_VARIABLES} == {"3"}


def test_threads_in_force_are_counted():
    import numpy as np

    np.ones((2, 2)) @ np.ones((2, 2))
    assert (cores.counted_threads() or 0) >= 1
