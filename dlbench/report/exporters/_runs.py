"""The runs of a study as other tools take them: times, settings, results, and curves by epoch."""

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dlbench.analysis.arms import Row, records
from dlbench.analysis.groups import varying
from dlbench.report.data import ReportData
from dlbench.scenario.metrics import BUILT_IN, SCORE_COLUMNS
from dlbench.scenario.scenario import name_from

if TYPE_CHECKING:
    import pandas as pd

CURVES = (*SCORE_COLUMNS, "learning_rate")
RESULTS = tuple(column for column, metric in BUILT_IN.items() if not metric.is_score or "validation" in column)
# What is said of a run even where all runs of the study share it.
_ALWAYS = ("model", "dataset", "strategy", "workers", "batch_size", "batch_size_global")

# The end of the year 9999.
_END_S = 253_402_300_800
# Of a name that each of the tools takes.
_MOST_BYTES = 128
# What stands behind a name that is not the text that it was made from.
_HASH_LETTERS = 16
_HASHED = re.compile(rf"-[0-9a-f]{{{_HASH_LETTERS}}}\Z")


def distinct_name(text: str) -> str:
    """Return a text as the name of a folder or run, of at most 128 bytes; no two texts have the same.

    A text that had to be changed or cut ends in a hash of the whole, and so does one that ends as these do.
    """
    name = re.sub(r"[:;,#?%]", "-", name_from(text))
    if name == text and len(name.encode()) <= _MOST_BYTES and not _HASHED.search(name):
        return name
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_HASH_LETTERS]
    return f"{name.encode()[: _MOST_BYTES - 1 - len(digest)].decode(errors='ignore')}-{digest}"


@dataclass(frozen=True)
class ExportedRun:
    """One run.

    Attributes:
        row: Its row of `runs.csv`.
        epochs: Rows of `epochs.csv` of its first worker, in order: all workers have the same scores.
        settings: Settings that vary between the exported runs, and those that every reader asks for; only known ones.
        hostname: Of the machine that the study was run from; empty where it is not known.
        metrics: What scripts of these studies report besides.
    """

    row: Row
    epochs: tuple[Row, ...] = field(repr=False)
    settings: Mapping[str, Any] = field(repr=False)
    hostname: str = ""
    metrics: tuple[str, ...] = ()

    @property
    def run_id(self) -> str:
        """Its name in the study."""
        return str(self.row["run_id"])

    @property
    def began_s(self) -> float | None:
        """When its launcher was started, in seconds since 1970."""
        began = self.row.get("started_at")
        return datetime.fromisoformat(str(began)).timestamp() if began else None

    @property
    def first_step_s(self) -> float | None:
        """When its workers were ready for the first step."""
        return _sum(self.began_s, self.row.get("startup_time_s"))

    @property
    def ended_s(self) -> float | None:
        """When all its processes had ended."""
        return _sum(self.began_s, self.row.get("wall_time_s"))

    @property
    def results(self) -> dict[str, float]:
        """Its results that are known."""
        return dict(_known(self.row, (*RESULTS, *self.metrics)))

    def curves(self, epoch: Row) -> dict[str, float]:
        """Return the values of its curves at an epoch."""
        return dict(_known(epoch, (*CURVES, *self.metrics)))

    def at_s(self, epoch: Row) -> float | None:
        """Return when an epoch ended; unknown where an earlier attempt trained it."""
        return _sum(self.first_step_s, epoch.get("ended_at_s"))


def runs_of(data: ReportData, runs: "pd.DataFrame") -> Iterator[ExportedRun]:
    """Yield runs of a report, in their order."""
    curves: dict[tuple[Any, Any], list[Row]] = {}
    for epoch in records(data.epochs):
        if epoch.get("worker") in (None, 0) and epoch.get("epoch") is not None:
            curves.setdefault((epoch["study"], epoch["run_id"]), []).append(epoch)
    names = [name for name in (varying(runs) if len(runs) else ()) if name != "study"]
    scenarios = [study.scenario for study in data.studies if study.scenario is not None]
    metrics = tuple(dict.fromkeys(name for scenario in scenarios for name in scenario.metrics))
    hosts = {study.name: str(study.machine.get("hostname") or "") for study in data.studies}
    for row in records(runs):
        yield ExportedRun(
            row=row,
            epochs=tuple(sorted(curves.get((row["study"], row["run_id"]), ()), key=lambda epoch: int(epoch["epoch"]))),
            settings={name: row[name] for name in dict.fromkeys((*_ALWAYS, *names)) if row.get(name) is not None},
            hostname=hosts.get(row["study"], ""),
            metrics=metrics,
        )


def _known(row: Row, names: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    """Yield those numbers of a row that are known and finite, with their names."""
    for name in names:
        value = row.get(name)
        if isinstance(value, int | float) and math.isfinite(value):
            yield name, float(value)


def _sum(*parts: float | None) -> float | None:
    """Return a sum of seconds; None if a part is unknown, or the sum is beyond all dates."""
    total = sum(math.nan if part is None else part for part in parts)
    return total if abs(total) < _END_S else None
