"""Network interfaces of this machine, and which of them leads where."""

from pathlib import Path

import pytest

from dlbench.records.interfaces import Route, address_on, addresses, interface_of, route_to


def has_own_ipv6_address() -> bool:
    addresses = Path("/proc/net/if_inet6")
    return addresses.exists() and f"{1:032x}" in addresses.read_text()


def test_this_machine_has_a_loopback_interface() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert addresses()["127.0.0.1"] == "lo"
    assert address_on("lo") == address_on("127.0.0.0/8") == "127.0.0.1"
    assert interface_of("192.0.2.1") == ""
    assert route_to("127.0.0.1") == Route("127.0.0.1", "127.0.0.1", "lo")


def test_an_interface_that_is_not_there() -> None:
    with pytest.raises(OSError, match=r"no address on absent0; its interfaces are .*lo"):
        address_on("absent0")
    with pytest.raises(OSError, match=r"the name nosuch\.invalid is not known"):
        route_to("nosuch.invalid")


@pytest.mark.parametrize(("address", "expected"), [("127.0.1.1", True), ("::1", True), ("fe80::1%eth0", False)])
def test_an_address_that_leads_back(address: str, expected: bool) -> None:
    assert Route(address, "", "").is_loopback is expected
    assert Route(address, "", "").as_json()["is_loopback"] is expected


@pytest.mark.skipif(not has_own_ipv6_address(), reason="the kernel has no ::1")
def test_an_address_may_stand_in_brackets() -> None:
    assert route_to("[::1]") == Route("::1", "::1", "lo")
