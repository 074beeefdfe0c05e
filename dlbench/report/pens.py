"""Several processes that draw figures while this one goes on: see `dlbench.report.pen`."""

import contextlib
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import dlbench
from dlbench.scenario.limits import usable_cores

# What draws is imported when it is needed: the processes are started before anything else is done.
if TYPE_CHECKING:
    from dlbench.report.pen import Result, Task

# Finds dlbench where this process has found it, after all else, and nothing in the folder it is started in.
CODE = "import sys; sys.path.append(sys.argv[1]); from dlbench.report.pen import main; main()"
PROGRAM = (sys.executable, "-P", "-c", CODE, str(Path(dlbench.__file__).parents[1]))
# More processes than this bring little: the largest figure takes its time.
MOST = 4
_END_TIMEOUT_S = 5.0


def count_for(figures: Sequence[str]) -> int:
    """Return how many processes should draw: as many as there are cores, at most MOST; for one figure this one.

    Args:
        figures: The figures that are asked for; all of them where it is empty.
    """
    return 1 if len(figures) == 1 else min(MOST, len(usable_cores()))


class Pens:
    """Draws tasks in so many processes; with one, here and now."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._processes: list[subprocess.Popen[bytes]] = []
        self._free: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._threads: ThreadPoolExecutor | None = None
        self._here = threading.Lock()
        self._is_over = False

    def __enter__(self) -> Self:
        if self._count > 1:
            # Where there is no room for so many, fewer draw, or this one alone.
            with contextlib.suppress(OSError):
                for _ in range(self._count):
                    self._processes.append(_started())
        if self._processes:
            for process in self._processes:
                self._free.put(process)
            self._threads = ThreadPoolExecutor(len(self._processes))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After a mistake nobody waits for pictures.
        self._is_over = kind is not None
        for process in self._processes if self._is_over else ():
            process.kill()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            _end(process)

    def draw(self, task: "Task") -> "Future[Result]":
        """Begin to draw."""
        from dlbench.report import pen

        if self._threads is not None:
            return self._threads.submit(self._hand_over, task)
        done: Future[Result] = Future()
        done.set_result(pen.draw(task))
        return done

    def _hand_over(self, task: "Task") -> "Result":
        from dlbench.report import pen

        process = self._free.get()
        try:
            return _asked(process, task)
        except (OSError, ValueError):
            if self._is_over:
                return pen.Result(error="given up")
            # It was killed, or could not start. Two threads of one process must not draw at once.
            with self._here:
                return pen.draw(task)
        finally:
            self._free.put(process)


def _started() -> subprocess.Popen[bytes]:
    """Start a process that draws; Ctrl-C is not for it: our end is its end.

    Raises:
        OSError: It cannot be started.
    """
    return subprocess.Popen(PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)


def _asked(process: subprocess.Popen[bytes], task: "Task") -> "Result":
    """Return what a process made of a task.

    Raises:
        OSError: It cannot be reached.
        ValueError: It has ended.
    """
    from dlbench.report.pen import RESULTS, TASKS

    assert process.stdin is not None
    assert process.stdout is not None
    # Whose runs a chart shows is nothing that is drawn.
    drawn = replace(task, chart=replace(task.chart, runs=frozenset()))
    process.stdin.write(TASKS.dump_json(drawn) + b"\n")
    process.stdin.flush()
    return RESULTS.validate_json(process.stdout.readline())


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
