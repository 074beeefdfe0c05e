"""A small text file that a user has written: read whole, or refused with the reason."""

from pathlib import Path

from dlbench.errors import UserError
from dlbench.scenario.document import MAX_BYTES


def read_text(path: Path, kind: str) -> str:
    """Return the text of a file.

    Args:
        path: The file.
        kind: What it should be, for messages: `scenario`, `cluster`.

    Raises:
        UserError: It cannot be read, is no UTF-8, or is larger than such a file ever is.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except IsADirectoryError as error:
        raise UserError(f"is a folder, not a {kind} file", where=name, hint=_inside(path)) from error
    except FileNotFoundError as error:
        raise UserError("there is no such file", where=name, hint=_inside(path.parent)) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"cannot be read: {reason}", where=name) from error
    if len(content) > MAX_BYTES:
        raise UserError(f"larger than {MAX_BYTES} bytes, which no {kind} is", where=name)
    return _decoded(content, name)


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError("not UTF-8 text", where=f"{name}:{line}", hint="is it a text file?") from error


def _inside(folder: Path) -> str:
    """Name a few YAML files of a folder, as a hint."""
    try:
        found = sorted(path.name for path in folder.glob("*.y*ml"))[:5]
    except OSError:
        return ""
    return f"in {str(folder) or '.'} there are: {', '.join(found)}" if found else ""
