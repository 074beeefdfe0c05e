"""Places in the command of a user's script that settings are filled into: `{workers}`, `{strategy.chunk_bytes}`.

Doubled braces stand for one. Other braces, as of JSON, are left as they are.
"""

import re
from collections.abc import Callable, Collection

# What no other start of a run has, such as for the name of a folder; it is no setting.
ATTEMPT = "attempt_id"
_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_.]*)\}")
# What is close to one: blanks within, a format, doubled braces.
_NEAR = re.compile(r"\{\{\s*([A-Za-z_][\w.]*)\s*\}\}|\{\s*([A-Za-z_][\w.]*)\s*(?:[:!][^{}\s]+)?\}")


def names(text: str) -> list[str]:
    """Return the names that a text asks for, in order."""
    return [name for name in _PLACE.findall(text) if name]


def unfilled(text: str, known: Collection[str]) -> list[str]:
    """Return the parts of a text that are written almost as places of known names, and are left as they are."""
    return [it[0] for it in _NEAR.finditer(text) if (it[1] or it[2]) in known and not _PLACE.fullmatch(it[0])]


def fill(text: str, value: Callable[[str], str]) -> str:
    """Return a text with the value of each name in its place."""
    return _PLACE.sub(lambda place: place[0][0] if place[1] is None else value(place[1]), text)
