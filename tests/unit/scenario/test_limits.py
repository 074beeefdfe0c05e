"""What control groups allow, from folders made like the kernel's."""

import os
from pathlib import Path

import pytest

from dlbench.scenario import limits

GROUP = "sys/fs/cgroup"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert limits.describe_limits(tmp_path) == {"cpu_cores": None, "memory_bytes": None}


def test_the_tightest_limit_of_version_2_counts(tmp_path: Path) -> None:
    group = "sys/fs/cgroup"
    files = {
        "proc/self/cgroup": "0::/slice/job\n",
        f"{group}/slice/cpu.max": "150000 100000",
        f"{group}/slice/memory.max": "4096",
        f"{group}/slice/job/cpu.max": "max 100000",
        f"{group}/slice/job/memory.max": "max",
    }
    assert limits.describe_limits(tree(tmp_path, files)) == {"cpu_cores": 1.5, "memory_bytes": 4096}


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
    assert limits.describe_limits(tree(tmp_path, files)) == {"cpu_cores": 0.5, "memory_bytes": 1 << 30}
    (tmp_path / group / "memory/job/memory.limit_in_bytes").unlink()
    assert limits.describe_limits(tmp_path) == {"cpu_cores": 0.5, "memory_bytes": None}


def version_2(quota: str) -> dict[str, str]:
    """A container that sees its own group as the root, as Docker makes it."""
    return {"proc/self/cgroup": "0::/\n", f"{GROUP}/cpu.max": quota}


def version_1(quota: str, period: str) -> dict[str, str]:
    """A container that is told its group by the host's name for it, and has it mounted as the root."""
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
        (version_2("6400000 100000"), (1, 4, 6, 9)),
        (version_2("max 100000"), (1, 4, 6, 9)),
        (version_1("200000", "100000"), (1, 4)),
        (version_1("25000", "50000"), (1,)),
        (version_1("-1", "100000"), (1, 4, 6, 9)),
        ({}, (1, 4, 6, 9)),
    ],
)
def test_usable_cores_are_the_first_within_the_limit(
    files: dict[str, str], cores: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {9, 1, 6, 4})
    assert limits.usable_cores(tree(tmp_path, files)) == cores
