import os

import pytest
from pydantic import ValidationError

from dlbench.errors import UserError
from dlbench.scenario.cluster import Cluster, Host, this_machine
from dlbench.scenario.cluster.host_list import parse_hostfile, parse_hosts


def test_this_machine_has_a_slot_for_each_usable_core() -> None:
    (host,) = this_machine().hosts
    assert host.cores == tuple(sorted(os.sched_getaffinity(0)))
    assert host.slots == len(host.cores)
    assert this_machine().is_here


def test_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {7, 3})
    assert this_machine().hosts == (Host(address="localhost", slots=2, cores=(3, 7)),)


def test_hosts_are_parsed_in_order() -> None:
    cluster = parse_hosts("b-1.example:4,10.0.0.7:2,[fe80::1]:1")
    assert [(host.address, host.slots) for host in cluster.hosts] == [
        ("b-1.example", 4),
        ("10.0.0.7", 2),
        ("[fe80::1]", 1),
    ]
    assert cluster.hosts[0].cores == ()
    assert cluster.hosts[0].num_cores == 4
    assert not cluster.is_here


def test_localhost_has_the_cores_of_this_machine() -> None:
    (host,) = parse_hosts("localhost:3").hosts
    assert host.slots == 3
    assert host.cores == tuple(sorted(os.sched_getaffinity(0)))


def test_typos_are_named(subtests: pytest.Subtests) -> None:
    for text, said in [
        ("a:4 b:4", "--hosts a:4,b:4"),
        ("a:4, b:4", "--hosts a:4,b:4"),
        ("a:4;b:4", "--hosts a:4,b:4"),
        ("a", "a:1, for one worker"),
        ("a,b:2", "'a' has no number of slots"),
        ("[::1]", "has no number of slots"),
        ("", "empty place"),
        ("a:1,", "empty place"),
        (":4", "is not an address"),
        ("-x:4", "is not an address"),
        ("a:b:4", "is not an address"),
        ("a$(x):4", "is not an address"),
        ("a:0", "is not a number of slots"),
        ("a:-1", "is not a number of slots"),
        ("a:", "is not a number of slots"),
        ("a:x", "is not a number of slots"),
        ("a:٣", "is not a number of slots"),
        ("a:99999999", "is not a number of slots"),
        ("a:1,a:2", "names 'a' twice"),
    ]:
        with subtests.test(text=text):
            with pytest.raises(UserError) as caught:
                parse_hosts(text)
            assert said in str(caught.value)


def test_a_cluster_made_in_python_is_validated_too() -> None:
    with pytest.raises(ValidationError):
        Cluster(hosts=())
    with pytest.raises(ValidationError, match="named twice: a"):
        Cluster(hosts=(Host(address="a", slots=1), Host(address="a", slots=1)))


def test_hostfiles_of_all_kinds() -> None:
    text = """# of Open MPI
    a slots=4 max_slots=8   # the first
    b.example:2

    10.0.0.7 slots = 3
    [fe80::1]
    queue-1
    queue-1
    queue-2
    localhost slots=1
    """
    cluster = parse_hostfile(text, "hosts")
    assert [(host.address, host.slots) for host in cluster.hosts] == [
        ("a", 4), ("b.example", 2), ("10.0.0.7", 3), ("[fe80::1]", 1), ("queue-1", 2), ("queue-2", 1), ("localhost", 1),
    ]  # fmt: skip
    assert cluster.hosts[-1].cores == tuple(sorted(os.sched_getaffinity(0)))


def test_what_is_wrong_in_a_hostfile_is_said_with_its_line(subtests: pytest.Subtests) -> None:
    for text, said in [
        ("a slots=4\n-x\n", "hosts:2: '-x' is not a host"),
        ("a slots=0", "hosts:1: 'a slots=0' is not a host"),
        ("a:4 b:4", "is not a host"),
        ("a$(x)", "is not a host"),
        ("a slots=٣", "is not a host"),
        ("# nothing\n\n", "hosts: names no host"),
        ("a:999999\na:999999\n", "hosts: "),
    ]:
        with subtests.test(text=text):
            with pytest.raises(UserError) as caught:
                parse_hostfile(text, "hosts")
            assert said in str(caught.value)
