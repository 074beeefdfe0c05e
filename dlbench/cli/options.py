"""Options that several commands share, and how their values are read."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlbench.errors import UserError

if TYPE_CHECKING:
    from dlbench.scenario.cluster import Cluster

scenario = click.argument("scenario", type=click.Path(path_type=Path))
_hosts = click.option(
    "--hosts", metavar="a:4,b:4", help="Hosts and how many workers fit on each; default: this machine."
)
_hostfile = click.option(
    "--hostfile",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The same from a file of Open MPI, MPICH or a queue.",
)
only = click.option(
    "--only", "only", multiple=True, metavar="AXIS=VALUE", help="Only runs with this value; may be given again."
)
studies = click.option(
    "--studies",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("studies"),
    show_default=True,
    help="Folder of studies.",
)


def read_only(texts: tuple[str, ...]) -> dict[str, str]:
    """Return `axis=value` texts as a mapping.

    Raises:
        UserError: One has another form, or an axis is given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--only {text!r} is not of the form axis=value", hint="for example --only workers=2")
        if key.strip() in found:
            raise UserError(f"--only names {key.strip()!r} twice; all that is given must hold at once")
        found[key.strip()] = value.strip()
    return found


def hosts(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--hosts` and `--hostfile` to a command."""
    return _hosts(_hostfile(command))


def read_cluster(hosts: str | None, hostfile: Path | None) -> "Cluster":
    """Return the cluster that `--hosts` or `--hostfile` names, else the Slurm job we are in, else this machine.

    Raises:
        UserError: Both are given, or what is given names no hosts.
    """
    from dlbench.scenario.allocation import allocation
    from dlbench.scenario.cluster import named, this_machine

    return named(hosts, hostfile) or allocation(os.environ) or this_machine()
