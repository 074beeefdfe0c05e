"""`dlbench import`: numbers that were measured elsewhere become a study."""

from pathlib import Path

import click

from dlbench.analysis.formatting import counted
from dlbench.cli import options
from dlbench.errors import UserError, unwritable


@click.command("import")
@click.argument("table", type=options.path)
@options.output
@click.option("--name", default="", help="The study's name; default: the file's.")
@click.option(
    "--column", "columns", multiple=True, metavar="THEIRS=OURS",
    help="What a column is, where it is not guessed: throughput=samples_per_s, days=train_time_s*86400. THEIRS= leaves "
    "it out, THEIRS=+ lets it tell arms apart.",
)  # fmt: skip
def command(table: Path, output: Path, name: str, columns: tuple[str, ...]) -> None:
    """Make a study of TABLE, a CSV file with a line for each run: workers, batch size, rate or time, hardware ...

    `report`, `compare` and `recommend` read it; its rows say that dlbench has measured nothing of it (`stated`).
    Columns that dlbench does not know tell arms apart.
    """
    from dlbench.study.imported import import_table

    named = dict(word.rpartition("=")[::2] for word in columns)
    if wrong := next((word for word in columns if "=" not in word), None):
        raise UserError(f"--column {wrong}: it has no `=`", hint="such as --column throughput=samples_per_s")
    try:
        imported = import_table(table, output, name, named)
    except OSError as error:
        raise unwritable(error, output, "name another --output") from error
    click.echo(f"{imported.folder}: {counted(imported.num_runs, 'run')} of {counted(imported.num_arms, 'arm')}")
    for remark in imported.remarks:
        click.echo(remark)
    click.echo(f"Next: dlbench report {imported.folder}")
