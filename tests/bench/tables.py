"""Makes the tables of results/bench/README.md from the rows beside it.

Each section has a block there, between two comments. Where the section has rows, the block is what `block` returns, to
the byte; where it has none, what stands there stays.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import floor, log10
from pathlib import Path
from typing import Any

import pandas as pd

from dlbench.analysis.statistics.intervals import Interval, median_interval
from dlbench.report.markdown import table
from tests.bench.rows import Row, read

DIGITS = 4


@dataclass(frozen=True)
class Comparison:
    """Two sides that are compared within each turn.

    Attributes:
        difference: Subtract the second from the first, in the unit of the values; else divide their speeds.
        aim: What is aimed at, such as ">= 0.99"; may be empty.
    """

    first: str
    second: str
    aim: str = ""
    difference: bool = False


def publish(lines: Iterable[str], cells: Iterable[Any], output: Path | None, name: str) -> None:
    """Print the page of a simulation; write it as `README.md`, and its cells as a CSV file, where there is a folder.

    Args:
        lines: Of the page.
        cells: What was simulated: dataclasses of one kind.
        output: The folder.
        name: Of the CSV file.
    """
    text = "\n".join(lines) + "\n"
    print(text)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(map(asdict, cells)).to_csv(output / name, index=False, float_format="%.5g")
        (output / "README.md").write_text(text)


def update(readme: Path, comparisons: dict[str, Sequence[Comparison]]) -> str:
    """Return the text of the README with the block of each section that has rows made anew.

    Raises:
        ValueError: A section has not exactly one block.
    """
    text = readme.read_text()
    for section, compared in comparisons.items():
        begin, end = f"<!-- begin {section} -->\n", f"<!-- end {section} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"{readme}: the section {section} needs one block, from {begin.strip()} to {end}")
        path = readme.parent / f"{section}.csv"
        if path.exists():
            made = block(read(path), compared)
            text = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: begin + made + end, text, flags=re.DOTALL)  # noqa: B023
    return text


def block(rows: Sequence[Row], comparisons: Iterable[Comparison]) -> str:
    """Return the text of one section: where and when, the medians, and what compares.

    Raises:
        ValueError: There is no row, or a value has several units.
    """
    if not rows:
        raise ValueError("a table needs rows")
    compared = [line for comparison in comparisons for line in _compared(rows, comparison)]
    parts = [_origin(rows), _table(("what", "median [interval]", "n", "coverage"), _medians(rows))]
    if compared:
        parts.append(_table(("within each turn", "median [interval]", "turns", "coverage", "aim"), compared))
    return "\n".join(parts)


def _origin(rows: Sequence[Row]) -> str:
    times = sorted(row.started_at for row in rows)
    where = " / ".join(dict.fromkeys(f"{row.processor}; {row.versions}" for row in rows))
    return f"Measured from {times[0]} to {times[-1]} on {where}.\n"


def _medians(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.pair, row.order)):
        found.setdefault((row.what, row.side), []).append(row)
    lines = []
    for (what, side), own in found.items():
        (unit,) = {row.unit for row in own}
        interval = median_interval([row.value for row in own])
        lines.append((f"{what}: {side}" if side else what, *_cells(interval, unit)))
    return lines


def _compared(rows: Sequence[Row], comparison: Comparison) -> list[tuple[str, ...]]:
    lines = []
    for what in dict.fromkeys(row.what for row in rows):
        first, second = (
            {row.pair: row for row in rows if row.what == what and row.side == side}
            for side in (comparison.first, comparison.second)
        )
        pairs = sorted(first.keys() & second.keys())
        if not pairs:
            continue
        values, unit = [(first[pair].value, second[pair].value) for pair in pairs], first[pairs[0]].unit
        if comparison.difference:
            cells = _cells(median_interval([a - b for a, b in values]), unit)
            lines.append((f"{what}: {comparison.first} - {comparison.second}", *cells, comparison.aim))
        else:
            # Twice the time of a step is half the speed.
            cells = _cells(median_interval([a / b if unit.endswith("/s") else b / a for a, b in values]), "")
            lines.append((f"{what}: speed of {comparison.first} / {comparison.second}", *cells, comparison.aim))
    return lines


def _cells(interval: Interval, unit: str) -> tuple[str, str, str]:
    """Return a median with its interval, the number of values, and what the interval covers."""
    ends = [end for end in (interval.low, interval.high) if end is not None]
    # All three to the same place: the last digit that is shown of the largest.
    largest = max(abs(number) for number in (interval.value, *ends))
    places = max(0, DIGITS - 1 - (floor(log10(largest)) if largest else 0))
    bracket = f" [{', '.join(f'{end:,.{places}f}' for end in ends)}]" if ends else ""
    coverage = "" if interval.coverage is None else f"{interval.coverage:.1%}"
    return f"{interval.value:,.{places}f}{bracket} {unit}".strip(), str(interval.n), coverage


def _table(header: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(table(header, lines)) + "\n"
