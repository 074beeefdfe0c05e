"""Starts the processes as tasks of a Ray cluster, in a placement group; Horovod over Gloo, DDP and scripts connect."""

import sys
from importlib.util import find_spec

from pydantic import Field

from dlbench.plugins import Options
from dlbench.records.assignment import RANK_VARIABLE
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.settings import Settings
from dlbench.search_path import program

PROVIDES = ("gloo",)
CONNECTS_SCRIPTS = True
MULTIPLE_HOSTS = True

_PROGRAM = program("dlbench.launch.ray")


class OPTIONS(Options):
    """Options of `ray`."""

    address: str | None = Field(
        None,
        pattern=r"^(auto|[^/\s]+:\d+)$",
        description="Of a Ray cluster that is there: auto, or host:port. By default one is started on this machine for "
        "each run; where a run has other hosts, it is auto.",
    )


def available() -> str:
    """Return "" where Ray is there, else the command that installs it."""
    if find_spec("ray") is None:
        return f"Ray is not installed beside {sys.executable}; `pip install 'dlbench[ray]'` installs it"
    return ""


def argv(
    layout: Layout, program: tuple[str, ...], options: OPTIONS, settings: Settings, variables: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the command that connects to the cluster; Ray hands on the whole environment, so no value is in it."""
    address = options.address or ("" if layout.is_here else "auto")
    cluster = ("--address", address) if address else ()
    horovod = ("--gloo",) if settings.collectives == "gloo" and settings.communicator == "horovod" else ()
    places = ",".join(f"{place.host}:{_cpus(place):g}:{len(place.workers)}" for place in layout.places)
    words = (*cluster, "--places", places, "--rank-variable", RANK_VARIABLE, *horovod, "--")
    return (program[0], *_PROGRAM, *words, *program)


def _cpus(place: Place) -> float:
    """Return the cores that Ray counts as taken; it takes parts of one, and no more than one by parts."""
    share = place.quota if place.quota is not None else len(place.cores)
    return share if share and share < 1 else max(1, round(share))


def environment(layout: Layout, options: OPTIONS, settings: Settings) -> dict[str, str]:
    """Return what Ray's own processes need: they report no use, and leave it to the kernel to end what is too large."""
    return {"RAY_USAGE_STATS_ENABLED": "0", "RAY_memory_monitor_refresh_ms": "0"}
