"""The table of arms as it fits a terminal: narrower numbers first, then fewer columns; no word is broken."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dlbench.analysis.arm_table import MARGINS, ArmTable, arm_table
from dlbench.analysis.arms import Arm
from dlbench.cli.tables import drawn, width

if TYPE_CHECKING:
    from rich.table import Table

UNKNOWN = "-"
# What is left out first where a terminal is too narrow.
DISPENSABLE = ("validation loss", "efficiency", "steady samples/s", "n", "reached", "validation accuracy")
# Between two columns, and at both sides.
_GAP, _EDGES = 2, 2
# Headings of at most this width stay in one line.
_SHORT = 8


def fitted(found: Sequence[Arm], columns: int) -> tuple[ArmTable, "Table", tuple[str, ...]]:
    """Return the table of arms, the same as drawn on a terminal of so many columns, and the headings left out."""
    table = arm_table(found)
    heads = {heading: heading for heading in table.columns}
    if _width(table, heads) > columns:
        heads = {heading: _in_lines(heading) for heading in table.columns}
    if _width(table, heads) > columns:
        table = arm_table(found, MARGINS)
    left_out = []
    for heading in DISPENSABLE:
        if heading in heads and _width(table, heads) > columns:
            del heads[heading]
            left_out.append(heading)
    right = {head for heading, head in heads.items() if heading not in table.texts}
    columns_shown = (
        [cell or ("" if heading in table.texts else UNKNOWN) for cell in table.columns[heading]] for heading in heads
    )
    return table, drawn("", list(heads.values()), zip(*columns_shown, strict=True), right), tuple(left_out)


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
