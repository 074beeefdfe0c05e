"""What a user can fix is a `UserError`; everything else is a defect and keeps its traceback."""

from collections.abc import Iterable
from difflib import get_close_matches

# The line before a `UserError` in the output of the program that prepares a data set.
PREPARATION_REFUSED = "this cannot be prepared:"


class UserError(Exception):
    """Something the user can fix: what is wrong, what is allowed, and a hint.

    Args:
        message: What is wrong and what is allowed, in one or two sentences.
        hint: What to do about it, often a command; shown on a line of its own.
        where: The place of the mistake, such as `scenario.yaml:12`; shown first.
    """

    def __init__(self, message: str, *, hint: str = "", where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n  hint: {self.hint}" if self.hint else text


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return "did you mean 'x'?" for the allowed word nearest to `word`, or an empty string."""
    close = get_close_matches(word, list(allowed), n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else ""


def shown(value: object) -> str:
    """Return a value as a message shows it: its `repr`, shortened."""
    return shorten(repr(value), 60)


def shorten(text: str, most: int = 300) -> str:
    """Return a text of at most about `most` letters, cut in the middle where it is longer."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 4 :]}"
