"""What devices and network did while a worker trained, one sensor in each file.

A sensor file holds a one-line doc, `OPTIONS`, `QUANTITIES` (name -> meaning with unit) and

    def open(place: Place) -> Sensor: ...     # an object with read() -> list[tuple[str, float]] and close()
    def available() -> bool: ...              # cheap; False where there is nothing to read. Without it there always is

`place` is the process that reads (`dlbench.scenario.layout.Place`): its cores and the index of its device.
Sensors that read what belongs to a whole host (`PER_HOST = True`) are read by the first worker of each host only.
"""

from typing import Protocol

Reading = list[tuple[str, float]]


class Sensor(Protocol):
    """Something that can be read again and again."""

    def read(self) -> Reading:
        """Return readings as (quantity, value); an empty list where nothing could be read this time."""

    def close(self) -> None:
        """Give back what it holds: nothing, unless a sensor opens something."""
        return
