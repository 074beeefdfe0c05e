"""Processes that are not where the layout puts them are refused; those whose place cannot be proven are not."""

from collections.abc import Callable

import pytest

from dlbench.records import interfaces
from dlbench.records.interfaces import Route
from dlbench.scenario.layout import Place
from dlbench.worker.process import placement
from tests.unit.launch.fakes import layout


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


def test_who_is_in_place() -> None:
    for hosts, rank, names in (
        (("a", "b"), 0, ["node1", "node2"]),
        (("a", "a", "b"), 0, ["node1", "node1", "node2"]),
        (("localhost", "b"), 0, ["node1", "node2"]),
        (("localhost",), 0, ["node1"]),
        (("b", "a"), 1, ["node1", "node2"]),
    ):
        placement.check(layout(*hosts), rank, names)
    server = Place(rank=2, role="server", workers=(), host="c")
    beside = layout("a", "b").model_copy(update={"places": (*layout("a", "b").places, server)})
    placement.check(beside, 0, ["n", "m"])


def test_who_is_not() -> None:
    for hosts, names, message in (
        (("a", "b"), ["node1", "node1"], "workers on 2 hosts, they are on node1$"),
        (("a", "a"), ["node2", "node1"], "workers on 1 hosts, they are on node1, node2$"),
        (("a", "a", "b", "b"), ["node1", "node2"] * 2, "^processes 0 and 1 belong on a and are on node1 and node2$"),
        (("b", "a"), ["node1", "node2"], "^process 0 belongs on b and is on a$"),
    ):
        with pytest.raises(RuntimeError, match=message):
            placement.check(layout(*hosts), 0, names)


def test_what_proves_nothing(host: Callable[[dict[str, str]], None]) -> None:
    for found in (
        {},
        {"b": "198.51.100.2", "a": "198.51.100.1"},
        {"b": "127.0.1.1", "a": "10.0.0.1"},
        {"b": "10.0.0.2", "a": "127.0.1.1"},
    ):
        host(found)
        placement.check(layout("b", "a"), 0, ["node1", "node2"])
