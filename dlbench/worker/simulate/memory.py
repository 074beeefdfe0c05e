"""Parameters that all simulated workers read and write."""

from dlbench.strategies import Array


class SimulatedMemory:
    """One vector, and how often it was written: each read and each write happens at one moment of the clock.

    So reads are never torn and no write is lost, as they may be between real processes.
    """

    def __init__(self, first: Array) -> None:
        self._parameters, self._version = first, 0

    def read(self) -> tuple[Array, int]:
        """Return the vector, which stays as it is, and how many times it has been written."""
        return self._parameters, self._version

    def subtract(self, change: Array, at: Array | None = None) -> int:
        """Subtract from all numbers, or from those at some places (each named once); return the writes before."""
        if at is None:
            self._parameters = self._parameters - change
        else:
            self._parameters = self._parameters.copy()
            self._parameters[at] -= change
        self._version += 1
        return self._version - 1
