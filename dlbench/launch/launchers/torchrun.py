"""Starts a script's processes with torchrun on this machine; they connect by what it sets."""

import sys
from importlib.util import find_spec

from dlbench.plugins import Options
from dlbench.scenario.layout import Layout
from dlbench.scenario.settings import Settings
from dlbench.search_path import program

OPTIONS = Options
PROVIDES: tuple[str, ...] = ()
CONNECTS_SCRIPTS = True
MULTIPLE_HOSTS = False

_PROGRAM = program("dlbench.launch.torchrun")
# The rendezvous is on a free port of this machine. Scripts connect to the address; the default is this host's full
# name, which a machine without a network does not resolve.
_HERE = ("--standalone", "--nnodes", "1", "--local-addr", "127.0.0.1")
# No restarts. Of workers that fail between two looks at them, torchrun names the one with the lowest rank: it looks
# often. Without `/dev/null` it leaves a folder of its logs behind.
_ENDING = ("--max-restarts", "0", "--monitor-interval", "0.02", "--log-dir", "/dev/null")
# Between SIGTERM and SIGKILL; its default is half a minute, in which the cause is not reported.
_SHUTDOWN_S = 2


def available() -> str:
    """Return "" where PyTorch is there, else the command that installs it."""
    if find_spec("torch") is None:
        return f"PyTorch is not installed beside {sys.executable}; `pip install 'dlbench[torch]'` installs it"
    return ""


def argv(
    layout: Layout, program: tuple[str, ...], options: Options, settings: Settings, variables: tuple[str, ...]
) -> tuple[str, ...]:
    """Return torchrun's command; processes inherit the environment."""
    number = ("--nproc-per-node", str(len(layout.places)))
    return (program[0], *_PROGRAM, *_HERE, *number, *_ENDING, "--no-python", *program)


def environment(layout: Layout, options: Options, settings: Settings) -> dict[str, str]:
    """Return how long torchrun waits for workers that it ends."""
    return {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(_SHUTDOWN_S)}
