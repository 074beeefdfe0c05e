import os
import threading

import pytest

from dlbench.errors import UserError
from dlbench.scenario.layout import Place
from dlbench.worker import cores
from dlbench.worker.cores import Controller

V1_MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
33 31 0:30 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
32 31 0:29 / {root}/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / {root}/unified rw,relatime - cgroup2 cgroup2 rw
"""


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


def test_version_one_is_found_by_its_option_and_not_by_cpuset(tmp_path):
    mounts = V1_MOUNTS.format(root=tmp_path)
    groups = "5:cpuset:/elsewhere\n2:cpuacct,cpu:/user.slice\n0::/init.scope\n"
    found = cores.find_controller(mounts, groups)
    assert found == Controller(1, tmp_path / "cpu,cpuacct", tmp_path / "cpu,cpuacct" / "user.slice")
    assert found.parents() == (found.own,)


def test_a_path_with_a_space_is_unescaped(tmp_path):
    mounts = V1_MOUNTS.format(root=str(tmp_path) + "/a\\040b")
    found = cores.find_controller(mounts, "2:cpu:/\n")
    assert found.root == tmp_path / "a b" / "cpu,cpuacct"


def test_version_two_wants_the_controller_to_be_there(tmp_path):
    mounts = f"29 1 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw,nsdelegate\n"
    own = tmp_path / "user.slice" / "session"
    own.mkdir(parents=True)
    assert cores.find_controller(mounts, "0::/user.slice/session\n") is None
    (own / "cgroup.controllers").write_text("cpuset cpu memory\n")
    found = cores.find_controller(mounts, "0::/user.slice/session\n")
    assert found == Controller(2, tmp_path, own)
    assert found.parents() == (tmp_path / "user.slice",)


def test_a_container_sees_its_own_group_as_the_root(tmp_path):
    mounts = f"29 1 0:26 /docker/abc {tmp_path} rw - cgroup cgroup rw,cpu\n"
    found = cores.find_controller(mounts, "2:cpu:/docker/abc\n")
    assert found.own == tmp_path


def test_without_control_groups_there_is_none():
    assert cores.find_controller("31 23 0:28 / / rw - ext4 /dev/vda rw\n", "0::/\n") is None


def test_a_group_gets_quota_and_process(tmp_path):
    (tmp_path / "leaf").mkdir()
    assert cores.enter_group(Controller(2, tmp_path, tmp_path / "leaf"), "dlbench-x-0", 0.5)
    group = tmp_path / "dlbench-x-0"
    assert (group / "cpu.max").read_text() == "5000 10000\n"
    assert (group / "cgroup.procs").read_text() == f"{os.getpid()}\n"
    assert cores.enter_group(Controller(1, tmp_path, tmp_path), "dlbench-x-1", 0.25)
    assert (tmp_path / "dlbench-x-1" / "cpu.cfs_quota_us").read_text() == "2500\n"
    assert (tmp_path / "dlbench-x-1" / "cpu.cfs_period_us").read_text() == "10000\n"


def test_a_tree_that_cannot_be_written_is_no_error(tmp_path):
    assert not cores.enter_group(Controller(1, tmp_path / "gone", tmp_path / "gone"), "dlbench-x-0", 0.5)


def test_groups_of_ended_workers_are_swept(tmp_path):
    for name in ("dlbench-old-0", "dlbench-busy-0", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "dlbench-busy-0" / "cgroup.procs").write_text("1\n")
    cores.sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dlbench-busy-0", "other"]


@pytest.mark.parametrize(
    ("quota", "expected"), [(0.5, (10_000, 5_000)), (0.05, (20_000, 1_000)), (0.0001, (1_000_000, 1_000))]
)
def test_quota_and_period_stay_within_what_the_kernel_takes(quota, expected):
    assert cores.period_and_quota(quota) == expected


def test_thread_pools_are_set_for_every_library(monkeypatch):
    for name in cores.THREAD_VARIABLES:
        monkeypatch.setenv(name, "77")
    cores.limit_threads(3)
    assert {os.environ[name] for name in cores.THREAD_VARIABLES} == {"3"}


def test_threads_in_force_are_counted():
    import numpy as np

    np.ones((2, 2)) @ np.ones((2, 2))
    assert (cores.counted_threads() or 0) >= 1
