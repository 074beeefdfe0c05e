"""`dlbench export`: a study in the format of another tool."""

from importlib.util import find_spec
from pathlib import Path

import click

from dlbench.cli import candidates, options
from dlbench.errors import UserError


@click.command("export")
@click.argument("study", type=click.Path(path_type=Path), required=False, shell_complete=candidates.studies)
@options.studies
@click.option(
    "--to", "form", required=True, metavar="FORMAT", shell_complete=candidates.plugins_of("exporters"),
    help="`dlbench list exporters` shows all.",
)  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Default: `FORMAT` in the study.")
def command(study: Path | None, studies: Path, form: str, output: Path | None) -> None:
    """Write STUDY, by default the newest, for another tool."""
    from dlbench import plugins
    from dlbench.records import files
    from dlbench.report.data import read
    from dlbench.study.folder import latest

    exporter = plugins.load("exporters", form)
    package = exporter.get("PACKAGE")
    if package is not None and find_spec(package) is None:
        raise UserError(f"the exporter {form!r} needs {package}", hint=f"pip install {package}")
    path = study or latest(studies).path
    folder = output or path / exporter.name
    if (folder / files.STUDY).exists() or (folder / files.table("runs")).exists():
        raise UserError(
            f"{folder} is a study", hint="name another --output: nothing is written into a study's own files"
        )
    data = read([path])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = exporter.get("export")(data, folder)
    except FileExistsError as error:
        raise UserError(f"{folder} is no folder", hint="name another --output") from error
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}", hint="name another --output") from error
    click.echo(f"{len(written)} written in {folder}" if len(written) > 1 else str(written[0]) if written else "nothing")
