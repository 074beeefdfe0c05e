import pytest

from dlbench.communicators.simulated import SimulatedOptions
from dlbench.scenario.plugin_settings import RoleProcesses
from dlbench.worker.simulate.links import Links, hosts_of


def links(hosts: list[int]) -> Links:
    machines = SimulatedOptions(
        latency_s=0.5, bandwidth_bytes_per_s=10, host_latency_s=0.125, host_bandwidth_bytes_per_s=100
    )
    return Links(hosts, machines)


def between(found: Links, now: float, source: int, to: int, num_bytes: int) -> float:
    return found.received_at(found.first_byte_at(now, source, num_bytes), to, num_bytes)


@pytest.mark.parametrize(
    ("first", "second", "arrives"),
    [
        ((0, 1), (0, 2), 6.5),  # behind another at the sender
        ((0, 2), (1, 2), 6.5),  # behind another at the receiver
        ((0, 1), (1, 0), 4.5),  # the directions of an interface are apart
    ],
)
def test_messages_queue_at_each_interface(first: tuple[int, int], second: tuple[int, int], arrives: float) -> None:
    found = links([0, 1, 2])
    assert between(found, 2.0, *first, 20) == 2.0 + 0.5 + 2.0, "alpha, and bytes over beta"
    assert between(found, 2.0, *second, 20) == arrives


def test_within_a_host_messages_cross_its_memory() -> None:
    found = links([0, 0, 1])
    assert found.is_local(0, 1)
    assert not found.is_local(0, 2)
    assert found.copied_at(0.0, 0, 50) == 0.625
    assert found.copied_at(0.0, 1, 50) == 1.125


def test_workers_fill_hosts_and_each_role_has_its_own_hosts_or_theirs() -> None:
    roles = [
        RoleProcesses("server", 2, has_own_slots=True),
        RoleProcesses("coordinator", 2, has_own_slots=False),
        RoleProcesses("stage", 1, has_own_slots=True),
    ]
    assert hosts_of(3, roles, 2) == [0, 0, 1, 2, 3, 0, 1, 4]
