"""`dlbench report`: turn studies into figures, one page, a summary and tidy tables."""

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from dlbench.cli import options, tables


@click.command("report")
@options.several_studies
@click.option(
    "--output", type=options.path, metavar="DIR",
    help="Folder of the report; default: `report` in the study, or here where there are several studies.",
)  # fmt: skip
@click.option(
    "--figure", "figures", multiple=True, metavar="NAME", shell_complete=options.plugins_of("figures"),
    help="Only this figure; may be given again.",
)  # fmt: skip
@click.option("--format", "formats", default="png,svg", show_default=True, metavar="png,svg", help="Image formats.")
@click.option("--style", default="light", show_default=True, metavar="NAME", help="light, dark or print.")
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
def command(
    studies: tuple[Path, ...], output: Path | None, figures: tuple[str, ...], formats: str, style: str, opens: bool
) -> None:
    """Turn one or several STUDY folders into figures, a page (report.html), a summary (report.md) and CSV tables.

    A figure without data is skipped, with a reason. `dlbench list figures` shows all of them.
    """
    draw(studies, output, figures, formats, style, opens=opens)


def draw(
    studies: Sequence[Path],
    output: Path | None = None,
    figures: tuple[str, ...] = (),
    formats: str = "png,svg",
    style: str = "light",
    *,
    opens: bool = False,
) -> None:
    """Write the report of some studies, and say where it is."""
    from dlbench.report.rendering.pool import RenderPool, num_processes

    # Its processes start before anything is read.
    with RenderPool(num_processes(figures)) as pool, _shown_progress() as progress, _without_gc():
        from dlbench.report.data import read
        from dlbench.report.write import FOLDER, PAGE, ReportRequest, write_report

        folder = output or (studies[0] / FOLDER if len(studies) == 1 else Path(FOLDER))
        chosen = tuple(word.strip() for word in formats.split(",") if word.strip())
        done = write_report(read(studies), ReportRequest(folder, figures, chosen, style), pool, progress)
    if done.left_out:
        click.echo(f"not drawn: {', '.join(name for name, _ in done.left_out)} (the page says why)")
    click.echo(f"{len(done.written)} files in {folder}")
    if (folder / PAGE) in done.written:
        click.echo(f"page: {folder / PAGE}")
        if opens:
            click.launch(str(folder / PAGE))


@contextlib.contextmanager
def _without_gc() -> Iterator[None]:
    """Make no search for cycles: what a report is made of is needed to the end, and a tenth of the time goes there."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def _shown_progress() -> Iterator[Callable[[int, int], None]]:
    """Show on one line of a terminal which figure is drawn, until all are; elsewhere nothing."""
    if not sys.stdout.isatty():
        yield lambda done, total: None
        return
    with tables.console().status("reading rows") as line:
        yield lambda done, total: line.update(f"drawing {min(done + 1, total)} of {total} figures")
