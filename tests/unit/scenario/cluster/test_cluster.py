import os
import re
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from pydantic import ValidationError

from dlbench.errors import UserError
from dlbench.scenario.cluster import Cluster, Host, this_machine
from dlbench.scenario.cluster.cluster_file import ClusterOptions
from dlbench.scenario.cluster.host_list import parse_hostfile, parse_hosts


def test_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {7, 3})
    assert this_machine().hosts == (Host(address="localhost", slots=2, cores=(3, 7)),)
    assert this_machine().is_here
    assert parse_hosts("localhost:5").hosts == (Host(address="localhost", slots=5, cores=(3, 7)),)
    with pytest.raises(ValidationError, match="a is named twice: write it once, with all its slots: a:2"):
        Cluster(hosts=(Host(address="a", slots=1), Host(address="a", slots=1)))


def test_hosts_are_parsed_in_order() -> None:
    cluster = parse_hosts("b-1.example:4,10.0.0.7:2,[fe80::1]:1")
    assert [(host.address, host.slots) for host in cluster.hosts] == [
        ("b-1.example", 4), ("10.0.0.7", 2), ("[fe80::1]", 1),
    ]  # fmt: skip
    assert (cluster.hosts[0].cores, cluster.num_cores(cluster.hosts[0]), cluster.is_here) == ((), None, False)


def test_typos_are_named(subtests: pytest.Subtests) -> None:
    for text, said in [
        ("a:4 b:4", "--hosts a:4,b:4"),
        ("a", "a:1, for one worker"),
        ("a:1,", "empty place"),
        ("a$(x):4", "is not an address"),
        ("node1..node4:4", "'node1..node4' is not an address"),
        ("a:0", "'a:0' has no slots"),
        ("10.0.0.1:29500", "has 29500 slots: is that a port?"),
        ("[::1]:29500", "is that a port?"),
        ("gpu[01-03,07],login1", "'gpu[01-03,07]' is a list of Slurm's"),
        ("a:٣", "is not a number of slots"),
        ("a:99999999", "is not a number of slots"),
        ("a:1,a:2", "a is named twice: write it once, with all its slots: a:3"),
        ("localhost:8,127.0.0.1:8", "are the same host: write it once, with all its slots: localhost:16"),
        ("Gpu-A:1,b:1,gpu-a.:2", "Gpu-A and gpu-a. are the same host: write it once, with all its slots: Gpu-A:3"),
        ("[fe80::1]:1,[FE80:0::1]:2", "all its slots: [fe80::1]:3"),
        ("trainer@a:4", "names a user"),
        ("node-[1-3]:4", "does: --hosts a1:4,a2:4"),
        ("a slots=4", "hint: --hosts a:4"),
        ("a slots=4 b slots = 2", "hint: --hosts a:4,b:2"),
        ("a: 4", "hint: --hosts a:4"),
        ("node[1-3]", "a list of Slurm's"),
        ("user@a", "names a user"),
        ("a=4", "hint: hosts are written as --hosts a:4,b:4"),
        ("@file", "hint: hosts are written as --hosts a:4,b:4"),
        ("2001:db8::1:4", "hint: [2001:db8::1]:4"),
        ("29500", "has no number of slots"),
        ("2001:db8::1234", "hint: [2001:db8::1234]:1"),
        ("2001:db8:0:0:0:0:0:1", "hint: [2001:db8:0:0:0:0:0:1]:1"),
    ]:
        with subtests.test(text=text):
            with pytest.raises(UserError) as caught:
                parse_hosts(text)
            assert said in str(caught.value)


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
    for text, slots in (
        ("a 4 all.q@a UNDEFINED\nb 2 all.q@b <NULL>\n", [("a", 4), ("b", 2)]),  # Grid Engine
        ("launch slots=1\na\na\n", [("launch", 1), ("a", 2)]),
        ("a\nb\n", [("a", 1), ("b", 1)]),
        ("a:2\nb\na:2\n", [("a", 4), ("b", 1)]),
        ("hosts:4\nrank slots=2", [("hosts", 4), ("rank", 2)]),
        ("a max_slots=4\nb count=3\nc max_slots=0", [("a", 4), ("b", 3), ("c", 1)]),
    ):
        assert [(host.address, host.slots) for host in parse_hostfile(text, "hosts").hosts] == slots, text


