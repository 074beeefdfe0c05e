"""Disks and shared memory."""

from typing import Any

import pytest

from dlbench.launch.doctor.check_room import disk, shared_memory
from tests.unit.launch.doctor.facts import of, two

MIB = 1 << 20


def folder(free_bytes: int, **others: Any) -> dict[str, Any]:
    return {"path": "/cache", "free_bytes": free_bytes, "is_writable": True, **others}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (folder(3 << 30), "pass"),
        (folder(2047 * MIB), "warn"),
        (folder(15 * MIB), "fail"),
        (folder(3 << 30, is_writable=False), "fail"),
        ({"error": "no answer within 8 s"}, "fail"),
    ],
)
def test_room_for_data_sets_on_every_host(told: dict[str, Any], expected: str) -> None:
    found = two(told={"folders.cache": told})
    (remark,) = of(disk(found, found.hosts[1]))
    assert remark[0] == expected


def test_studies_lie_on_this_machine_only() -> None:
    found = two(told={"folders.studies": folder(0)})
    assert of(disk(found, found.hosts[1]))[0][0] == "pass"
    here = found.hosts[0]
    assert "GiB free for studies in /work/studies; " in of(disk(found, here))[0][1]


@pytest.mark.parametrize(
    ("container", "mend"),
    [("docker", "docker run --shm-size=1g ..."), (None, "ssh b 'sudo mount -o remount,size=1g /dev/shm'")],
)
def test_shared_memory_of_a_container(container: str | None, mend: str) -> None:
    told = {"shared_memory": {"total_bytes": 64 * MIB}, "machine/virtualisation/container": container}
    found = two(told=told)
    (remark,) = of(shared_memory(found, found.hosts[1]))
    assert (remark[0], remark[2]) == ("warn", mend)
    assert remark[1] == "/dev/shm has 64 MiB; MPI and NCCL may need 128 MiB for the slots there"
