"""`dlbench fit`: find the largest batch that fits one worker."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlbench.cli import options, tables
from dlbench.cli.signals import stop_on_signals

if TYPE_CHECKING:
    from dlbench.study.fit import LargestBatch

_COLUMNS = ("model and data set", "batch_size", "limited by", "GiB for each worker", "sizes tried", "device")


@click.command("fit")
@options.scenario
@options.only
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N",
    help="Workers that share this machine's memory; default: the most of any run of the scenario.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON with every size tried; progress goes to stderr.")
def command(scenario: Path, only: tuple[str, ...], workers: int | None, as_json: bool) -> None:
    """Find the largest batch of one worker for each model and data set of SCENARIO, on this machine.

    Real steps are made with growing batches, each in its own process, within `memory_limit_bytes` or the
    worker's share of the free memory (on a GPU: its memory), until the answer is known to 1/16. Write the number into
    the scenario as `batch_size`.
    """
    from pydantic import TypeAdapter

    from dlbench.scenario.cluster import this_machine
    from dlbench.scenario.expand.runs import expand
    from dlbench.scenario.read.scenario_file import read
    from dlbench.study.fit import LargestBatch, find_largest_batches
    from dlbench.study.follow import Stop
    from dlbench.study.prepare import Stopped

    parsed, cluster, stop = read(scenario), this_machine(), Stop()
    runs = expand(parsed, cluster, options.read_only(only))
    most = workers or max(run.settings.workers for run in expand(parsed, cluster))
    try:
        with stop_on_signals(stop):
            largest = find_largest_batches(runs, cluster, most, partial(click.echo, err=as_json), stop)
    except Stopped as error:
        raise KeyboardInterrupt from error
    if as_json:
        click.echo(TypeAdapter(list[LargestBatch]).dump_json(largest, indent=2).decode())
    else:
        tables.show(parsed.name, _COLUMNS, [_row(group) for group in largest])


def _row(found: "LargestBatch") -> Sequence[str]:
    memory = "-" if found.memory_bytes is None else f"{found.memory_bytes / 2**30:.2f}"
    return (found.name, str(found.batch_size), found.limited_by, memory, str(len(found.trials)), found.device_name)
