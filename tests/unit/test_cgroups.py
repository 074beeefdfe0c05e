"""What control groups allow, from folders made like the kernel's."""

import os
from pathlib import Path

import pytest

from dlbench import cgroups

GROUP = "sys/fs/cgroup"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_tightest_limit_of_version_2_counts(tmp_path: Path) -> None:
    group = "sys/fs/cgroup"
    files = {
        "proc/self/cgroup": "0::/slice/job\n",
        f"{group}/slice/cpu.max": "150000 100000",
        f"{group}/slice/memory.max": "4096",
        f"{group}/slice/job/cpu.max": "max 100000",
        f"{group}/slice/job/memory.max": "max",
    }
    assert cgroups.describe_limits(tree(tmp_path, files)) == {"cpu_cores": 1.5, "memory_bytes": 4096}


def test_limits_of_version_1(tmp_path: Path) -> None:
    group = "sys/fs/cgroup"
    files = {
        "proc/self/cgroup": "4:memory:/job\n1:cpu:/job\n9:name=systemd:/\n",
        f"{group}/cpu/job/cpu.cfs_quota_us": "50000",
        f"{group}/cpu/job/cpu.cfs_period_us": "100000",
        f"{group}/cpu/cpu.cfs_quota_us": "-1",
        f"{group}/cpu/cpu.cfs_period_us": "100000",
        f"{group}/memory/job/memory.limit_in_bytes": str(1 << 30),
        f"{group}/memory/memory.limit_in_bytes": str((1 << 63) - 4096),
    }
    assert cgroups.describe_limits(tree(tmp_path, files)) == {"cpu_cores": 0.5, "memory_bytes": 1 << 30}
    (tmp_path / group / "memory/job/memory.limit_in_bytes").unlink()
    assert cgroups.describe_limits(tmp_path) == {"cpu_cores": 0.5, "memory_bytes": None}


def version_2(quota: str) -> dict[str, str]:
    """A container that sees its own group as the root, as Docker makes it."""
    return {"proc/self/cgroup": "0::/\n", f"{GROUP}/cpu.max": quota}


def version_1(quota: str, period: str) -> dict[str, str]:
    """A container that sees its group under the host's name for it, mounted as the root."""
    return {
        "proc/self/cgroup": "4:cpu,cpuacct:/docker/0123\n3:memory:/docker/0123\n",
        f"{GROUP}/cpu,cpuacct/cpu.cfs_quota_us": quota,
        f"{GROUP}/cpu,cpuacct/cpu.cfs_period_us": period,
    }


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        (version_2("200000 100000"), (1, 4)),
        (version_2("299999 100000"), (1, 4)),
        (version_2("50000 100000"), (1,)),
        (version_2("max 100000"), (1, 4, 6, 9)),
        (version_1("25000", "50000"), (1,)),
        (version_1("-1", "100000"), (1, 4, 6, 9)),
        ({}, (1, 4, 6, 9)),
    ],
)
def test_usable_cores_are_the_first_within_the_limit(
    files: dict[str, str], cores: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {9, 1, 6, 4})
    assert cgroups.usable_cores(tree(tmp_path, files)) == cores


def test_the_limit_on_processes_is_the_tightest_one(tmp_path: Path) -> None:
    assert cgroups.process_limit(tmp_path) is None
    files = {
        "proc/self/cgroup": "5:pids:/job\n0::/unified\n",
        f"{GROUP}/pids/job/pids.max": "max",
        f"{GROUP}/pids/pids.max": "900",
        f"{GROUP}/unified/pids.max": "700",
    }
    assert cgroups.process_limit(tree(tmp_path, files)) == 700


