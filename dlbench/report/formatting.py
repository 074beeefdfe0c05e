"""Texts from outside with their control characters spelled out."""

from dlbench.errors import shorten, spelled


def readable(text: str) -> str:
    """Return a text with its control characters spelled out, as on a terminal; a carriage return ends a line."""
    return spelled(text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str, most: int = 300) -> str:
    """Return a readable text on one line, cut in the middle where it is longer than about `most` letters."""
    return shorten(" ".join(readable(text).split()), most)
