"""Published numbers: a CSV file whose head, in comment lines, says in YAML where they are from and what is claimed.

`reference: NAME` in a scenario means `reference/NAME.csv` beside the scenario, else `scenarios/reference/NAME.csv` in
the folder dlbench is started in, else the `reference.csv` that a study keeps beside its copy of the scenario. The form
is described in `scenarios/reference/README.md`.
"""

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from dlbench.errors import UserError, nearest, shown
from dlbench.grouping import by_key
from dlbench.scenario.claims import COLUMNS, OPTION, PLACES, SERIES, Claim
from dlbench.scenario.frozen import Frozen
from dlbench.scenario.read import document
from dlbench.scenario.source import Source, translate

FOLDER = "reference"
# Where references lie that are not beside their scenario, from the folder dlbench is started in.
PROJECT = Path("scenarios", FOLDER)
SUFFIX = ".csv"
# The copy that a study keeps beside its scenario, and a file that every study has and no other folder.
KEPT, OF_A_STUDY = "reference.csv", "runs.csv"
HEAD = "#"


def _setting(known: tuple[str, ...], value: str) -> str:
    """Refuse what is no setting of the known ones, nor an option."""
    if value not in known and not re.fullmatch(OPTION, value):
        more = nearest(value, known) or f"there are: {', '.join(known)}, and options such as strategy.bound"
        raise ValueError(f"must be a setting by which curves can be drawn, not {shown(value)}; {more}")
    return value


class Head(Frozen):
    """The head of a reference file.

    Attributes:
        source: Who published the numbers, and when.
        about: What was trained, with what.
        hardware: On what.
        notes: What a reader has to know, such as what was assumed; one alone needs no list.
        x: The setting that varies along the curves: a column of `runs.csv`.
        series: The setting in which curves differ, or None.
        claims: What the study claims.
    """

    source: Annotated[str, Field(min_length=1)]
    about: str = ""
    hardware: str = ""
    notes: Annotated[tuple[str, ...], BeforeValidator(lambda note: (note,) if isinstance(note, str) else note)] = ()
    x: Annotated[str, AfterValidator(partial(_setting, tuple(PLACES)))]
    series: Annotated[str, AfterValidator(partial(_setting, SERIES))] | None = None
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class ReferenceRow:
    """The published numbers of one place; several rows of one place are its repeats.

    Attributes:
        place: The value of x.
        series: The series it belongs to; empty where the file has none.
        values: One for each of the file's columns, None where the study gives none.
    """

    place: float
    series: str
    values: tuple[float | None, ...]


