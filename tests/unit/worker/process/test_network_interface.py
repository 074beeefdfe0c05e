"""All libraries are told one network interface."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.records import interfaces
from dlbench.records.assignment import Assignment, Endpoint
from dlbench.records.interfaces import Route
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.worker.process import network_interface
from dlbench.worker.process.network_interface import Interface, choose, facts

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


def layout(*hosts: str, interface: str = "") -> Layout:
    places = tuple(Place(rank=rank, workers=(rank,), host=name) for rank, name in enumerate(hosts))
    return Layout(places=places, intra_op_threads=1, inter_op_threads=1, interface=interface)


def chosen(
    made: Layout,
    environment: dict[str, str] | None = None,
    endpoint: Endpoint | None = None,
    collectives: str | None = None,
) -> dict[str, str]:
    found = {} if environment is None else environment
    run = RunSpec(scenario="s", label="l", repeat=0, settings=Settings(workers=2, collectives=collectives))
    choose(Assignment(run=run, attempt=1, attempt_id="a", layout=made, endpoint=endpoint), 0, found)
    return found


def test_it_is_the_one_that_leads_to_the_other_hosts() -> None:
    assert chosen(layout("a", "b")) == {
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


def test_ucx_keeps_the_ports_of_a_fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_interface, "_FABRICS", tmp_path)
    assert "UCX_NET_DEVICES" not in chosen(layout("a", "b"))


def test_what_dlbench_calls_localhost_is_where_dlbench_is(host: Any) -> None:
    host({"localhost": "127.0.0.1", "10.1.0.1": "10.1.0.5"})
    endpoint = Endpoint(address="10.1.0.1", port=1, token="t")
    assert chosen(layout("b", "localhost"), endpoint=endpoint)["DLBENCH_INTERFACE"] == "eth0"
    # And whoever takes another's name for itself finds the way to the server.
    host({"b": "127.0.1.1", "10.1.0.1": "10.1.0.5"})
    assert chosen(layout("a", "b"), endpoint=endpoint)["DLBENCH_INTERFACE"] == "eth0"


@pytest.mark.parametrize(
    ("collectives", "said", "named"),
    [
        ("mpi", {"OMPI_MCA_btl_tcp_if_include": "eth0"}, "eth0"),
        ("nccl", {"NCCL_SOCKET_IFNAME": "=eth0"}, "eth0"),
        ("gloo", {"HOROVOD_GLOO_IFACE": "eth0"}, "eth0"),
        # Another library's.
        ("mpi", {"NCCL_SOCKET_IFNAME": "=eth0"}, "ib0"),
        ("grpc", {"NCCL_SOCKET_IFNAME": "=eth0"}, "ib0"),
        # No interface's name: nobody knows what carries the bytes, and nobody counts them.
        ("mpi", {"OMPI_MCA_btl_tcp_if_include": "10.1.0.0/16,10.2.0.0/16"}, None),
    ],
)
def test_rows_name_the_interface_that_the_library_was_told(
    collectives: str, said: dict[str, str], named: str | None
) -> None:
    assert chosen(layout("a", "b"), dict(said), collectives=collectives).get("DLBENCH_INTERFACE") == named


def test_on_one_host_nothing_is_chosen() -> None:
    assert chosen(layout("a", "a", interface="eth0")) == {}


@pytest.mark.parametrize(("choice", "name"), [("eth0", "eth0"), ("10.1.0.0/16", "eth0"), ("10.2.0.0/24", "ib0")])
def test_what_the_cluster_says_is_taken(choice: str, name: str) -> None:
    assert chosen(layout("a", "b", interface=choice))["NCCL_SOCKET_IFNAME"] == f"={name}"


@pytest.mark.parametrize("choice", ["eth", "eth1", "10.3.0.0/16"])
def test_an_interface_that_is_not_there_is_said_with_those_that_are(choice: str) -> None:
    with pytest.raises(UserError, match=f"has no network interface {choice}") as caught:
        chosen(layout("a", "b", interface=choice))
    assert "ib0 (10.2.0.5)" in caught.value.hint


def test_hosts_that_cannot_be_found_or_lead_over_loopback_are_passed_over(host: Any) -> None:
    assert chosen(layout("a", "absent", "b"))["DLBENCH_INTERFACE"] == "ib0"
    host({"b": "127.0.0.1", "c": "10.1.0.5"})
    assert chosen(layout("a", "b", "c"))["DLBENCH_INTERFACE"] == "eth0"
    assert chosen(layout("a", "b")) == {}


def test_what_a_user_has_set_stays() -> None:
    environment = {"NCCL_SOCKET_IFNAME": "bond", "OMPI_MCA_btl_tcp_if_exclude": "lo"}
    found = chosen(layout("a", "b"), environment)
    assert found["NCCL_SOCKET_IFNAME"] == "bond"
    assert "OMPI_MCA_btl_tcp_if_include" not in found
    assert found["GLOO_SOCKET_IFNAME"] == "ib0"


@pytest.mark.parametrize(
    ("collectives", "environment", "transports"),
    [
        ("mpi", {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm,tcp"}, "ob1 self,sm,tcp"),
        ("mpi", {}, None),
        ("nccl", {"NCCL_IB_DISABLE": "1"}, "NCCL_IB_DISABLE=1"),
        ("gloo", {}, "tcp"),
        ("grpc", {"OMPI_MCA_pml": "ob1"}, "tcp"),
        (None, {"OMPI_MCA_pml": "ob1"}, None),
    ],
)
def test_what_moves_the_bytes(collectives: str | None, environment: dict[str, str], transports: str | None) -> None:
    found = facts(environment | {"DLBENCH_INTERFACE": "ib0"}, collectives)
    assert found == {"interface": "ib0"} | ({} if transports is None else {"transports": transports})
