"""`run()` and `load_study()`: the same from Python and notebooks as from the command line."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbench.records import files
from dlbench.records.tables import read_table
from dlbench.scenario.cluster.cluster_file import ClusterOptions
from dlbench.study.budget import Budget, read_budget
from dlbench.study.folder import DEFAULT_PARENT, open_study
from dlbench.study.measure import measure
from dlbench.study.plan import Request
from dlbench.study.runner import Watcher

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from dlbench.analysis.answer.answer import Answers
    from dlbench.report.data import ReportData

# The columns that join the other tables to `runs.csv`.
KEYS = ["run_id", "attempt"]


@dataclass(frozen=True)
class Study:
    """A study on disk; its tables are read when they are asked for.

    Attributes:
        path: Its folder.
        record: What it is: runs, cluster, versions; None of a published study without its `study.json`.
        machine: What it ran on.
    """

    path: Path
    record: Any = field(repr=False)
    machine: Mapping[str, Any] = field(repr=False)

    @cached_property
    def runs(self) -> "pd.DataFrame":
        """One row for each attempt: `runs.csv`."""
        return self._table("runs")

    @cached_property
    def epochs(self) -> "pd.DataFrame":
        """One row for each epoch and worker, with the columns of its run."""
        return self._joined("epochs")

    @cached_property
    def steps(self) -> "pd.DataFrame":
        """One row for each step and worker, with the columns of its run."""
        return self._joined("steps")

    @cached_property
    def sensors(self) -> "pd.DataFrame":
        """One row for each reading, with the columns of its run."""
        return self._joined("sensors")

    @cached_property
    def topology(self) -> "pd.DataFrame":
        """One row for each process: its host, cores, device and interface, with the columns of its run."""
        return self._joined("topology")

    @cached_property
    def arms(self) -> "pd.DataFrame":
        """One row for each arm and metric: median and interval over its repeats, as the report's `arms.csv`."""
        from dlbench.analysis.summary_tables import arms_frame

        return arms_frame(self.report_data.arms, self.report_data.settings)

    @cached_property
    def report_data(self) -> "ReportData":
        """The rows, scenario and machine that a report is made of."""
        from dlbench.report.data import read

        return read([self.path])

    def recommend(self, goal: str = "") -> "Answers":
        """Return what to use, what is open, what to doubt and what to run next, as `dlbench recommend --json` does.

        Args:
            goal: Such as `time`, `cost`, `throughput`, `time to validation_accuracy>=0.9`; default: the scenario's.

        Raises:
            UserError: It is no goal.
        """
        from dlbench.report.answers import answers_of

        return answers_of(self.report_data, goal)

    def figure(self, name: str, style: str = "light") -> "Figure":
        """Return one of the report's figures (`dlbench list figures`), to be shown or changed.

        Raises:
            UserError: There is no such figure or style, or the study lacks the rows for it.
        """
        from dlbench.report.write import picture

        return picture(self.report_data, name, style)

    def report(self, output: str | Path | None = None, style: str = "light") -> Path:
        """Write the report, as `dlbench report` does, and return its folder; default: `report` in the study.

        Raises:
            UserError: It cannot be written.
        """
        from dlbench.report.write import FOLDER, ReportRequest, write_report

        folder = self.path / FOLDER if output is None else Path(output)
        write_report(self.report_data, ReportRequest(folder, style=style))
        return folder

    def _table(self, name: str) -> "pd.DataFrame":
        return read_table(files.table_path(self.path, name))

    def _joined(self, name: str) -> "pd.DataFrame":
        """Return a table with the columns of `runs`; where both have a column, that of the run ends in `_run`."""
        return self._table(name).merge(self.runs, on=KEYS, how="left", suffixes=("", "_run"), validate="many_to_one")


def run(
    scenario: str | Path | Mapping[str, Any],
    *,
    output: str | Path = DEFAULT_PARENT,
    only: Mapping[str, Any] | None = None,
    hosts: str = "",
    hostfile: str | Path | None = None,
    cluster: str | Path | None = None,
    repeats: int | None = None,
    study: str | Path | None = None,
    resume: bool = False,
    budget: str = "",
    confirm: bool = False,
    watcher: Watcher | None = None,
) -> Study:
    """Measure a scenario and return its study; failed runs are rows with their reason.

    Args:
        scenario: A scenario file, the name of one that comes with dlbench, or its content as a mapping.
        output: Folder of all studies; the study's own folder is made inside it.
        only: Values of settings; only runs that have all of them are made.
        hosts: `a:4,b:4`; default: this machine.
        hostfile: The same as a file of Open MPI, MPICH or a queue.
        cluster: The same as a cluster file.
        repeats: In place of the scenario's.
        study: A study to continue.
        resume: Continue the newest study of the scenario.
        budget: The most that the runs may take, such as `2h` or `8 device-hours`.
        confirm: Run the arm to use and its rivals once more on fresh seeds.
        watcher: Receives the progress; default: nothing is shown.

    Raises:
        UserError: Something that the caller can fix.
        KeyboardInterrupt: It was interrupted; what was made is on disk, and `resume` completes it.
    """
    request = Request(
        scenario=scenario if isinstance(scenario, Mapping) else Path(scenario),
        output=Path(output),
        only={key: _as_text(value) for key, value in (only or {}).items()},
        where=ClusterOptions(hosts or None, _as_path(hostfile), _as_path(cluster)),
        repeats=repeats,
        study=_as_path(study),
        resume=resume,
        budget=read_budget(budget) if budget else Budget(),
        confirms=confirm,
    )
    return load_study(measure(request, watcher or Watcher(), threading.Event()).folder.path)


def load_study(path: str | Path) -> Study:
    """Open a study that is on disk; one that was published may hold its tables alone.

    Raises:
        UserError: There is none, or a newer dlbench wrote it.
    """
    place = Path(path)
    if not (place / files.STUDY).exists() and (place / files.table("runs")).is_file():
        from dlbench.report.data import read

        (source,) = read([place]).studies
        return Study(place, None, source.machine)
    folder = open_study(place)
    return Study(folder.path, folder.record, folder.machine)


def _as_path(value: str | Path | None) -> Path | None:
    return None if value is None else Path(value)


def _as_text(value: Any) -> str:
    """Return a value as `--only` takes it: as YAML reads it."""
    import json

    return value if isinstance(value, str) else json.dumps(value)
