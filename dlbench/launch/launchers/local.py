"""Starts the processes on this machine, with no library between them."""

from dlbench.plugins import Options
from dlbench.records.assignment import RANK_VARIABLE
from dlbench.scenario.layout import Layout
from dlbench.scenario.settings import Settings
from dlbench.search_path import program

OPTIONS = Options
PROVIDES: tuple[str, ...] = ()
MULTIPLE_HOSTS = False

_SUPERVISOR = program("dlbench.launch.spawn")


def available() -> str:
    """Return "": it needs nothing but Python."""
    return ""


def argv(
    layout: Layout, program: tuple[str, ...], options: Options, settings: Settings, variables: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the program itself, or a small supervisor that starts one for each process and ends with the last."""
    count = len(layout.places)
    return program if count == 1 else (program[0], *_SUPERVISOR, RANK_VARIABLE, str(count), "--", *program)


def environment(layout: Layout, options: Options, settings: Settings) -> dict[str, str]:
    """Return the rank of a process that is alone; the supervisor sets those of several."""
    return {RANK_VARIABLE: "0"} if len(layout.places) == 1 else {}
