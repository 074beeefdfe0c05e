"""Options that several commands share, and how to read their values."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dlbench.errors import UserError

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
_cluster = click.option(
    "--cluster",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The same from a cluster file, with all that hosts have in common (see docs/hosts.md).",
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
    """Add `--hosts`, `--hostfile` and `--cluster` to a command, which gets them as one argument `where`."""

    @functools.wraps(command)
    def wrapped(*, hosts: str | None, hostfile: Path | None, cluster: Path | None, **others: Any) -> Any:
        from dlbench.scenario.cluster.cluster_file import ClusterOptions

        return command(where=ClusterOptions(hosts, hostfile, cluster), **others)

    return _hosts(_hostfile(_cluster(wrapped)))


def read_part(text: str | None) -> tuple[int, int] | None:
    """Return the two numbers of `3/12`; None where nothing is given.

    Raises:
        UserError: It has another form.
    """
    if text is None:
        return None
    number, _, total = text.partition("/")
    if not (number.isdecimal() and total.isdecimal()):
        raise UserError(f"--part {text!r} is not of the form 3/12")
    return int(number), int(total)
