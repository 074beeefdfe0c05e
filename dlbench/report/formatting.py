"""Texts from outside with their control characters spelled out, and values of tables."""

from typing import TYPE_CHECKING, Any

from dlbench.errors import shorten, spelled

if TYPE_CHECKING:
    import pandas as pd


def readable(text: str) -> str:
    """Return a text with its control characters spelled out, as on a terminal; a carriage return ends a line."""
    return spelled(text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str, most: int = 300) -> str:
    """Return a readable text on one line, cut in the middle where it is longer than about `most` letters."""
    return shorten(" ".join(readable(text).split()), most)


def values(column: "pd.Series[Any]") -> list[Any]:
    """Return the values of a column as Python's own, None where unknown."""
    return [None if unknown else value for value, unknown in zip(column.tolist(), column.isna().tolist(), strict=True)]
