"""Reads the sensors at a set rate, in its own thread, while a worker trains."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from dlbench import plugins
from dlbench.records.assignment import Assignment
from dlbench.telemetry.reporter import Reporter
from dlbench.worker.sensors import Reading, Sensor
from dlbench.worker.sensors._summary import Summary

# Readings held back until the moment that counts as 0 s is known; of a longer start-up the newest stay.
HELD_READINGS = 3600
# How long training waits for sensors that are being opened or read, and for the thread's end.
PATIENCE_S = 2.0


class Observer:
    """Reads the sensors of one process every `sensor_interval_s` and sends what they say.

    A sensor that fails is dropped with a note in the facts; it never ends the run. Those of `without` are not read.
    """

    def __init__(self, assignment: Assignment, rank: int, reporter: Reporter, without: Collection[str] = ()) -> None:
        settings, limits = assignment.run.settings, assignment.run.limits
        places = assignment.layout.places
        self._place = places[rank]
        # What belongs to a whole host is read by the first worker there, or of servers alone the first.
        here = [other for other in places if other.host == self._place.host]
        self._reads_host = self._place is min(here, key=lambda other: (not other.workers, other.rank))
        self._reporter, self._without = reporter, without
        self._interval_s = settings.sensor_interval_s
        # Rows leave often enough for the bound on what a dead host can take with it.
        self._readings_per_message = max(1, int(limits.flush_interval_s / self._interval_s))
        self._held: deque[tuple[float, dict[str, Reading]]] = deque(maxlen=HELD_READINGS)
        self._sensors: dict[str, Sensor] = {}
        self._summary = Summary()
        self._zero: float | None = None
        self._patience_s = PATIENCE_S
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._opened = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dlbench-observer", daemon=True)

    def start(self) -> None:
        """Open the sensors and begin to read them, without waiting for either."""
        self._thread.start()

    def stop(self) -> None:
        """Read once more, send what is left and close the sensors. A second call does nothing."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE_S)

    def baseline(self) -> None:
        """Read all sensors now, as the start of what `totals` covers."""
        self._opened.wait(PATIENCE_S)
        self._observe(self._summary.begin)

    def zero(self, moment: float) -> None:
        """Take this moment on `time.perf_counter` as 0 s."""
        self._zero = moment

    def mark(self) -> None:
        """Read all sensors now: training may end here, and counters count up to the last mark."""
        if not self._observe(self._summary.mark):
            self._summary.mark({})

    def totals(self) -> dict[str, Any]:
        """Read all sensors now and return what they saw since `baseline`, by column of `runs.csv`."""
        self._observe(self._summary.add)
        return self._summary.columns()

    def _run(self) -> None:
        self._reporter.register_thread()
        try:
            with self._lock:
                self._open()
            self._opened.set()
            self._keep_reading()
        finally:
            self._opened.set()
            with self._lock:
                self._send()
                for name in tuple(self._sensors):
                    self._drop(name)

    def _keep_reading(self) -> None:
        started, turn, waiting_s = time.perf_counter(), 0, 0.0
        while not self._stopping.wait(waiting_s):
            self._observe(self._summary.add)
            turn, waiting_s = next_reading(turn, time.perf_counter() - started, self._interval_s)
        # `totals` covers the whole training even where it is called after the end.
        self._observe(self._summary.add)

    def _observe(self, take: Callable[[dict[str, Reading]], None]) -> bool:
        """Read all sensors once; `take` gets their readings. Return False, having read none, while a reading hangs."""
        if not self._lock.acquire(timeout=self._patience_s):
            self._patience_s = 0.0  # what hung once holds up training no more
            return False
        try:
            moment = time.perf_counter()
            readings = {name: self._read(name) for name in tuple(self._sensors)}
            take(readings)
            self._held.append((moment, readings))
            if self._zero is not None and len(self._held) >= self._readings_per_message:
                self._send()
        finally:
            self._lock.release()
        return True

    def _open(self) -> None:
        for name in (name for name in plugins.names("sensors") if name not in self._without):
            try:
                plugin = plugins.load("sensors", name)
                is_available = plugin.get("available", lambda: True)
                if (self._reads_host or not plugin.get("PER_HOST", False)) and is_available():
                    self._sensors[plugin.name] = plugin.get("open")(self._place)
            except Exception as error:  # noqa: BLE001 - whatever a sensor raises, training goes on without it
                self._note(name, error)

    def _read(self, name: str) -> Reading:
        try:
            return self._sensors[name].read()
        except Exception as error:  # noqa: BLE001 - whatever a sensor raises, training goes on without it
            self._drop(name)
            self._note(name, error)
            return []

    def _drop(self, name: str) -> None:
        try:
            self._sensors.pop(name).close()
        except Exception as error:  # noqa: BLE001 - it is gone either way
            self._note(name, error)

    def _note(self, name: str, error: Exception) -> None:
        text = f"dropped: {type(error).__name__}: {error}"
        self._reporter.send_facts({f"worker.sensor_{name}": text})

    def _send(self) -> None:
        """Send all held readings; without a moment that counts as 0 s their times mean nothing."""
        if self._zero is None:
            return
        zero, held = self._zero, tuple(self._held)
        self._held.clear()
        rows = [
            (round(moment - zero, 6), sensor, quantity, value)
            for moment, readings in held
            for sensor, reading in readings.items()
            for quantity, value in reading
        ]
        if rows:
            self._reporter.send_readings(rows)


def next_reading(turn: int, elapsed_s: float, interval_s: float) -> tuple[int, float]:
    """Return the number of the next reading and the seconds until then.

    Readings are due at whole multiples of the interval, so that delays never add up; one that was missed is left out.
    """
    turn = max(turn + 1, math.ceil(elapsed_s / interval_s))
    return turn, max(0.0, turn * interval_s - elapsed_s)
