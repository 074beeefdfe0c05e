"""A process that draws: tasks come in, pictures go to their files, and what became of each task goes out.

Charts are numbers and names alone, so that they can be drawn by several processes at once. Such a process is started
as a program of its own rather than by `multiprocessing`, which would run a user's script a second time. Tasks and
results are JSON, one line each.
"""

import contextlib
import gc
import importlib
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import ConfigDict, TypeAdapter, with_config

from dlbench.report.chart import Chart


@with_config(ConfigDict(ser_json_inf_nan="constants"))
@dataclass(frozen=True)
class Task:
    """A figure to draw into files, or as an element of a page.

    Attributes:
        name: Its plugin's name.
        chart: What it shows.
        style: Name of the style.
        paths: Files to write, by their endings; none for an element.
        caption: What stands under it in a file.
    """

    name: str
    chart: Chart
    style: str
    paths: tuple[Path, ...] = ()
    caption: str = ""


@dataclass(frozen=True)
class Result:
    """What became of a task.

    Attributes:
        svg: The `<svg>` element; empty where files were wanted, or the task failed.
        error: Why it failed; empty where it did not.
        errno: Number of the operating system's error, where it was one.
    """

    svg: str = ""
    error: str = ""
    errno: int | None = None

    def get(self) -> str:
        """Return the element.

        Raises:
            OSError: A file could not be written.
            RuntimeError: The task failed for a reason that nobody expected.
        """
        if self.errno is not None:
            raise OSError(self.errno, self.error)
        if self.error:
            raise RuntimeError(f"a figure could not be drawn:\n{self.error}")
        return self.svg


TASKS, RESULTS = TypeAdapter(Task), TypeAdapter(Result)


def draw(task: Task) -> Result:
    """Draw a figure, and return what became of it."""
    from dlbench.report import draw as pictures
    from dlbench.report.style import style_of

    try:
        if not task.paths:
            return Result(pictures.svg(task.chart, style_of(task.style), task.name))
        pictures.save_all(task.chart, task.caption, task.paths, style_of(task.style))
        return Result()
    except OSError as error:
        return Result(error=error.strerror or str(error), errno=error.errno or 0)
    except Exception:  # noqa: BLE001 - it is raised where the result is asked for
        return Result(error=traceback.format_exc())


def serve(tasks: BinaryIO, results: BinaryIO) -> None:
    """Draw what comes in until nothing more does."""
    # Pictures are made of a million small objects that all go at once: looking for cycles among them takes a fifth of
    # the time.
    gc.disable()
    for line in tasks:
        results.write(RESULTS.dump_json(draw(TASKS.validate_json(line))) + b"\n")
        results.flush()
        gc.collect()


def main() -> None:
    """Serve a parent by standard input and output, until there is no parent any more."""
    # Before there is anything to draw: the parent is reading then.
    importlib.import_module("dlbench.report.draw")
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a library prints is no result.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin.buffer, results)
    # All is written: what is in memory need not be taken down piece by piece.
    os._exit(0)
