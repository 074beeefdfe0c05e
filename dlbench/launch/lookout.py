"""What is seen of an attempt's workers from outside: which of their processes are stopped, and which are gone."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from dlbench.launch import processes
from dlbench.launch.reception import WorkerView
from dlbench.launch.watch import Sight


@dataclass
class Lookout:
    """Looks at the processes on this machine; of those elsewhere it says nothing."""

    attempt_id: str
    _host: str = field(default_factory=socket.gethostname)

    def look(self, views: Mapping[int, WorkerView]) -> Sight:
        """Return what is seen now. A process is a worker's if it carries the attempt's id: numbers are used again.

        The number of a worker elsewhere may be that of another process of the attempt here.
        """
        here = {rank: view for rank, view in views.items() if view.pid > 0 and view.host == self._host}
        letters = {rank: self._letter(view) for rank, view in here.items()}
        return Sight(
            stopped=frozenset(rank for rank, letter in letters.items() if letter == "T"),
            gone=frozenset(rank for rank, letter in letters.items() if not letter),
        )

    def _letter(self, view: WorkerView) -> str:
        seen = processes.state(view.pid)
        is_ours = seen is not None and seen.is_alive and processes.carries(view.pid, self.attempt_id)
        return seen.letter if seen is not None and is_ours else ""
