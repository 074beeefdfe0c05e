"""How long runs will take, from earlier studies of the same scenario."""

import csv
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from dlbench.records import files
from dlbench.records.outcome import Status
from dlbench.study.folder import studies_of

# A cell of `runs.csv` may hold a long reason; csv's own limit is 128 KiB.
MAX_CELL = 1 << 30


def wall_times(scenario_name: str, studies: Path) -> dict[str, float]:
    """Return the median wall time, in seconds, of completed runs by the fingerprint of their arm.

    Args:
        scenario_name: Whose studies are read.
        studies: Folder that holds them.
    """
    found: dict[str, list[float]] = {}
    for folder in studies_of(studies, scenario_name):
        fingerprints = {run.run_id: run.fingerprint for run in folder.record.runs}
        for run_id, seconds in _completed(folder.path / files.table("runs")):
            if run_id in fingerprints:
                found.setdefault(fingerprints[run_id], []).append(seconds)
    return {fingerprint: median(seconds) for fingerprint, seconds in found.items()}


def _completed(table: Path) -> Iterator[tuple[str, float]]:
    if not table.exists():
        return
    csv.field_size_limit(MAX_CELL)
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row.get("status") == Status.COMPLETED and row.get("wall_time_s"):
                yield row["run_id"], float(row["wall_time_s"])
