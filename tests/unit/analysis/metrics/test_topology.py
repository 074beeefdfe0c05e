"""Who really ran where, from the layout and what the processes reported."""

import numpy as np

from dlbench.analysis.metrics.rates import FIELD
from dlbench.analysis.metrics.row import topology
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.layout import Layout, Place
from dlbench.telemetry.journal import Journal, Rows, SensorReading
from dlbench.telemetry.messages import STEP_FIELDS

CLUSTER = Cluster(hosts=tuple(Host(address=name, slots=2) for name in "abc"))
LAYOUT = Layout(
    places=(
        Place(rank=0, workers=(0,), host="c", machine=0, cores=(3, 1)),
        Place(rank=1, workers=(1,), host="b", machine=1, local_index=1),
        Place(rank=2, role="server", workers=(), host="b"),
    ),
    intra_op_threads=1,
    inter_op_threads=1,
)


def ten_steps() -> Rows:
    """Return ten steps of a second each."""
    rows = np.ones((10, len(STEP_FIELDS)))
    rows[:, FIELD["started_at_s"]] = np.arange(10)
    return rows


def readings(worker: int, name: str, grown: float) -> tuple[SensorReading, ...]:
    return tuple(SensorReading(worker, at_s, "network", name, 100 + at_s * grown) for at_s in (0.0, 5.0, 10.0))


def test_every_process_has_its_place_by_numbers() -> None:
    first, second, third = topology(LAYOUT, CLUSTER, Journal())
    assert (first["host"], first["machine"], first["cores"], first["held_workers"]) == (2, 0, "3;1", "0")
    assert (second["host"], second["machine"], second["local_index"], second["cores"]) == (1, 1, 1, "")
    assert (third["role"], third["host"], third["machine"], third["held_workers"]) == ("server", 1, None, "")
    assert "a" not in map(str, first.values()), "no address is published"


def test_what_processes_reported_is_theirs() -> None:
    facts = {0: {"interface": "eth0", "device_name": "CPU"}, 1: {"interface": "ib0"}}
    found = readings(0, "wire_sent_bytes", 7) + readings(0, "wire_received_bytes", 3)
    journal = Journal(steps={0: ten_steps()}, facts=facts, sensors=found)
    first, second, _ = topology(LAYOUT, CLUSTER, journal)
    assert (first["interface"], first["device_name"], second["interface"]) == ("eth0", "CPU", "ib0")
    assert (first["wire_sent_bytes"], first["wire_received_bytes"]) == (70, 30)
    assert (second["wire_sent_bytes"], second["wire_received_bytes"]) == (None, None)


def test_hosts_that_a_queue_gave_are_numbered_by_their_first_use() -> None:
    asked = Cluster(hosts=tuple(Host(address=f"queue-{number}", slots=2) for number in range(2)))
    assert [row["host"] for row in topology(LAYOUT, asked, Journal())] == [0, 1, 1]
