"""Where Python looks for modules: libraries first, the working folder last, and only for what the user named.

`python -m` and `python -c` put the working folder first: a `json.py` that lies there would run as the user, in every
command and on every host. `-P` leaves it out.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

# What `-P` is for processes that a library starts, with words of its own.
_VARIABLE = "PYTHONSAFEPATH"


def program(module: str) -> tuple[str, ...]:
    """Return the words that make an interpreter run a module, with none of the working folder in its place."""
    return ("-P", "-m", module)


def allow_working_folder() -> None:
    """Look in the working folder too, after everywhere else: a module that the user named is about to be imported."""
    with contextlib.suppress(OSError):  # the folder may be gone; only such modules miss it
        folder = str(Path.cwd())
        if folder not in sys.path:
            sys.path.append(folder)


@contextlib.contextmanager
def libraries_alone() -> Iterator[None]:
    """Leave the working folder out of the path of interpreters that a library starts meanwhile."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
