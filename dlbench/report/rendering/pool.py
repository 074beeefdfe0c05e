"""Processes that render charts while this one goes on reading and judging."""

import gc
import importlib
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from dlbench.cgroups import usable_cores
from dlbench.report.chart import Chart
from dlbench.search_path import libraries_alone

# More processes than this bring little: the largest figure takes its time.
MAX_PROCESSES = 4


@dataclass(frozen=True)
class Task:
    """A chart to render into files, and as an element of a page.

    Attributes:
        name: Name of the figure's plugin.
        chart: What it shows.
        style: Name of the files' style.
        paths: Files to write, by their endings.
        caption: The text under it in a file.
        is_on_page: Whether there is an element.
    """

    name: str
    chart: Chart
    style: str
    paths: tuple[Path, ...] = ()
    caption: str = ""
    is_on_page: bool = True


def render(task: Task) -> str:
    """Render a chart, and return its `<svg>` element; an empty text where it is on no page.

    Raises:
        OSError: A file cannot be written.
    """
    from dlbench.report.rendering import figure
    from dlbench.report.rendering.style import style_of

    page_id = task.name if task.is_on_page else ""
    return figure.draw(task.chart, style_of(task.style), task.paths, task.caption, page_id)


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
                executor = ProcessPoolExecutor(self._processes, multiprocessing.get_context("spawn"))
                # Ctrl-C does not reach the processes: this one ends them. multiprocessing's own helper has started.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                try:
                    for _ in range(self._processes):  # they import matplotlib while this process reads the rows
                        executor.submit(_prepare)
                    self._executor = executor
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor:
            self._executor.shutdown(cancel_futures=True)

    def submit(self, task: Task) -> Callable[[], str]:
        """Begin to render; the returned function waits for the end and returns or raises what `render` does."""
        try:
            future = self._executor.submit(_collect_and_render, task) if self._executor else None
        except BrokenProcessPool:
            future = None
        return partial(_result, task, future)


def _result(task: Task, future: Future[str] | None) -> str:
    try:
        return future.result() if future else render(task)
    except BrokenProcessPool:  # a process was killed, by a lack of memory for example
        return render(task)


def _prepare() -> None:
    importlib.import_module("dlbench.report.rendering.figure")
    # A figure is a million small objects that all go at once: cycles are looked for before each, and not in between.
    gc.disable()
    gc.freeze()


def _collect_and_render(task: Task) -> str:
    gc.collect()
    return render(task)
