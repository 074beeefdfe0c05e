"""Processes that are not where the layout puts them are told from those whose place cannot be proven."""

from collections.abc import Callable

import pytest

from dlbench.records import interfaces
from dlbench.records.interfaces import Route
from dlbench.scenario.layout import Layout, Place
from dlbench.worker.process import placement


def layout(*hosts: str) -> Layout:
    places = tuple(Place(rank=rank, workers=(rank,), host=host) for rank, host in enumerate(hosts))
    return Layout(places=places, intra_op_threads=1, inter_op_threads=1)


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Be the host with the address 10.0.0.1, called `a`, as seen from itself; b is another one."""
    monkeypatch.setattr(interfaces, "addresses", lambda: {"127.0.0.1": "lo", "10.0.0.1": "eth0"})

    def resolve(found: dict[str, str]) -> None:
        def route_to(name: str, family: int = 0) -> Route:
            if name not in found:
                raise interfaces.UnknownNameError(name)
            return Route(found[name], "10.0.0.1", "eth0")

        monkeypatch.setattr(interfaces, "route_to", route_to)

    resolve({"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"})
    return resolve


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        (("a", "b"), ["node1", "node2"]),
        (("a", "a", "b"), ["node1", "node1", "node2"]),
        (("localhost", "b"), ["node1", "node2"]),
        (("localhost",), ["node1"]),
    ],
)
def test_who_is_in_place(hosts: tuple[str, ...], names: list[str]) -> None:
    placement.check(layout(*hosts), 0, names)


def test_another_number_of_hosts() -> None:
    with pytest.raises(RuntimeError, match=r"workers on 2 hosts, they are on node1$"):
        placement.check(layout("a", "b"), 0, ["node1", "node1"])
    with pytest.raises(RuntimeError, match=r"workers on 1 hosts, they are on node1, node2$"):
        placement.check(layout("a", "a"), 0, ["node2", "node1"])


def test_servers_need_no_workers_beside_them() -> None:
    server = Place(rank=2, role="server", workers=(), host="c")
    placement.check(layout("a", "b").model_copy(update={"places": (*layout("a", "b").places, server)}), 0, ["n", "m"])


def test_others_together() -> None:
    with pytest.raises(RuntimeError, match=r"^processes 0 and 1 belong on a and are on node1 and node2$"):
        placement.check(layout("a", "a", "b", "b"), 0, ["node1", "node2", "node1", "node2"])


def test_on_another_s_host() -> None:
    placement.check(layout("b", "a"), 1, ["node1", "node2"])
    with pytest.raises(RuntimeError, match=r"^process 0 belongs on b and is on a$"):
        placement.check(layout("b", "a"), 0, ["node1", "node2"])


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"b": "198.51.100.2", "a": "198.51.100.1"},
        {"b": "127.0.1.1", "a": "10.0.0.1"},
        {"b": "10.0.0.2", "a": "127.0.1.1"},
    ],
)
def test_what_proves_nothing(host: Callable[[dict[str, str]], None], found: dict[str, str]) -> None:
    host(found)
    placement.check(layout("b", "a"), 0, ["node1", "node2"])
