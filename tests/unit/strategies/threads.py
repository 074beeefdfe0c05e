"""A driver whose workers are threads of one process: exact, in order, and quick to start hundreds of times."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from dlbench.strategies import Array

PATIENCE_S = 30


class ThreadDriver:
    """One worker among threads; remembers every message it sent, as (to, bytes)."""

    library = "threads"
    components: tuple[str, ...] = ()

    def __init__(self, rank: int, size: int, boxes: dict[tuple[int, int], Any], gate: threading.Barrier) -> None:
        self.rank, self.size = rank, size
        self._boxes, self._gate = boxes, gate
        self.sent: list[tuple[int, int]] = []

    def exchange(self, send: Array, to: int, receive: Array, source: int) -> None:
        self.sent.append((to, send.nbytes))
        self._boxes[self.rank, to].put(send.copy())
        got = self._boxes[source, self.rank].get(timeout=PATIENCE_S)
        assert got.shape == receive.shape
        assert got.dtype == receive.dtype
        receive[...] = got

    def all_gather(self, value: Any) -> list[Any]:
        for to in range(self.size):
            self._boxes[self.rank, to].put(value)
        return [self._boxes[source, self.rank].get(timeout=PATIENCE_S) for source in range(self.size)]

    def barrier(self) -> None:
        self._gate.wait(PATIENCE_S)

    def broadcast(self, array: Array, root: int = 0) -> None:
        array[...] = np.array(self.all_gather(array.tolist())[root], array.dtype)

    def all_reduce(self, array: Array, out: Array, operation: str = "sum") -> None:
        function = {"sum": np.sum, "max": np.max, "min": np.min}[operation]
        out[...] = function(np.array(self.all_gather(array.copy())), axis=0)

    def control_variable(self, name: str) -> str | None:
        return None

    def close(self) -> None:
        pass


def run(size: int, work: Callable[[ThreadDriver], Any]) -> list[Any]:
    """Run `work` on every worker at once and return what each returned, by rank; the first failure is raised."""
    boxes: dict[tuple[int, int], Any] = {(a, b): queue.Queue() for a in range(size) for b in range(size)}
    gate = threading.Barrier(size)
    drivers = [ThreadDriver(rank, size, boxes, gate) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        return [future.result(PATIENCE_S) for future in [pool.submit(work, driver) for driver in drivers]]
