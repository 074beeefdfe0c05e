import pytest

from dlbench.scenario.plugin_settings import RoleProcesses
from dlbench.worker.simulate.links import Links, hosts_of


def links(hosts: list[int]) -> Links:
    return Links(hosts, 0.5, 10.0, 0.125, 100.0)


def between(found: Links, now: float, source: int, to: int, num_bytes: int) -> float:
    return found.received_at(found.first_byte_at(now, source, num_bytes), to, num_bytes)


def test_a_message_alone_takes_alpha_and_bytes_over_beta() -> None:
    assert between(links([0, 1]), 2.0, 0, 1, 20) == 2.0 + 0.5 + 2.0


def test_messages_queue_at_the_sender() -> None:
    found = links([0, 1, 2])
    assert between(found, 0.0, 0, 1, 20) == 2.5
    assert between(found, 0.0, 0, 2, 20) == 4.5


def test_messages_queue_at_the_receiver() -> None:
    found = links([0, 1, 2])
    assert between(found, 0.0, 0, 2, 20) == 2.5
    assert between(found, 0.0, 1, 2, 20) == 4.5


def test_both_directions_of_an_interface_are_apart() -> None:
    found = links([0, 1])
    assert between(found, 0.0, 0, 1, 20) == between(found, 0.0, 1, 0, 20) == 2.5


def test_within_a_host_messages_cross_its_memory() -> None:
    found = links([0, 0, 1])
    assert found.is_local(0, 1)
    assert not found.is_local(0, 2)
    assert found.copied_at(0.0, 0, 50) == 0.625
    assert found.copied_at(0.0, 1, 50) == 1.125


@pytest.mark.parametrize(
    ("workers", "servers", "per_host", "beside", "expected"),
    [
        (3, 2, 1, False, [0, 1, 2, 3, 4]),
        (3, 2, 2, False, [0, 0, 1, 2, 3]),
        (3, 3, 2, True, [0, 0, 1, 0, 1, 0]),
    ],
)
def test_nodes_are_placed_on_hosts(workers: int, servers: int, per_host: int, beside: bool, expected: list) -> None:
    roles = [RoleProcesses("server", servers, has_own_slots=not beside)]
    assert hosts_of(workers, roles, per_host) == expected


def test_each_role_has_its_own_placement() -> None:
    roles = [RoleProcesses("server", 2, has_own_slots=True), RoleProcesses("coordinator", 1, has_own_slots=False)]
    assert hosts_of(3, [*roles, RoleProcesses("stage", 1, has_own_slots=True)], 2) == [0, 0, 1, 2, 3, 0, 4]