class Reference(Head):
    """A study's published numbers: the head of their file, and its table.

    Attributes:
        columns: The measured columns, named as those of `runs.csv`.
        rows: The numbers.
        text: The file, verbatim.
    """

    columns: tuple[str, ...]
    rows: tuple[ReferenceRow, ...]
    text: str = Field(repr=False)

    def __eq__(self, other: object) -> bool:
        """Whether both say the same; their texts may differ, such as in the ends of lines."""
        return isinstance(other, Reference) and dict(self) | {"text": ""} == dict(other) | {"text": ""}

    def __hash__(self) -> int:
        return hash((self.source, self.x, self.columns, self.rows))

    @property
    def names(self) -> tuple[str, ...]:
        """The series in the order of their first rows; of a file without numbers those that its claims name.

        One empty name where the file has no series.
        """
        claimed = (name for claim in self.claims for name in (claim.series, claim.than) if name is not None)
        names = (row.series for row in self.rows) if self.rows else claimed
        return tuple(dict.fromkeys(names)) or ("",)

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns that it has numbers of, else those that it claims something of."""
        return self.columns or tuple(dict.fromkeys(claim.column for claim in self.claims))

    def curve(self, column: str, series: str = "") -> tuple[tuple[float, tuple[float, ...]], ...]:
        """Return the known values of one column and series: (place, values) by rising place."""
        if column not in self.columns:
            return ()
        index = self.columns.index(column)
        cells = ((row.place, row.values[index]) for row in self.rows if row.series == series)
        values_at = by_key((place, value) for place, value in cells if value is not None)
        return tuple((place, tuple(values_at[place])) for place in sorted(values_at))


def find(name: str, scenario: Path | None = None, where: str = "") -> Path:
    """Return the file of a reference.

    Args:
        name: Its name.
        scenario: The file of the scenario that names it; None for a scenario that has none.
        where: Where it is named, for the message.

    Raises:
        UserError: There is none of that name; says which there are.
    """
    folders = [PROJECT] if scenario is None else [scenario.parent / FOLDER, PROJECT]
    paths = {path.stem: path for folder in reversed(folders) for path in folder.glob(f"*{SUFFIX}")}
    if name in paths:
        return paths[name]
    # The scenario may be a study's copy, beside which the study keeps one of the reference.
    if scenario is not None and scenario.with_name(OF_A_STUDY).is_file() and scenario.with_name(KEPT).is_file():
        return scenario.with_name(KEPT)
    there = f"there are: {', '.join(sorted(paths))}" if paths else "there is none at all"
    places = " or ".join(map(str, dict.fromkeys(folders)))
    raise UserError(
        f"there is no reference {shown(name)}; {there}",
        hint=nearest(name, paths) or f"{name}{SUFFIX} in {places}: published numbers, see {PROJECT / 'README.md'}",
        where=where,
    )


def read(path: Path) -> Reference:
    """Read a reference file.

    Raises:
        UserError: It cannot be read, or is not of the form; says file and line.
    """
    return parse(document.read_text(path, "reference"), str(path))


def parse(text: str, name: str) -> Reference:
    """Read a reference from text; `name` is what messages call it.

    Raises:
        UserError: It is not of the form; says the line.
    """
    lines = text.splitlines()
    length = next((number for number, line in enumerate(lines) if not line.startswith(HEAD)), len(lines))
    # The head's lines keep their numbers.
    parsed = document.parse("\n".join(line.removeprefix(HEAD).removeprefix(" ") for line in lines[:length]), name)
    if not isinstance(parsed.data, dict):
        hint = "it begins with lines such as `# source: Who 2024` and `# x: workers`"
        raise UserError("has no head", where=name, hint=hint)
    try:
        head = Head.model_validate(parsed.data)
    except ValidationError as error:
        raise translate(error, parsed.source, lambda path: (Claim if path[1:] else Head).model_fields) from error
    columns: tuple[str, ...] = ()
    rows: tuple[ReferenceRow, ...] = ()
    # What is claimed without numbers, or whose numbers are not at hand, has no table.
    if any(line.strip() for line in lines[length:]) or not head.claims:
        (where, names), *others = _lines(lines[length:], name, length)
        columns = _columns(names, head, where)
        rows = tuple(_row(cells, names, columns, head, where) for where, cells in others)
        if not rows:
            hint = "one line for each place, below the names of the columns"
            raise UserError("holds no numbers", where=name, hint=hint)
    _check_claims(head, {row.series for row in rows} if rows else None, parsed.source)
    return Reference(**dict(head), columns=columns, rows=rows, text=text)


def _lines(lines: Sequence[str], name: str, offset: int) -> list[tuple[str, list[str]]]:
    """Return the place and the cells of each line of the table that is not empty."""
    reader = csv.reader(lines, strict=True)
    try:
        rows = [(f"{name}:{offset + reader.line_num}", [cell.strip() for cell in cells]) for cells in reader]
    except csv.Error as error:
        raise UserError(f"not readable as CSV: {error}", where=f"{name}:{offset + reader.line_num}") from error
    filled = [(where, cells) for where, cells in rows if any(cells)]
    if not filled:
        raise UserError("has no table below its head", where=name, hint="a line of column names, then one a place")
    return filled


def _columns(names: Sequence[str], head: Head, where: str) -> tuple[str, ...]:
    """Return the measured columns, in the order of the file."""
    keys = [key for key in (head.x, head.series) if key is not None]
    for key in keys:
        if key not in names:
            raise UserError(f"has no column {shown(key)}, which its head names", where=where)
    for column in names:
        if names.count(column) > 1:
            raise UserError(f"has two columns {shown(column)}", where=where)
        if column not in keys and column not in COLUMNS:
            hint = nearest(column, COLUMNS) or f"there are: {', '.join(COLUMNS)}"
            raise UserError(f"unknown column {shown(column)}", where=where, hint=hint)
    measured = tuple(column for column in names if column not in keys)
    if not measured:
        raise UserError("has no measured column", where=where, hint=f"there are: {', '.join(COLUMNS)}")
    return measured


def _row(cells: list[str], names: list[str], columns: tuple[str, ...], head: Head, where: str) -> ReferenceRow:
    if len(cells) != len(names):
        raise UserError(f"has {len(cells)} cells where the table has {len(names)} columns", where=where)
    by_name = dict(zip(names, cells, strict=True))
    place = _number(by_name[head.x], head.x, where)
    is_option = head.x not in PLACES  # such as a bound of 0
    if place is None or place < 0 or (place == 0 and not is_option):
        least = "of 0 or more" if is_option else "above 0"
        raise UserError(f"{head.x} needs a number {least}, not {shown(by_name[head.x])}", where=where)
    series = by_name[head.series] if head.series is not None else ""
    if head.series is not None and not series:
        raise UserError(f"{head.series} is empty", where=where)
    return ReferenceRow(place, series, tuple(_number(by_name[column], column, where) for column in columns))


def _number(cell: str, column: str, where: str) -> float | None:
    """Return the number of a cell, None where it is empty."""
    if not cell:
        return None
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    # Python reads `1_000` and `nan` as numbers, no table does.
    if not math.isfinite(value) or "_" in cell:
        raise UserError(f"{column} needs a number or nothing, not {shown(cell)}", where=where)
    return value


def _check_claims(head: Head, series: set[str] | None, source: Source) -> None:
    """Refuse claims that are made twice, or are about series that are not in the table.

    Without a table any series can be claimed of, where there are several.
    """
    for index, claim in enumerate(head.claims):
        if claim in head.claims[:index]:
            raise UserError("duplicate claim", where=source.where(("claims", index)))
        for key in ("series", "than"):
            named: Any = getattr(claim, key)
            if named is not None and (head.series is None or (series is not None and named not in series)):
                there = f"there are: {', '.join(sorted(series or ()))}" if head.series else "the file has no `series`"
                where = source.where(("claims", index, key))
                raise UserError(f"there is no series {shown(named)}; {there}", where=where)
