"""The table of arms as it fits a terminal: narrower numbers first, then fewer columns; no word is broken.

Columns in which all arms are equal go first, then measures, and settings last.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dlbench.analysis.arm_table import MARGINS, ArmTable, arm_table
from dlbench.analysis.arms import Arm, reported
from dlbench.analysis.groups import written_name
from dlbench.analysis.summary_tables import LEADING
from dlbench.cli.tables import drawn, width
from dlbench.scenario.metrics import BUILT_IN, QUALITY

if TYPE_CHECKING:
    from rich.table import Table

UNKNOWN = "-"
# The columns behind those of settings begin with it.
REPEATS = "n"
# Measures in the order in which they are left out.
DISPENSABLE = (
    "validation loss",
    "efficiency",
    "steady samples/s",
    "n",
    "reached",
    *(BUILT_IN[name].title for name in QUALITY[:2]),
)
# Between two columns, and at both sides.
_GAP, _EDGES = 2, 2
# Headings of at most this width stay in one line.
_SHORT = 8


def fitted(found: Sequence[Arm], columns: int) -> tuple[ArmTable, "Table", tuple[str, ...]]:
    """Return the table of arms, the same as drawn on a terminal of this many columns, and notes on what is left out."""
    table = arm_table(found)
    heads = {heading: heading for heading in table.columns}
    if _width(table, heads) > columns:
        heads = {heading: _in_lines(heading) for heading in table.columns}
    if _width(table, heads) > columns:
        table = arm_table(found, MARGINS)
    equal = [heading for heading, cells in table.columns.items() if len(found) > 1 and len(set(cells)) == 1]
    left_out = []
    of_scripts = [name.replace("_", " ") for name in reported([row for arm in found for row in arm.completed])]
    for heading in dict.fromkeys((*equal, *of_scripts[::-1], *DISPENSABLE, *_settings(table))):
        if heading in heads and _width(table, heads) > columns:
            del heads[heading]
            left_out.append(heading)
    alike = ", ".join(f"{heading} {table.columns[heading][0]}" for heading in left_out if heading in equal)
    differing = ", ".join(heading for heading in left_out if heading not in equal)
    notes = (alike and f"equal in all arms: {alike}", differing and f"too wide for this terminal: {differing}")
    right = {head for heading, head in heads.items() if heading not in table.texts}
    columns_shown = (
        [cell or ("" if heading in table.texts else UNKNOWN) for cell in table.columns[heading]] for heading in heads
    )
    drawing = drawn("", list(heads.values()), zip(*columns_shown, strict=True), right)
    return table, drawing, tuple(filter(None, notes))


def _settings(table: ArmTable) -> list[str]:
    """Return the columns of settings but one in the order in which they are left out: what readers look for last."""
    headings = list(table.columns)
    of_settings = headings[: headings.index(REPEATS)]
    leading = [heading for heading in map(written_name, LEADING) if heading in of_settings]
    return [*leading, *(heading for heading in of_settings if heading not in leading)][:0:-1]


def _width(table: ArmTable, heads: Mapping[str, str]) -> int:
    """Return how wide some columns of a table are when they are drawn, by heading, each with what is written there."""
    widths = [max(map(width, (*head.split("\n"), *table.columns[heading]))) for heading, head in heads.items()]
    return sum(widths) + _GAP * (len(widths) - 1) + _EDGES


def _in_lines(heading: str) -> str:
    """Return a heading with line ends between its words: after spaces, points and underscores."""
    lines = [""]
    for word in re.findall(r"[^ ._]+[ ._]?", heading):
        if lines[-1] and len(lines[-1] + word.rstrip()) > _SHORT:
            lines.append("")
        lines[-1] += word
    return "\n".join(line.rstrip() for line in lines)
