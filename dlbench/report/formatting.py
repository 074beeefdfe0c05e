"""Texts from outside with their control characters made visible, and values of tables."""

import re
from typing import TYPE_CHECKING, Any

from dlbench.errors import shorten

if TYPE_CHECKING:
    import pandas as pd

# Control characters but for tab and newline, halves of surrogate pairs, and what turns the direction of a line.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
# The block of pictures of control characters begins with NUL's, U+2400.
_PICTURES, _DELETE, _PICTURE_OF_DELETE = 0x2400, 0x7F, "\u2421"


def readable(text: str) -> str:
    """Return a text with its control characters made visible: `␛` for escape, `[U+202E]` for a turned direction."""
    return _HIDDEN.sub(_picture, text.replace("\r\n", "\n").replace("\r", "\n")) if _HIDDEN.search(text) else text


def _picture(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < ord(" "):
        return chr(_PICTURES + code)
    return _PICTURE_OF_DELETE if code == _DELETE else f"[U+{code:04X}]"


def one_line(text: str, most: int = 300) -> str:
    """Return a readable text on one line, cut in the middle where it is longer than about `most` letters."""
    return shorten(" ".join(readable(text).split()), most)


def values(column: "pd.Series[Any]") -> list[Any]:
    """Return the values of a column as Python's own, None where unknown."""
    return [None if unknown else value for value, unknown in zip(column.tolist(), column.isna().tolist(), strict=True)]
