"""Options that several commands share, and how their values are read."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlbench.errors import UserError

if TYPE_CHECKING:
    from dlbench.scenario.cluster import Cluster

scenario = click.argument("scenario", type=click.Path(path_type=Path))
hosts = click.option(
    "--hosts", metavar="a:4,b:4", help="Hosts and how many workers fit on each; default: this machine."
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


def read_cluster(hosts: str | None) -> "Cluster":
    """Return the cluster that `--hosts` names, or this machine."""
    from dlbench.scenario.cluster import parse_hosts, this_machine

    return this_machine() if hosts is None else parse_hosts(hosts)
