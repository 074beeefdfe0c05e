"""`dlbench export`: a study in the format of another tool."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import click

from dlbench.analysis.formatting import counted
from dlbench.cli import options
from dlbench.errors import UserError, unwritable


@click.command("export")
@options.study
@options.studies
@click.option(
    "--to", "form", required=True, metavar="FORMAT", shell_complete=options.plugins_of("exporters"),
    help="`dlbench list exporters` shows all.",
)  # fmt: skip
@click.option("--output", type=options.path, metavar="DIR", help="Default: `FORMAT` in the study.")
def command(study: Path | None, studies: Path, form: str, output: Path | None) -> None:
    """Write STUDY, by default the newest, for another tool."""
    from dlbench import plugins
    from dlbench.records import files
    from dlbench.report.data import read
    from dlbench.study.folder import newest

    exporter = plugins.load("exporters", form)
    package = exporter.get("PACKAGE")
    if package is not None and find_spec(package) is None:
        raise UserError(f"the exporter {form!r} needs {package}", hint=f"pip install {package}")
    path = study or newest(studies).path
    folder = output or path / exporter.name
    if (folder / files.STUDY).exists() or (folder / files.table("runs")).exists():
        raise UserError(
            f"{folder} is a study", hint="name another --output: nothing is written into a study's own files"
        )
    data = read([path])
    is_new = not folder.exists()
    try:
        files.make_folder(folder)
        written = exporter.get("export")(data, folder)
    except OSError as error:
        raise unwritable(error, folder, "name another --output") from error
    finally:
        if is_new:
            # An exporter may send everything elsewhere, or refuse.
            with suppress(OSError):
                folder.rmdir()
    click.echo(_summary(written, folder))


def _summary(written: Sequence[Path | str], folder: Path) -> str:
    """Return what was written where, in a line; what lies in its own folder counts as that folder."""
    if len(written) < 2:
        return str(written[0]) if written else "nothing is written: no run completed"
    kinds = Counter("folder" if Path(path).is_dir() else "file" for path in written)
    return f"{' and '.join(counted(number, kind) for kind, number in kinds.items())} in {folder}"
