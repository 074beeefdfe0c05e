"""Markdown (GitHub's) in which every text from outside stays text."""

import html
import re
from collections.abc import Collection, Iterable, Sequence

from dlbench.analysis.formatting import one_line

# Longer texts are cut in the middle; the page has them in full.
MOST = 400
# An underscore within a word, as in `batch_size`, marks nothing.
_MARKS = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")
# What would begin a heading, a list or a rule.
_BEGINNING = re.compile(r"^(\d{1,9}(?=[.)](?:\s|$)))?([#+=.)-])")


def escaped(text: str, most: int = MOST) -> str:
    """Return a text as one line of Markdown that shows it as it is: no mark-up, no HTML, no formula, no new cell."""
    line = _MARKS.sub(r"\\\g<0>", html.escape(one_line(text, most), quote=False))
    return _BEGINNING.sub(r"\1\\\2", line)


def table(headings: Sequence[str], rows: Iterable[Iterable[str]], numbers: Collection[str] = ()) -> list[str]:
    """Return a table as lines, of cells that are ready; columns with these headings are aligned as numbers are."""
    ruler = ["---:" if heading in numbers else "---" for heading in headings]
    return [f"| {' | '.join(cells)} |" for cells in (headings, ruler, *rows)]
