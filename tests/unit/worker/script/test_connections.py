"""How often it is looked for connections, and what the looks tell."""

import threading
import time

import pytest

from dlbench.worker.script import connections
from dlbench.worker.script.connections import FEWEST, INTERVAL_S, Connections


@pytest.mark.parametrize(("is_seen", "variables"), [(False, {}), (True, {}), (False, {"PMI_FD": "5"})])
def test_enough_looks_without_a_connection_tell(
    monkeypatch: pytest.MonkeyPatch, is_seen: bool, variables: dict[str, str]
) -> None:
    looks: list[int] = []
    is_enough = threading.Event()

    def look(pid: int) -> bool:
        looks.append(pid)
        if len(looks) == FEWEST + (not is_seen):
            is_enough.set()
        return is_seen and len(looks) == FEWEST

    monkeypatch.setattr(connections, "INTERVAL_S", 0.001)
    monkeypatch.setattr(connections, "is_connected", look)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (watched := Connections(1)).start()
    assert not watched.stop()
    looks.clear()
    (watched := Connections(1)).start()
    assert variables or is_enough.wait(100)
    assert watched.stop() == (not is_seen and not variables)


def test_what_takes_long_to_look_at_is_looked_at_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def sleep(wait_s: float) -> None:
        waits.append(wait_s)
        if len(waits) == 3:
            watched.stop()

    watched = Connections(1)
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(connections, "is_connected", lambda _: False)
    # The processor's time, which no other program makes longer.
    monkeypatch.setattr(time, "thread_time", iter([1.0, 1.5, 2.0, 2.001]).__next__)
    watched._run()
    assert waits == [INTERVAL_S, 25.0, INTERVAL_S]
