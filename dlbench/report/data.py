"""The rows of one or several studies with their scenarios and machines: all that a report is made of."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, count
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbench.analysis.answer.doubts import pointless
from dlbench.analysis.arms import Arm, Row, are_numbers, arms, last_attempts, measured, records
from dlbench.analysis.formatting import counted
from dlbench.analysis.groups import tuned_columns, varying
from dlbench.errors import UserError, shown
from dlbench.grouping import by_key
from dlbench.records import files
from dlbench.records.columns import names, require_version
from dlbench.records.machine import read_machine
from dlbench.records.outcome import Status
from dlbench.records.tables import pieces, read_table, remedy
from dlbench.regular_file import read_regular
from dlbench.scenario import reference
from dlbench.scenario.metrics import TIME_TO_TARGET, Metric, declared
from dlbench.scenario.read.scenario_file import parse_kept
from dlbench.scenario.reference import Reference
from dlbench.scenario.run_spec import Phase
from dlbench.scenario.scenario import Scenario
from dlbench.scenario.settings import BatchScope

if TYPE_CHECKING:
    import pandas as pd

# The key of a run in a report, and that of an attempt.
RUN = ["study", "run_id"]
ATTEMPT = [*RUN, "attempt"]
run_of, attempt_of = itemgetter(*RUN), itemgetter(*ATTEMPT)
# What cells of these columns may say.
_KNOWN = {"status": set(map(str, Status)), "batch_scope": set(map(str, BatchScope))}
# What every run has at least one of; charts divide by them.
_COUNTS = ("workers", "batch_size_global")


@dataclass(frozen=True)
class StudyData:
    """One study as read from its files. A published folder may hold `runs.csv` and nothing else.

    Attributes:
        path: Its folder.
        name: Its name in the report, unique there.
        attempts: `runs.csv`: one row for each attempt of a measured run, `study` being `name`.
        scenario_text: `scenario.yaml`, verbatim; empty where it is absent.
        machine: `machine.json`; empty where it is absent.
        others: The same of runs that are no results: of searches, and on fresh seeds.
    """

    path: Path
    name: str
    attempts: tuple[Row, ...] = field(repr=False)
    scenario_text: str = field(repr=False)
    machine: Mapping[str, Any] = field(repr=False)
    others: tuple[Row, ...] = field(default=(), repr=False)

    @cached_property
    def scenario(self) -> Scenario | None:
        """The scenario; None where it is absent or cannot be read."""
        name = next((row["scenario"] for row in self.attempts if row.get("scenario")), "scenario")
        try:
            return parse_kept(self.scenario_text, f"{name}.yaml") if self.scenario_text else None
        except UserError:
            return None

    @cached_property
    def reference(self) -> Reference | None:
        """The published numbers that it keeps a copy of; None where it has none.

        Raises:
            UserError: Its `reference.csv` is not of the form.
        """
        path = self.path / files.REFERENCE
        return reference.read(path) if path.is_file() else None

    @cached_property
    def runs(self) -> tuple[Row, ...]:
        """The last attempt of each run, in the order of the runs' first rows."""
        return tuple(last_attempts(self.attempts))

    def table(self, name: str) -> "pd.DataFrame | None":
        """Return `runs`, `epochs`, `steps` or `sensors` of the runs in `attempts` with the column `study`, or None.

        Raises:
            UserError: It is there and is no such table, or is too large.
        """
        path = files.table_path(self.path, name)
        return self._named(read_table(path, self._run_ids)) if path.exists() else None

    def pieces(self, name: str) -> "Iterator[pd.DataFrame]":
        """Yield the same in pieces, whatever its size; none without it."""
        path = files.table_path(self.path, name)
        if path.exists():
            yield from map(self._named, pieces(path, self._run_ids))

    @property
    def _run_ids(self) -> set[str]:
        return {row["run_id"] for row in self.attempts}

    def _named(self, rows: "pd.DataFrame") -> "pd.DataFrame":
        return rows.assign(study=self.name).astype({"study": "string"})


def has_ended(row: Row) -> bool:
    """Whether a run was not interrupted."""
    return bool(row["status"] != Status.INTERRUPTED)


