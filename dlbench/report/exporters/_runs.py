"""The runs of a study as other tools take them: times, settings, results, and curves by epoch."""

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dlbench.analysis.arms import Row, records
from dlbench.grouping import by_key
from dlbench.report.data import ReportData, run_of
from dlbench.scenario.metrics import BUILT_IN, SCORE_COLUMNS
from dlbench.scenario.scenario import name_from

# What trackers note of a run besides its settings.
FACTS = ("run_id", "attempt", "label", "status", "reason", "repeat", "seed", "emulated")
# Settings that are said of a run even where all runs of the study share them.
_ALWAYS = ("model", "dataset", "strategy", "workers", "batch_size", "batch_size_global")

# The end of the year 9999.
_END_S = 253_402_300_800
# Of a name that each of the tools takes.
_MOST_BYTES = 128
# What stands behind a name that is not the text that it was made from.
_HASHED = re.compile(r"-[0-9a-f]{16}\Z")


def distinct_name(text: str) -> str:
    """Return a text as the name of a folder or run, of at most 128 bytes; no two texts have the same.

    A text that had to be changed or cut ends in a hash of the whole, and so does one that ends as these do.
    """
    name = re.sub(r"[:;,#?%]", "-", name_from(text))
    if name == text and len(name.encode()) <= _MOST_BYTES and not _HASHED.search(name):
        return name
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{name.encode()[: _MOST_BYTES - 1 - len(digest)].decode(errors='ignore')}-{digest}"


@dataclass(frozen=True)
class Epoch:
    """What a run's first worker noted of an epoch: all workers have the same scores.

    Attributes:
        number: Which epoch it was.
        ended_s: When it ended, in seconds since 1970; None where that is unknown or an earlier attempt trained it.
        values: Its values that are known, of the curves that trackers show.
        row: Its row of `epochs.csv`.
    """

    number: int
    ended_s: float | None
    values: Mapping[str, float]
    row: Row


@dataclass(frozen=True)
class ExportedRun:
    """One run; moments are in seconds since 1970, None where they are unknown.

    Attributes:
        row: Its row of `runs.csv`, and the `hostname` of the machine that the study was run from, where it is known.
        began_s: When its launcher was started.
        first_step_s: When its workers were ready for the first step.
        ended_s: When all its processes had ended.
        settings: Settings that vary in the report, and those that every reader asks for; only known ones.
        results: Its results that are known, with what the studies' scripts report besides.
        epochs: Its epochs, in order.
    """

    row: Row
    began_s: float | None
    first_step_s: float | None
    ended_s: float | None
    settings: Mapping[str, Any]
    results: Mapping[str, float]
    epochs: tuple[Epoch, ...]


def runs_of(data: ReportData, runs: Iterable[Row]) -> Iterator[ExportedRun]:
    """Yield runs of a report, in their order."""
    numbered = [epoch for epoch in records(data.epochs) if epoch.get("epoch") is not None]
    noted = by_key((run_of(epoch), epoch) for epoch in numbered if epoch.get("worker") in (None, 0))
    settings = [name for name in dict.fromkeys((*_ALWAYS, *data.settings)) if name != "study"]
    results = [name for name in data.metrics if name not in SCORE_COLUMNS or "validation" in name]
    curves = (*SCORE_COLUMNS, "learning_rate", *(name for name in results if name not in BUILT_IN))
    hosts = {study.name: study.machine.get("hostname") or None for study in data.studies}
    for row in runs:
        began_s = datetime.fromisoformat(str(row["started_at"])).timestamp() if row.get("started_at") else None
        first_step_s = _sum(began_s, row.get("startup_time_s"))
        epochs = (
            Epoch(int(each["epoch"]), _sum(first_step_s, each.get("ended_at_s")), _numbers(each, curves), each)
            for each in noted.get(run_of(row), ())
        )
        yield ExportedRun(
            row={**row, "hostname": hosts.get(row["study"])},
            began_s=began_s,
            first_step_s=first_step_s,
            ended_s=_sum(began_s, row.get("wall_time_s")),
            settings=known_values(row, settings),
            results=_numbers(row, results),
            epochs=tuple(sorted(epochs, key=lambda epoch: epoch.number)),
        )


def known_values(row: Row, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return those values of a row, of all its columns or some, that are known and finite."""
    values = {name: row[name] for name in (row if names is None else names) if row.get(name) is not None}
    return {name: value for name, value in values.items() if not isinstance(value, float) or math.isfinite(value)}


def _numbers(row: Row, names: Iterable[str]) -> dict[str, float]:
    return {name: float(value) for name, value in known_values(row, names).items() if isinstance(value, int | float)}


def _sum(*parts: float | None) -> float | None:
    """Return a sum of seconds; None if a part is unknown, or the sum is beyond all dates."""
    total = sum(math.nan if part is None else part for part in parts)
    return total if abs(total) < _END_S else None


def ms(seconds: float | None) -> int | None:
    """Return a moment in whole milliseconds; None where it is unknown."""
    return None if seconds is None else round(1000 * seconds)
