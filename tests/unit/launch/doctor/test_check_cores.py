"""Slots, limits and threads."""

from typing import Any

import pytest

from dlbench.launch.doctor.check_cores import limits, slots, threads
from dlbench.scenario.cluster import Host
from tests.unit.launch.doctor.facts import GIB, facts, of, two


def test_more_slots_than_cores_or_gpus() -> None:
    found = two(slots=5)
    (remark,) = of(slots(found, found.hosts[1]))
    assert remark == (
        "warn",
        "5 slots on 4 cores: workers would share them, and runs are marked as oversubscribed",
        "--hosts a:2,b:4",
    )
    found = two(slots=3, told={"machine/gpus": [{"name": "H100"}] * 2})
    (remark,) = of(slots(found, found.hosts[1]))
    assert (remark[0], remark[2]) == ("warn", "--hosts a:2,b:2")
    assert remark[1].startswith("3 slots on 2 GPUs and 4 cores")


def test_cores_that_are_said_must_be_there_and_count() -> None:
    other = Host(address="b", slots=1, cores=(2, 9))
    found = facts(Host(address="a", slots=1), other)
    assert of(slots(found, found.hosts[1])) == [
        ("fail", "has no core 9 that may be used; there are 0, 1, 2, 3", "ssh b 'taskset -cp $$'")
    ]
    found = facts(Host(address="a", slots=1), other.model_copy(update={"cores": (2,), "slots": 2}))
    assert of(slots(found, found.hosts[1]))[0][1].startswith("2 slots on 1 core:")


def test_hosts_of_one_kernel_share_its_cores() -> None:
    found = two(slots=3, told={"kernel": "kernel 0"})
    (remark,) = of(slots(found, found.hosts[1]))
    assert remark[0] == "warn"
    assert remark[1].startswith("a, b run on one machine and share its 4 cores for 5 slots")
    found = two(slots=3, told={"kernel": ""})
    assert of(slots(found, found.hosts[1]))[0][0] == "pass", "nobody knows whether they are one"


def test_hosts_of_one_kernel_must_get_other_cores() -> None:
    found = two(slots=2, told={"kernel": "kernel 0"})
    for asked in found.hosts:
        (remark,) = of(slots(found, asked))
        assert remark[0] == "warn"
        assert remark[1].startswith("a, b run on one machine, and workers of several would get the same cores of it")
        assert remark[2].endswith(
            "hosts: [{address: a, slots: 2, cores: [0, 1]}, {address: b, slots: 2, cores: [2, 3]}]"
        )
    cores = ((0, 1), (2, 3))
    mended = facts(
        *(Host(address=name, slots=2, cores=own) for name, own in zip("ab", cores, strict=True)),
        told={"kernel": "kernel 0"},
    )
    assert [of(slots(mended, asked))[0][0] for asked in mended.hosts] == ["pass", "pass"]


def test_a_host_of_the_same_kernel_with_cores_of_its_own_is_well() -> None:
    hosts = (Host(address="a", slots=1), Host(address="b", slots=1), Host(address="c", slots=1, cores=(5,)))
    found = facts(*hosts, told={"kernel": "kernel 0", "cores": [0, 1, 2, 3, 4, 5]})
    assert of(slots(found, found.hosts[2])) == [("pass", "1 slot on 1 core", "")]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, [("pass", "no control group limits cores or memory")]),
        (
            {"machine/limits": {"cpu_cores": 2.5, "memory_bytes": 4 * GIB}},
            [("pass", "limited to 2.5 cores and 4.0 GiB")],
        ),
        ({"machine/limits/cpu_cores": 1.5}, [("warn", "its control group may use 1.5 cores for 2 slots")]),
        ({"machine/limits/memory_bytes": GIB}, [("warn", "1.0 GiB of memory for 2 slots")]),
        ({"machine/memory/total_bytes": GIB}, [("warn", "1.0 GiB of memory for 2 slots")]),
        ({"machine": {"error": "no answer within 8 s"}}, [("pass", "no control group")]),
    ],
)
def test_limits(told: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    found = two(told=told)
    remarks = of(limits(found, found.hosts[1]))
    assert [remark[0] for remark in remarks] == [verdict for verdict, _ in expected]
    for remark, (_, text) in zip(remarks, expected, strict=True):
        assert remark[1].startswith(text)


def test_variables_elsewhere_reach_workers_and_those_here_do_not() -> None:
    variables = {"OMP_NUM_THREADS": "7"}
    found = two(told={"variables": variables})
    (remark,) = of(threads(found, found.hosts[1]))
    assert remark[0] == "warn"
    assert "OMP_NUM_THREADS=7" in remark[1]
    assert remark[2].startswith("ssh b 'grep -rnsE OMP_NUM_THREADS ~/.bashrc ")
    found = facts(Host(address="localhost", slots=1), told={"variables": variables})
    assert of(threads(found, found.hosts[0])) == [("pass", "OMP_NUM_THREADS=7: taken out of runs", "")]


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"limits/processes": 399}, "399 processes and threads are allowed (ulimit -u), runs may need 400"),
        ({"limits/group_processes": 100}, "100 processes and threads are allowed by the control group"),
        ({"limits/files": 1023}, "1023 open files are allowed (ulimit -n), runs may need 1024"),
    ],
)
def test_too_few_of_something(told: dict[str, Any], text: str) -> None:
    found = two(told=told)
    (remark,) = of(threads(found, found.hosts[1]))
    assert remark[0] == "warn"
    assert remark[1].startswith(text)