@dataclass(frozen=True)
class ReportData:
    """All rows of a report, of the last attempt of each run; earlier attempts are in `attempts` alone."""

    studies: tuple[StudyData, ...]

    @cached_property
    def attempts(self) -> tuple[Row, ...]:
        """Every attempt of every study."""
        return tuple(row for study in self.studies for row in study.attempts)

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """The arms of all studies in the order of their first rows, those without a completed run too."""
        return tuple(arms(self.attempts))

    @cached_property
    def judged_arms(self) -> tuple[Arm, ...]:
        """The arms without interrupted runs, which say nothing of them; those of interrupted runs alone as they are."""
        return tuple(replace(arm, rows=tuple(filter(has_ended, arm.rows)) or arm.rows) for arm in self.arms)

    @cached_property
    def runs(self) -> tuple[Row, ...]:
        """The last attempt of each run, completed or not, in the order of the runs' first rows."""
        return tuple(row for study in self.studies for row in study.runs)

    @cached_property
    def completed(self) -> tuple[Row, ...]:
        """Those of `runs` that are completed."""
        return tuple(row for row in self.runs if row["status"] == Status.COMPLETED)

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """The metrics of all studies by column: the built-in ones and those that their scenarios declare."""
        each = (declared(study.scenario.metrics if study.scenario else {}) for study in self.studies)
        return {name: metric for metrics in each for name, metric in metrics.items()}

    def faults_of(self, row: Row) -> str:
        """Return why the time of a completed run is no result: that it learned `nothing` or `missed` its target."""
        is_late = row.get("target_value") is not None and row.get(TIME_TO_TARGET.column) is None
        return ";".join(["nothing"] * ("nothing" in pointless(row, self.metrics)) + ["missed"] * is_late)

    @cached_property
    def settings(self) -> tuple[str, ...]:
        """The settings in which the arms differ, and those that were searched for."""
        return (*varying(self.arms), *tuned_columns(self.arms))

    @cached_property
    def references(self) -> dict[Reference, list[str]]:
        """Each reference with the names of all studies of the report that are compared with it.

        Raises:
            UserError: A `reference.csv` is not of the form.
        """
        return by_key((study.reference, study.name) for study in self.studies if study.reference)

    @cached_property
    def epochs(self) -> "pd.DataFrame":
        """What `table` returns of `epochs`."""
        return self.table("epochs")

    def of(self, chosen: Iterable[Arm]) -> "ReportData":
        """Return the data of some arms alone, with all attempts of their runs."""
        runs = {run_of(row) for arm in chosen for row in arm.rows}
        kept = (
            replace(study, attempts=tuple(row for row in study.attempts if run_of(row) in runs))
            for study in self.studies
        )
        return ReportData(tuple(study for study in kept if study.attempts))

    def table(self, name: str) -> "pd.DataFrame":
        """Return rows of `epochs.csv` or the like with the column `study`; empty where no study has the file."""
        import pandas as pd

        tables = [table for study in self.studies if (table := study.table(name)) is not None]
        if not tables:
            return pd.DataFrame(columns=[*ATTEMPT, *(column for column in names(name) if column not in ATTEMPT)])
        lasts = set(map(attempt_of, self.runs))
        every = pd.concat(tables, ignore_index=True)
        return every[[key in lasts for key in zip(*(every[name] for name in ATTEMPT), strict=True)]]


def read(paths: Iterable[Path]) -> ReportData:
    """Read one or several studies.

    Raises:
        UserError: A folder is no study, shares runs with another, holds no run or text where a metric belongs, or a
            newer dlbench wrote it.
    """
    studies: list[StudyData] = []
    for path in paths:
        study = _read_study(path, {study.name for study in studies})
        for earlier in studies:
            require_distinct(earlier, study)
        studies.append(study)
    if not studies:
        raise UserError("no study is given", hint="dlbench report studies/NAME")
    return ReportData(tuple(studies))


def require_distinct(first: StudyData, second: StudyData) -> None:
    """Refuse two studies that share runs, which would count twice.

    Raises:
        UserError: They are one folder, or one is a copy or a continuation of the other.
    """
    if first.path.resolve() == second.path.resolve():
        raise UserError(f"{second.path} is given twice")
    runs, others = (
        {(row["run_id"], row["attempt"], row["started_at"]) for row in study.runs if row.get("started_at")}
        for study in (first, second)
    )
    if shared := len(runs & others):
        raise UserError(
            f"{first.path} and {second.path} share {counted(shared, 'run')}: one copies or continues the other",
            hint="each run counts once: give the one with more runs alone, or studies that share none",
        )


def _read_study(path: Path, taken: set[str]) -> StudyData:
    if not path.is_dir():
        raise UserError(f"{path} is not a study folder", hint="`dlbench run` prints its path")
    if not (path / files.table("runs")).is_file():
        studies = sorted(folder.name for folder in path.iterdir() if (folder / files.table("runs")).is_file())
        hint = f"in it there are studies: {', '.join(studies[:5])}" if studies else "`dlbench run` prints its path"
        lost = remedy(path)
        message = f"{path} {'' if lost else 'is not a study: it '}has no {files.table('runs')}"
        raise UserError(message, hint=lost or hint)
    attempts, where = read_table(path / files.table("runs")), str(path / files.table("runs"))
    _check(attempts, where, remedy(path))
    base = next(iter(attempts["study"].dropna()), path.resolve().name)
    # With a number where another study of the report has the same name.
    name = next(name for name in chain([base], (f"{base} ({number})" for number in count(2))) if name not in taken)
    rows = tuple({**row, "study": name} for row in records(attempts))
    text = ""
    with suppress(OSError):
        text = read_regular(path / files.SCENARIO).decode("utf-8", errors="replace")
    results = tuple(measured(rows))
    others = tuple(row for row in rows if row.get("phase") not in (None, Phase.MEASURE))
    if not results:
        raise UserError("holds no measured run yet, only runs of a search", where=where)
    study = StudyData(path, name, results, text, read_machine(path / files.MACHINE), others)
    for metric in study.scenario.metrics if study.scenario else ():
        if not are_numbers(row.get(metric) for row in rows):
            raise UserError(f"has text in {metric}, a metric of its scenario", where=where)
    return study


def _check(attempts: "pd.DataFrame", where: str, hint: str) -> None:
    """Refuse rows that cannot be used.

    Raises:
        UserError: There is no row, one has no status or an unknown one or a count that cannot be, two are of one
            attempt, or they have another schema version.
    """
    if attempts.empty:
        raise UserError("holds no run yet", where=where, hint=hint)
    if attempts["status"].isna().any():
        raise UserError("has a row without status", where=where, hint=hint)
    for column, allowed in _KNOWN.items():
        if unknown := sorted(set(attempts[column].dropna()) - allowed):
            raise UserError(f"has the unknown {column} {shown(unknown[0])}", where=where, hint=hint)
    for column in _COUNTS:
        if (below := attempts[column].dropna()).lt(1).any():
            raise UserError(f"has a row whose {column} is {below.min()}; it is 1 or more", where=where, hint=hint)
    identity = attempts[["run_id", "attempt"]]
    for row in identity[identity.duplicated()].itertuples():
        raise UserError(f"has two rows of {row.run_id}, attempt {row.attempt}", where=where, hint=hint)
    for version in attempts["schema_version"].dropna().unique():
        require_version(version, where)
