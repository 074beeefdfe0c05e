"""Imports of large libraries: without what they write to file descriptor 2, and without what they need not load."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

# Keras looks for these at import, for conveniences that dlbench does not use; they take a second to load.
UNNEEDED = ("matplotlib", "matplotlib.pyplot", "pandas", "sklearn")


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back what is written to file descriptor 2; write it out only if the block fails."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(kept, 2)
            held_back.seek(0)
            with open(2, "wb", closefd=False) as stderr:
                shutil.copyfileobj(held_back, stderr)
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextmanager
def without(names: tuple[str, ...]) -> Iterator[None]:
    """Make modules that are not loaded yet unimportable inside the block: optional imports then find nothing."""
    blocked = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(blocked))  # type: ignore[arg-type]  # None is how Python blocks an import
    try:
        yield
    finally:
        for name in blocked:
            if sys.modules.get(name) is None:
                sys.modules.pop(name, None)
