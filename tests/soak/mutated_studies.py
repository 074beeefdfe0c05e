"""Studies with one broken file, for `report`, `compare` and whoever opens them."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from dlbench.analysis.compare.comparison import compare
from dlbench.errors import UserError
from dlbench.report import comparison
from dlbench.report.data import read as read_data
from dlbench.report.rendering.pool import RenderPool, Task
from dlbench.report.write import ReportRequest, write_report
from dlbench.study.folder import open_study

ORIGINAL = Path(__file__).parents[2] / "results" / "digits-batch-workers"
# Rows of each table: enough for every chart, few enough for thousands of reports.
NUM_RUNS, NUM_ROWS = 24, 200
# Before the file's name, in the first line of a mutant.
HEAD = "### "


@cache
def whole() -> dict[str, str]:
    """Return the files of a small sound study, by name."""
    runs = (ORIGINAL / "runs.csv").read_text(encoding="utf-8").splitlines(keepends=True)[: NUM_RUNS + 1]
    epochs = (ORIGINAL / "epochs.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    found = {"runs.csv": "".join(runs), "epochs.csv": "".join(epochs[: NUM_ROWS + 1])}
    for name in ("machine.json", "scenario.yaml"):
        found[name] = (ORIGINAL / name).read_text(encoding="utf-8")
    return found


@cache
def files() -> tuple[str, ...]:
    """Return each file of the study as a text that begins with its name."""
    return tuple(f"{HEAD}{name}\n{text}" for name, text in whole().items())


def read(text: str) -> None:
    """Report on the study with the file that a text holds, compare it with the sound one, and open it.

    Raises:
        UserError: The file is refused.
    """
    head, _, content = text.partition("\n")
    name = head.removeprefix(HEAD)
    if name not in whole():  # the change hit the name itself
        return
    with _study({}) as sound, _study({name: content}) as broken:
        try:
            data = read_data([broken])
            write_report(data, ReportRequest(broken / "report"), NoPictures(0))
            machines = ({}, data.studies[0].machine)
            comparison.markdown(compare(read_data([sound]).arms, data.arms, machines=machines))
        except UserError as error:
            raise UserError(f"mutant: {error.message}", hint=error.hint, where=error.where) from error
        with contextlib.suppress(UserError):
            open_study(broken)


class NoPictures(RenderPool):
    """Renders nothing: pictures take seconds, and what they show is in the tables."""

    def submit(self, task: Task) -> Callable[[], str]:
        """Return what returns an empty picture."""
        return lambda: "<svg></svg>"


@contextlib.contextmanager
def _study(changed: dict[str, str]) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    try:
        for name, text in (whole() | changed).items():
            (folder / name).write_bytes(text.encode(errors="surrogatepass"))
        yield folder
    finally:
        shutil.rmtree(folder)
