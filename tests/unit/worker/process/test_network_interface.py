"""All libraries get one network interface."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.records import interfaces
from dlbench.records.assignment import Assignment, Endpoint
from dlbench.records.interfaces import Route
from dlbench.scenario.layout import Layout
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.worker.process import network_interface
from dlbench.worker.process.network_interface import Interface, choose, facts
from tests.unit.launch.fakes import layout

INTERFACES = [
    Interface("lo", "127.0.0.1"),
    Interface("eth0", "10.1.0.5"),
    Interface("ib0", "10.2.0.5"),
    Interface("eth0", "fe80::5"),
]


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Give this host interfaces, and ways to others by the address it has on them."""
    monkeypatch.setattr(network_interface, "_all", lambda: INTERFACES)
    monkeypatch.setattr(network_interface, "_FABRICS", Path("/absent"))

    def ways(found: dict[str, str]) -> None:
        def route_to(name: str, family: int = 0) -> Route:
            if name not in found:
                raise OSError("no such host")
            interface = next((wire.name for wire in INTERFACES if wire.address == found[name]), "")
            return Route(name, found[name], interface)

        monkeypatch.setattr(interfaces, "route_to", route_to)

    ways({"b": "10.2.0.5"})
    return ways


def chosen(
    made: Layout,
    environment: dict[str, str] | None = None,
    endpoint: Endpoint | None = None,
    collectives: str | None = None,
) -> dict[str, str]:
    found = dict(environment or {})
    run = RunSpec(scenario="s", label="l", repeat=0, settings=Settings(workers=2, collectives=collectives))
    choose(Assignment(run=run, attempt=1, attempt_id="a", layout=made, endpoint=endpoint), 0, found)
    return found


def test_it_is_the_one_that_leads_to_the_other_hosts(host: Any) -> None:
    expected = {
        "DLBENCH_INTERFACE": "ib0",
        "DLBENCH_ADDRESS": "10.2.0.5",
        "FI_TCP_IFACE": "ib0",
        "FI_SOCKETS_IFACE": "ib0",
        "UCX_NET_DEVICES": "ib0",
        "NCCL_SOCKET_IFNAME": "=ib0",
        "GLOO_SOCKET_IFNAME": "ib0",
        "HOROVOD_GLOO_IFACE": "ib0",
        "OMPI_MCA_btl_tcp_if_include": "ib0",
    }
    assert chosen(layout("a", "b")) == expected
    assert chosen(layout("a", "a", interface="eth0")) == {}, "on one host nothing is chosen"
    # Hosts that cannot be found, or lead over loopback, are passed over.
    assert chosen(layout("a", "absent", "b")) == expected
    host({"b": "127.0.0.1", "c": "10.1.0.5"})
    assert chosen(layout("a", "b", "c"))["DLBENCH_INTERFACE"] == "eth0"
    assert chosen(layout("a", "b")) == {}
    # What dlbench calls localhost is where dlbench is.
    host({"localhost": "127.0.0.1", "10.1.0.1": "10.1.0.5"})
    endpoint = Endpoint(address="10.1.0.1", port=1, token="t")
    assert chosen(layout("b", "localhost"), endpoint=endpoint)["DLBENCH_INTERFACE"] == "eth0"
    # And a host that takes another's name for itself finds the route to the server.
    host({"b": "127.0.1.1", "10.1.0.1": "10.1.0.5"})
    assert chosen(layout("a", "b"), endpoint=endpoint)["DLBENCH_INTERFACE"] == "eth0"


def test_ucx_keeps_the_ports_of_a_fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_interface, "_FABRICS", tmp_path)
    assert "UCX_NET_DEVICES" not in chosen(layout("a", "b"))


def test_the_interface_of_the_cluster_file_is_taken() -> None:
    for choice, name in (("eth0", "eth0"), ("10.1.0.0/16", "eth0"), ("10.2.0.0/24", "ib0")):
        assert chosen(layout("a", "b", interface=choice))["NCCL_SOCKET_IFNAME"] == f"={name}"
    for choice in ("eth", "eth1", "10.3.0.0/16"):
        with pytest.raises(UserError, match=f"has no network interface {choice}") as caught:
            chosen(layout("a", "b", interface=choice))
        assert "ib0 (10.2.0.5)" in caught.value.hint


def test_rows_name_the_interface_that_the_users_variables_give_the_library() -> None:
    for collectives, environment, named in (
        ("mpi", {"OMPI_MCA_btl_tcp_if_include": "eth0"}, "eth0"),
        ("nccl", {"NCCL_SOCKET_IFNAME": "=eth0"}, "eth0"),
        ("gloo", {"HOROVOD_GLOO_IFACE": "eth0"}, "eth0"),
        # Another library's.
        ("mpi", {"NCCL_SOCKET_IFNAME": "=eth0"}, "ib0"),
        ("grpc", {"NCCL_SOCKET_IFNAME": "=eth0"}, "ib0"),
        # No interface's name: what carries the bytes is unknown, and they are not counted.
        ("mpi", {"OMPI_MCA_btl_tcp_if_include": "10.1.0.0/16,10.2.0.0/16"}, None),
    ):
        found = chosen(layout("a", "b"), environment, collectives=collectives)
        assert found.get("DLBENCH_INTERFACE") == named, (collectives, environment)
        assert found.items() >= environment.items()
    excluded = chosen(layout("a", "b"), {"OMPI_MCA_btl_tcp_if_exclude": "lo"})
    assert "OMPI_MCA_btl_tcp_if_include" not in excluded
    assert excluded["GLOO_SOCKET_IFNAME"] == "ib0"


def test_what_moves_the_bytes() -> None:
    for collectives, environment, transports in (
        ("mpi", {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm,tcp"}, "ob1 self,sm,tcp"),
        ("mpi", {}, None),
        ("nccl", {"NCCL_IB_DISABLE": "1"}, "NCCL_IB_DISABLE=1"),
        ("gloo", {}, "tcp"),
        ("grpc", {"OMPI_MCA_pml": "ob1"}, "tcp"),
        (None, {"OMPI_MCA_pml": "ob1"}, None),
    ):
        expected = {"interface": "ib0"} | ({} if transports is None else {"transports": transports})
        assert facts(environment | {"DLBENCH_INTERFACE": "ib0"}, collectives) == expected, (collectives, environment)
