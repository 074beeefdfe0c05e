"""Several hosts on this machine, as root: `python -m tests.cluster --help`."""

import sys

import click

from tests.cluster.commands import CommandError
from tests.cluster.folder import all_folders
from tests.cluster.identity import StillRunningError
from tests.cluster.make import make
from tests.cluster.needs import LackingError, lacking
from tests.cluster.ready import NotReadyError
from tests.cluster.take_down import running, take_down


class Refusal(click.ClickException):
    """A mistake in what was asked for, or a lack of this machine: one line, exit code 2."""

    exit_code = 2


@click.group()
def main() -> None:
    """Make several hosts on this machine, and take them down again (as root).

    \b
    up 3 --rate 1gbit              three hosts on links of 1 Gbit/s
    up 2 --slurm                   two hosts with a Slurm
    up 2 --private /data/studies   each with a folder of its own there
    """


@main.command()
@click.argument("hosts", type=int)
@click.option("--rate", help="Limit of each link, such as 1gbit or 200mbit.")
@click.option("--slurm", is_flag=True, help="With a Slurm.")
@click.option("--private", multiple=True, help="A folder that the hosts do not share; may be given again.")
def up(hosts: int, rate: str | None, slurm: bool, private: tuple[str, ...]) -> None:
    """Make a cluster, say how to reach it, and leave it up."""
    try:
        made = make(hosts, rate=rate, private=private, with_slurm=slurm)
    except (LackingError, ValueError) as mistake:
        raise Refusal(str(mistake)) from None
    made.folder.keep()
    click.echo(made.how_to_reach())


@main.command()
@click.argument("name", required=False)
def down(name: str | None) -> None:
    """Take a cluster down: the one that is named, or the only one there is."""
    names = [folder.name for folder in all_folders()]
    chosen = [name] if name else names
    if len(chosen) != 1 or chosen[0] not in names:
        raise Refusal(f"name one of the clusters there are: {', '.join(names) or 'none'}")
    if lack := lacking():
        raise Refusal(lack)
    take_down(chosen[0])
    click.echo(f"{chosen[0]} is gone")


@main.command("list")
def show() -> None:
    """Print a line for each cluster of this machine."""
    for folder in all_folders():
        record = folder.record()
        if record is None:
            click.echo(f"{folder.name}  half made; take it down")
            continue
        what = f"{len(record.hosts)} hosts on {record.subnet}, {record.rate or 'full speed'}"
        gone = "its maker is gone; take it down"
        owner = f"in use by process {record.maker.pid}" if record.maker.is_alive else gone
        state = "left up" if record.is_kept else owner
        click.echo(f"{folder.name}  {what}, {len(running(folder.name))} processes, {state}")


if __name__ == "__main__":
    try:
        main(prog_name="python -m tests.cluster")
    except (CommandError, NotReadyError, StillRunningError) as failure:
        sys.exit(f"tests.cluster: {failure}")
