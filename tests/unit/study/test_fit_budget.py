import pytest

from dlbench.scenario.settings import Settings
from dlbench.study.fit_budget import MARGIN, RESERVE_BYTES, WORKER_BYTES, memory_of_a_trial, memory_of_one_worker

GIB = 2**30


@pytest.fixture
def host(tmp_path):
    """Return a function that makes the files of a host with so much memory."""

    def make(total, free, limit=None):
        (tmp_path / "proc/self").mkdir(parents=True)
        lines = {"MemTotal": total, "MemFree": 1, "MemAvailable": free}
        text = "".join(f"{name}:  {value // 1024} kB\n" for name, value in lines.items())
        (tmp_path / "proc/meminfo").write_text(text)
        if limit is not None:
            (tmp_path / "proc/self/cgroup").write_text("0::/box\n")
            (tmp_path / "sys/fs/cgroup/box").mkdir(parents=True)
            (tmp_path / "sys/fs/cgroup/box/memory.max").write_text(f"{limit}\n")
        return tmp_path

    return make


def test_what_is_free_less_a_reserve_is_shared(host):
    root = host(64 * GIB, 32 * GIB)
    whole = memory_of_one_worker(Settings(), 1, root)
    assert 32 * GIB * 15 / 16 - RESERVE_BYTES - 4 * GIB <= whole <= 32 * GIB * 15 / 16 - RESERVE_BYTES
    assert memory_of_one_worker(Settings(), 4, root) == whole // 4


def test_a_little_more_or_less_free_memory_is_the_same(tmp_path, host):
    root = host(64 * GIB, 32 * GIB)
    before = memory_of_one_worker(Settings(), 2, root)
    text = (root / "proc/meminfo").read_text()
    (root / "proc/meminfo").write_text(text.replace(str(32 * GIB // 1024), str(32 * GIB // 1024 + 50_000)))
    assert memory_of_one_worker(Settings(), 2, root) == before


def test_the_control_group_s_limit_counts(host):
    assert memory_of_one_worker(Settings(), 1, host(64 * GIB, 60 * GIB, limit=4 * GIB)) < 4 * GIB


def test_a_limit_that_is_asked_for_counts_where_it_is_less(host):
    root = host(64 * GIB, 32 * GIB)
    assert memory_of_one_worker(Settings(memory_limit_bytes=10**9), 2, root) == 10**9
    assert memory_of_one_worker(Settings(memory_limit_bytes=500 * GIB), 2, root) < 16 * GIB


def test_a_trial_has_less_than_a_worker():
    assert memory_of_a_trial(10 * GIB) == int(10 * GIB * (1 - MARGIN)) - WORKER_BYTES
    assert memory_of_a_trial(2**20) == 1
