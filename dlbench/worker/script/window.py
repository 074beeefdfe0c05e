"""The timed window of a user's own script, whose last step of an epoch is known only when it is over.

A piece begins at a barrier and ends with this worker's own last step. The common time of a piece is the longest that
any worker saw (`dlbench.analysis.metrics.rates`), which is what a barrier at its end would have shown.
"""

from collections.abc import Callable
from time import perf_counter, process_time

from dlbench.records.result import Segment


class ScriptWindow:
    """The timed window of a script: pieces that begin at a barrier and end with a step.

    Args:
        barrier: Waits for every worker; None where the script has none, and then nothing is timed.
        observer_cpu_s: Returns the CPU time of dlbench's own threads so far.
    """

    def __init__(self, barrier: Callable[[], object] | None, observer_cpu_s: Callable[[], float]) -> None:
        self.segments: list[Segment] = []
        self.cpu_time_s = self.observer_cpu_s = 0.0
        self.is_open = False
        self._barrier, self._read_observer = barrier, observer_cpu_s
        self._steps = self._samples = 0
        self._opened_at = self._closed_at = 0.0
        self._cpu = self._observer = (0.0, 0.0)

    def open(self) -> bool:
        """Begin a piece, a collective of all workers, unless one is open or there is no barrier; return whether."""
        if self._barrier is None or self.is_open:
            return False
        self._barrier()
        self.is_open = True
        self._steps = self._samples = 0
        self._cpu, self._observer = (process_time(),) * 2, (self._read_observer(),) * 2
        self._opened_at = perf_counter()
        return True

    def count(self, num_samples: int, ended: float) -> None:
        """Count a step that ended within the open piece."""
        self._steps += 1
        self._samples += num_samples
        self._closed_at = ended
        self._cpu = (self._cpu[0], process_time())
        self._observer = (self._observer[0], self._read_observer())

    def close(self, zero: float) -> None:
        """End the open piece with its last step; an empty one is forgotten. `zero` is what counts as 0 s."""
        if self.is_open and self._steps:
            opened, closed = self._opened_at - zero, self._closed_at - zero
            self.segments.append(
                Segment(opened_at_s=opened, closed_at_s=closed, steps=self._steps, samples=self._samples)
            )
            self.cpu_time_s += self._cpu[1] - self._cpu[0]
            self.observer_cpu_s += self._observer[1] - self._observer[0]
        self.is_open = False
