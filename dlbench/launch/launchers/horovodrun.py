"""Starts the processes with Horovod's horovodrun; they can use Gloo, or MPI through its mpirun."""

import sys
from importlib.util import find_spec

from dlbench.launch.launchers import mpirun
from dlbench.plugins import Options
from dlbench.scenario.layout import Layout
from dlbench.scenario.settings import Settings
from dlbench.search_path import program

OPTIONS = Options
PROVIDES = ("gloo", "mpi", "nccl")
# It would hand the variables to other hosts on ssh's command line, which every user of a host can read.
MULTIPLE_HOSTS = False

_PROGRAM = program("dlbench.launch.horovodrun")
# A shell that stays between horovodrun and the worker. horovodrun sends SIGTERM to the children of the process that
# it started, and SIGSTOP to that process itself: a worker must not be that process.
_SHELL = ("/bin/sh", "-c", '"$@"; exit $?', "sh")
# Open MPI 5 refuses horovodrun's own words, and mpirun's default is one rank for each core.
_BINDING = "--bind-to none --map-by :OVERSUBSCRIBE"


def available() -> str:
    """Return "" where horovodrun can be used, else what is missing and the command that installs it."""
    if find_spec("horovod") is None:
        return f"Horovod is not installed beside {sys.executable}; `make horovod` builds it"
    return ""


def argv(
    layout: Layout, program: tuple[str, ...], options: Options, settings: Settings, variables: tuple[str, ...]
) -> tuple[str, ...]:
    """Return horovodrun's command, run so that no variable's value is on a command line."""
    way = ("--gloo",) if settings.collectives == "gloo" else ("--mpi", "--binding-args", _BINDING)
    # One host: everything goes over the loopback interface, whatever other interfaces there are.
    start = ("-np", str(len(layout.places)), "--network-interfaces", "lo", *way)
    return (program[0], *_PROGRAM, *start, *_SHELL, *program)


def environment(layout: Layout, options: Options, settings: Settings) -> dict[str, str]:
    """Return what mpirun needs where horovodrun starts it."""
    return {} if settings.collectives == "gloo" else mpirun.environment(layout, mpirun.OPTIONS(), settings)
