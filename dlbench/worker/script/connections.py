"""Whether a script's processes are ever connected to other workers': those that never are trained alone."""

import contextlib
import os
import threading
import time

import psutil

from dlbench.worker.process.children import with_children

# Between looks, which take 0.1 ms to 0.1 s by what there is to look at: at least this long, and this many times the
# processor's time of the last one. After fewer looks nothing is known.
INTERVAL_S, TIMES, FEWEST = 0.1, 50, 20
# MPICH's processes talk through memory, and to their launcher through what they inherit under this name.
_INHERITED = "PMI_FD"


class Connections:
    """Looks in its own thread for a TCP connection that leaves a process and its children, until it has seen one."""

    def __init__(self, pid: int) -> None:
        self._pid, self._looks, self._is_seen = pid, 0, False
        self._is_stopped = False  # no event: a signal's handler stops it, too

    def start(self) -> None:
        """Begin to look, where that tells anything."""
        if _INHERITED not in os.environ:
            threading.Thread(target=self._run, name="dlbench-connections", daemon=True).start()

    def stop(self) -> bool:
        """End the looks; return whether there were enough of them, and none saw a connection."""
        self._is_stopped = True
        return not self._is_seen and self._looks >= FEWEST

    def _run(self) -> None:
        wait_s = INTERVAL_S
        while not self._is_seen:
            time.sleep(wait_s)
            if self._is_stopped:
                return
            started_s = time.thread_time()
            with contextlib.suppress(OSError, psutil.Error):  # a process has just ended, or shows nothing
                self._is_seen = is_connected(self._pid)
                self._looks += 1
            wait_s = max(INTERVAL_S, TIMES * (time.thread_time() - started_s))


def is_connected(pid: int) -> bool:
    """Whether a process or one of its children has a TCP connection to another than these.

    Raises:
        OSError, psutil.Error: One of them cannot be looked at.
    """
    open_ones = [it for each in with_children(pid) for it in psutil.Process(each).net_connections("tcp")]
    pairs = {(_plain(it.laddr), _plain(it.raddr)) for it in open_ones if it.status == psutil.CONN_ESTABLISHED}
    return any((there, here) not in pairs for here, there in pairs)


def _plain(address: tuple[str, int]) -> tuple[str, int]:
    """Return an address as a server for IPv4 shows it, where one for IPv6, too, puts `::ffff:` before it."""
    return address[0].removeprefix("::ffff:"), address[1]
