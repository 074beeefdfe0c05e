"""Energy of the host's processors and memory, from their own counters (RAPL)."""

import contextlib
import os
import time
from pathlib import Path

from dlbench import plugins
from dlbench.scenario.layout import Place
from dlbench.worker.sensors import Reading, Sensor

OPTIONS = plugins.Options
PER_HOST = True
QUANTITIES = {
    "energy_j": "Energy of all processor packages and their memory since the sensor was opened, in joules.",
    "power_w": "The same since the previous reading, in watts.",
}

# A package's counter holds its cores and graphics, but not its memory (a separate zone inside the package's);
# `psys` holds the package again. `intel-rapl` is the kernel's name on AMD too; `intel-rapl-mmio` repeats it.
FOLDER = Path("/sys/class/powercap")


def available() -> bool:
    """Whether there is a counter that this user may read (most kernels let only root)."""
    return bool(zones(FOLDER))


def open(place: Place) -> "RaplSensor":  # noqa: A001
    """Return the sensor of this host."""
    return RaplSensor(zones(FOLDER))


def zones(folder: Path) -> list[Path]:
    """Return the readable zones whose counters add up to the energy of packages and memory."""
    return [
        zone for zone in sorted(folder.glob("intel-rapl:*")) if _counts(zone) and os.access(zone / "energy_uj", os.R_OK)
    ]


def _counts(zone: Path) -> bool:
    with contextlib.suppress(OSError):
        name = (zone / "name").read_text().strip()
        return name.startswith("package") or name == "dram"
    return False


class RaplSensor(Sensor):
    """Adds up the counters of zones, each of which starts again at 0 after its range."""

    def __init__(self, folders: list[Path]) -> None:
        self._ranges = [int((folder / "max_energy_range_uj").read_text()) for folder in folders]
        self._files = [folder / "energy_uj" for folder in folders]
        self._energy_uj = 0
        self._counters, self._at = self._read(), time.monotonic()

    def read(self) -> Reading:
        """Return the energy so far and, once time has passed, the power."""
        counters, now = self._read(), time.monotonic()
        pieces = zip(counters, self._counters, self._ranges, strict=True)
        used = sum(counted(counter, before, largest) for counter, before, largest in pieces)
        elapsed, self._at, self._counters = now - self._at, now, counters
        self._energy_uj += used
        reading = [("energy_j", self._energy_uj / 1e6)]
        return [*reading, ("power_w", used / 1e6 / elapsed)] if elapsed > 0 else reading

    def _read(self) -> list[int]:
        return [int(file.read_text()) for file in self._files]


def counted(counter: int, before: int, largest: int) -> int:
    """Return how far a counter went on, which starts again at 0 after `largest`."""
    return counter - before if counter >= before else counter - before + largest + 1
