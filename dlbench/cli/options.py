"""Options that several commands share, and how to read their values."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dlbench.cli import candidates
from dlbench.errors import UserError

scenario = click.argument("scenario", type=click.Path(path_type=Path), shell_complete=candidates.scenarios)
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


sets = click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE",
    help="A value in place of the scenario's, as it is written there; may be given again.",
)  # fmt: skip


def read_only(texts: tuple[str, ...]) -> dict[str, str]:
    """Return `--only axis=value` texts as a mapping.

    Raises:
        UserError: One has another form, or an axis is given twice.
    """
    return _read_pairs(texts, "--only", "axis=value", "--only workers=2", "all that is given must hold at once")


def read_sets(texts: tuple[str, ...]) -> dict[str, str]:
    """Return `--set key=value` texts as a mapping.

    Raises:
        UserError: One has another form, or a key is given twice.
    """
    return _read_pairs(texts, "--set", "key=value", "--set epochs=2", "one value can hold")


def _read_pairs(texts: tuple[str, ...], option: str, form: str, example: str, why_once: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"{option} {text!r} is not of the form {form}", hint=f"for example {example}")
        if key.strip() in pairs:
            raise UserError(f"{option} names {key.strip()!r} twice; {why_once}")
        pairs[key.strip()] = value.strip()
    return pairs


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
