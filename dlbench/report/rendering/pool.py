"""Processes that render charts while this one goes on reading and judging."""

import gc
import importlib
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from dlbench.cgroups import usable_cores
from dlbench.report.chart import Chart
from dlbench.search_path import libraries_alone

# More processes than this bring little: the largest figure takes its time.
MAX_PROCESSES = 4


# Renders a chart: `functools.partial` of `render`, which other processes can take.
Task = Callable[[], str]


def render(chart: Chart, style: str, paths: Sequence[Path] = (), caption: str = "", page_id: str = "") -> str:
    """Render a chart in the style with a name: see `dlbench.report.rendering.figure.draw`."""
    from dlbench.report.rendering import figure
    from dlbench.report.rendering.style import style_of

    return figure.draw(chart, style_of(style), paths, caption, page_id)


def num_processes(figures: Sequence[str]) -> int:
    """Return how many processes to render in: one for each core, at most MAX_PROCESSES; none for a single figure.

    Args:
        figures: The figures asked for; all of them where it is empty.
    """
    return 0 if len(figures) == 1 else min(MAX_PROCESSES, len(usable_cores()))


class RenderPool:
    """Renders tasks in several processes; with 0, or where they do not start or were killed, in this one.

    The processes are spawned: the program that uses one must be safe to import.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        if self._processes:
            with libraries_alone(), suppress(OSError):
                # They import matplotlib while this process reads the rows.
                spawn = multiprocessing.get_context("spawn")
                executor = ProcessPoolExecutor(self._processes, spawn, initializer=_prepare)
                # Ctrl-C does not reach the processes: this one ends them. multiprocessing's own helper has started.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                try:
                    for _ in range(self._processes):  # a task for which no process is idle starts one
                        executor.submit(gc.collect)
                    self._executor = executor
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor:
            self._executor.shutdown(cancel_futures=True)

    def submit(self, task: Task) -> Callable[[], str]:
        """Begin to render; the returned function waits for the end and returns or raises what the task does."""
        future = None
        with suppress(BrokenProcessPool):
            future = self._executor.submit(_collect_and_run, task) if self._executor else None
        return partial(_result, task, future)


def _result(task: Task, future: Future[str] | None) -> str:
    try:
        return future.result() if future else task()
    except BrokenProcessPool:  # a process was killed, by a lack of memory for example
        return task()


def _prepare() -> None:
    importlib.import_module("dlbench.report.rendering.figure")
    # A figure is a million small objects that all go at once: cycles are looked for before each, and not in between.
    gc.disable()
    gc.freeze()


def _collect_and_run(task: Task) -> str:
    gc.collect()
    return task()
