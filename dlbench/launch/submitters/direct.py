"""Starts the launcher here and now."""

from dlbench.plugins import Options

OPTIONS = Options


def available() -> str:
    """Return "": it needs nothing."""
    return ""