def test_the_kernel_counts_what_it_kills_for_lack_of_memory(tmp_path: Path) -> None:
    assert cgroups.oom_kills() >= 0
    assert cgroups.oom_kills(tmp_path) == 0
    vmstat = {"proc/vmstat": "nr_free_pages 9\noom_kill 4\noom_kill_other 7\n"}
    assert cgroups.oom_kills(tree(tmp_path, vmstat)) == 4
    groups = {
        "proc/self/cgroup": "4:memory:/job\n0::/job\n",
        f"{GROUP}/memory/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n",
        f"{GROUP}/job/memory.events": "low 0\noom 1\noom_kill 6\n",
    }
    assert cgroups.oom_kills(tree(tmp_path, groups)) == 6
    assert cgroups.oom_kills(tree(tmp_path / "damaged", {"proc/vmstat": "oom_kill\n"})) == 0


@pytest.mark.parametrize(
    ("own_groups", "folder", "files"),
    [
        # Version 1: below the own group, of the `cpu` controller and not of `cpuset`.
        (
            "5:cpuset:/elsewhere\n2:cpu,cpuacct:/user.slice\n0::/init.scope\n",
            "cpu,cpuacct/user.slice",
            {"cpu.cfs_quota_us": "2500\n", "cpu.cfs_period_us": "10000\n"},
        ),
        # A container of version 1 sees its own group as the top.
        ("2:cpu:/docker/abc\n", "cpu", {"cpu.cfs_quota_us": "2500\n", "cpu.cfs_period_us": "10000\n"}),
        # Version 2: beside the own group, or below the top.
        ("0::/user.slice/session\n", "user.slice", {"cpu.max": "2500 10000\n"}),
        ("0::/\n", "", {"cpu.max": "2500 10000\n"}),
    ],
)
def test_a_process_enters_a_group_of_its_own(
    tmp_path: Path, own_groups: str, folder: str, files: dict[str, str]
) -> None:
    for own in ("cpu,cpuacct/user.slice", "cpuset/elsewhere", "cpu", "user.slice/session", ""):
        tree(tmp_path, {f"{GROUP}/{own}/cgroup.procs": "1\n"})
    for own in ("user.slice/session", ""):
        tree(tmp_path, {f"{GROUP}/{own}/cgroup.controllers": "cpuset cpu memory\n"})
    tree(tmp_path, {"proc/self/cgroup": own_groups})
    assert cgroups.enter_group("x-0", 0.25, tmp_path)
    group = tmp_path / GROUP / folder / "dlbench-x-0"
    found = {path.name: path.read_text() for path in group.iterdir()}
    assert found == {**files, "cgroup.procs": f"{os.getpid()}\n"}


def test_without_a_controller_or_the_right_to_write_there_is_no_group(tmp_path: Path) -> None:
    assert not cgroups.enter_group("x-0", 0.5, tmp_path)
    tree(tmp_path, {"proc/self/cgroup": "0::/\n", f"{GROUP}/cgroup.procs": "1\n"})
    assert not cgroups.enter_group("x-0", 0.5, tmp_path), "version 2 without the `cpu` controller"
    tree(tmp_path, {f"{GROUP}/cgroup.controllers": "cpu\n", f"{GROUP}/dlbench-x-0": "a file in the way"})
    assert not cgroups.enter_group("x-0", 0.5, tmp_path)


def test_groups_of_ended_workers_are_swept(tmp_path: Path) -> None:
    for name in ("dlbench-old-0", "dlbench-busy-0", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "dlbench-busy-0" / "cgroup.procs").write_text("1\n")
    cgroups.sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dlbench-busy-0", "other"]


def test_quota_and_period_stay_within_what_the_kernel_takes(tmp_path: Path) -> None:
    tree(
        tmp_path, {"proc/self/cgroup": "0::/\n", f"{GROUP}/cgroup.procs": "1\n", f"{GROUP}/cgroup.controllers": "cpu\n"}
    )
    for quota, text in {0.5: "5000 10000", 0.05: "1000 20000", 0.0001: "1000 1000000"}.items():
        assert cgroups.enter_group(str(quota), quota, tmp_path)
        assert cgroups.read(tmp_path / GROUP / f"dlbench-{quota}" / "cpu.max") == text
