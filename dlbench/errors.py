"""What a user can fix is a `UserError`; everything else is a defect and keeps its traceback."""

import errno
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

# Characters that a text must not bring into a file or onto a terminal: half a surrogate pair cannot be written, XML
# has no U+FFFE and U+FFFF, control characters steer a terminal, and marks of direction show a line in another order.
# Line ends and tabs are text.
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]|\r(?!\n)"
)
# Colours, moves of the cursor and titles of windows (ECMA-48).
STEERING = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\^_])")
# Of more mistakes the first are shown: they are enough for one reading.
MOST_MISTAKES = 20
# The line before a `UserError` in the output of the program that prepares a data set.
PREPARATION_REFUSED = "this cannot be prepared:"


class UserError(Exception):
    """Something the user can fix: what is wrong, what is allowed, and a hint.

    Args:
        message: What is wrong and what is allowed, in one or two sentences.
        hint: What to do about it, often a command; shown on its own line.
        where: The place of the mistake, such as `scenario.yaml:12`; shown first.
    """

    def __init__(self, message: str, *, hint: str = "", where: str = "") -> None:
        super().__init__(printable(message))
        self.message = printable(message)
        self.hint = printable(hint)
        self.where = printable(where)

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class MistakesError(UserError):
    """Several things that the user can fix, in the order of their lines.

    Args:
        errors: Each of them.
        what: What they are called.
    """

    def __init__(self, errors: Sequence[UserError], what: str) -> None:
        files = {error.where.rpartition(":")[0] or error.where for error in errors}
        lines = first_of([*map(str, errors)], MOST_MISTAKES, "and {} more")
        super().__init__(f"{len(errors)} {what}:\n" + "\n".join(lines), where=files.pop() if len(files) == 1 else "")
        self.errors = tuple(errors)


def joined(errors: Iterable[UserError], what: str = "mistakes") -> UserError:
    """Return several mistakes, each once, as one error; a single one as it is."""
    single = [each for error in errors for each in (error.errors if isinstance(error, MistakesError) else (error,))]
    distinct = sorted({str(error): error for error in single}.values(), key=_line)
    return distinct[0] if len(distinct) == 1 else MistakesError(distinct, what)


def _line(error: UserError) -> int:
    """Return the line of a mistake in its file; 0 where it is in none."""
    line = error.where.rpartition(":")[2]
    return int(line) if line.isdecimal() else 0


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return "did you mean 'x'?" for the allowed word nearest to `word`, or an empty string.

    What stands before the last dot of both is not compared: it would make every option of a plugin near. Initials stand
    for their words: `lr` for `learning_rate`.
    """
    names = list(allowed)
    head = word[: word.rfind(".") + 1]
    if not any(name.startswith(head) for name in names):
        head = ""
    tails = {name.removeprefix(head): name for name in names if name.startswith(head)}
    tail = word.removeprefix(head)
    initials = [name for name in tails if len(tail) > 1 and tail == "".join(part[:1] for part in name.split("_"))]
    close = initials or get_close_matches(tail, tails, n=1, cutoff=0.6)
    return f"did you mean {tails[close[0]]!r}?" if close else ""


def first_of(texts: Sequence[str], most: int, more: str) -> list[str]:
    """Return at most the first `most` texts, and of longer lists one on the others: `more`, with their number in it."""
    return [*texts[:most], *([more.format(len(texts) - most)] if len(texts) > most else [])]


def on_one_line(error: Exception) -> str:
    """Return an error as one line, with a hint as its last part."""
    return " ".join(str(error).replace("\n  hint:", ";").split())


def shown(value: object) -> str:
    """Return a value as a message shows it: its `repr`, shortened."""
    try:
        return shorten(repr(value), 60)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return "a whole number of thousands of digits"


def printable(text: str) -> str:
    """Return a text that can be written and shown: what steers a terminal or is no character is spelled out."""
    return spelled(text).replace("\r\n", "\n")


def spelled(text: str) -> str:
    """Return what `printable` does, with line ends as they are; JSON stays JSON of the same value."""
    if text.isprintable():
        return text
    # JSON has no `\x`, and already escapes what is below 0x20.
    return _UNSAFE.sub(lambda sign: f"\\x{ord(sign[0]):02x}" if sign[0] < " " else f"\\u{ord(sign[0]):04x}", text)


def shorten(text: str, most: int = 300) -> str:
    """Return a text of at most about `most` letters, cut in the middle where it is longer."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 4 :]}"


# What is said of errors of the system that no code can do anything about.
LACKING = {
    errno.EMFILE: "too many files are open; `ulimit -n` is the limit",
    errno.ENFILE: "too many files are open on this machine",
    errno.EAGAIN: "no other process or thread can be started; `ulimit -u` is the limit of this user's",
    errno.ENOMEM: "there is no memory left",
    errno.EFBIG: "a file would be larger than is allowed; `ulimit -f` is the limit",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota of the disk is used up",
    errno.EROFS: "the disk can only be read",
    errno.ENAMETOOLONG: "this is too long for a path",
}


def unwritable(error: OSError, path: object, hint: str = "") -> UserError:
    """Return why a file, or one in a folder, cannot be written."""
    return UserError(f"cannot be written: {error.strerror or error}", where=str(error.filename or path), hint=hint)


# In messages of the loader about a library, and of Python about a call, when memory has run out.
_MEMORY_SIGNS = re.compile("failed to map segment|annot allocate memory|returned NULL without setting an exception")


def lacking(error: Exception) -> str:
    """Return what the system does not give, where that is what an error says; else an empty text."""
    text = str(error)
    if isinstance(error, MemoryError) or (isinstance(error, ImportError | SystemError) and _MEMORY_SIGNS.search(text)):
        return LACKING[errno.ENOMEM]
    if isinstance(error, RuntimeError):
        if "Could not determine home directory" in text:
            return "the home folder is not known; HOME names it"
        return LACKING[errno.EAGAIN] if "can't start new thread" in text else ""
    if not isinstance(error, OSError):
        return ""
    if isinstance(error, FileNotFoundError) and "No usable temporary directory" in str(error):
        return f"no folder for temporary files can be written ({error.strerror}); TMPDIR names one"
    if isinstance(error, FileExistsError) and error.filename is not None:
        return f"{error.filename}: cannot be written: {error.strerror}"
    what = LACKING.get(error.errno or 0, "")
    return f"{error.filename}: {what}" if what and error.filename is not None else what