def test_hosts_of_one_address_are_one_from_every_way_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "a": "192.0.2.1", "a.example": "192.0.2.1", "b": "192.0.2.2", "six": "2001:db8::1", "me.example": "127.0.0.1",
        "me-too.example": "192.0.2.9",
    }  # fmt: skip

    def look_up(name: str, *_: object, **__: object) -> list[Any]:
        if name.endswith(".wild"):
            return [(0, 0, 0, "", ("192.0.2.7", 0))]
        if name not in known and not re.fullmatch(r"[0-9.]+|[0-9a-f]*:[0-9a-f:.]+", name):
            raise socket.gaierror
        return [(0, 0, 0, "", (known.get(name, name), 0))]

    def interfaces() -> dict[str, list[Any]]:
        return {"lo": [SimpleNamespace(address="127.0.0.1")], "eth0": [SimpleNamespace(address="192.0.2.9")]}

    monkeypatch.setattr(psutil, "net_if_addrs", interfaces)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "gethostname", lambda: "Me")
    for hosts, said in (
        (("a", "a.example"), "a and a.example are the same host: write it once, with all its slots: a:8"),
        (("[2001:db8::1]", "six"), "[2001:db8::1]:8"),
        (("me", "localhost"), "me and localhost are the same host: write it once, with all its slots: localhost:8"),
        (("localhost", "me-too.example"), "localhost:8"),
        (("localhost", "127.0.1.1"), "localhost:8"),
        (("localhost", "[::ffff:127.0.0.1]"), "localhost:8"),
        # Whatever address a socket may be bound to.
        (("192.0.2.3", "192.0.2.4"), ""),
        # Any name there has the address.
        (("c.wild", "d.wild"), ""),
        (("c.wild", "192.0.2.7"), ""),
        # What cannot be looked up here may be known to ssh.
        (("nowhere", "somewhere"), ""),
    ):
        (tmp_path / "hostfile").write_text("".join(f"{host} slots=4\n" for host in hosts))
        listed = ", ".join(f"{{address: '{host}', slots: 4}}" for host in hosts)
        (tmp_path / "cluster.yaml").write_text(f"hosts: [{listed}]\n")
        ways = (
            ClusterOptions(hosts=",".join(f"{host}:4" for host in hosts)),
            ClusterOptions(hostfile=tmp_path / "hostfile"),
            ClusterOptions(cluster=tmp_path / "cluster.yaml"),
        )
        for way in ways:
            try:
                assert way.named() is not None
                message = ""
            except UserError as error:
                message = str(error)
            assert (said in message, bool(message)) == (True, bool(said)), way


def test_what_is_wrong_in_a_hostfile_is_said_with_its_line(subtests: pytest.Subtests) -> None:
    for text, said in [
        ("a slots=4\n-x\n", "hosts:2: '-x' is not a host"),
        ("# nothing\n\n", "hosts: names no host"),
        ("a 999999 q@a x\na 999999 q@a x\n", "hosts: "),
        ("a slots=2\nb\na slots=2\n", "hosts:3: a has two lines"),
        ("a\na slots=2\n", "hosts:2: a has two lines"),
        ("login slots=0\na slots=4\n", "hosts:1: 'login slots=0' has no slots"),
        ("2001:db8::1234 slots=4\n", "stands in brackets\n  hint: [2001:db8::1234] slots=4"),
        ("a:29500\n", "hosts:1: 'a:29500' has 29500 slots: is that a port?"),
        ("localhost\n127.0.0.1\n", "hosts: localhost and 127.0.0.1 are the same host: write it once"),
        ("a\ntrainer@10.0.0.7 slots=4\n", "hosts:2: 'trainer@10.0.0.7 slots=4' names a user"),
        ("rank 0=a slot=0:0\n", "hosts:1: 'rank 0=a slot=0:0' is not a host"),
        ("ml-16-node-[001-002]\n", "hosts:1: 'ml-16-node-[001-002]' is a list of Slurm's"),
        ("a 4 b 4\n", "hosts:1: 'a 4 b 4' is not a host"),
        ("a slots=4 max_slots=2\n", "hosts:1: 'a slots=4 max_slots=2' has two numbers of slots"),
        ("a slots=4 slots=4\n", "has two numbers of slots"),
        ("launch\na\na\nb\nb\n", "hosts: launch comes once and the others several times"),
    ]:
        with subtests.test(text=text):
            with pytest.raises(UserError) as caught:
                parse_hostfile(text, "hosts")
            assert said in str(caught.value)
